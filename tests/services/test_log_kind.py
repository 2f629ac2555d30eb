"""Tables belong to one log; a start with another kind is refused before anything is touched."""

from uuid import uuid4

import pytest

from turnlog.domain.errors import Misconfigured
from turnlog.projections.log_identity import LogIdentity, refuse_other_kind


def test_a_log_of_another_kind_is_refused_by_name() -> None:
    known = LogIdentity(uuid4(), "postgres", None, 1)
    with pytest.raises(Misconfigured, match="from a postgres log, this start uses a kafka log"):
        refuse_other_kind(known, "kafka")
    refuse_other_kind(known, "postgres")
    refuse_other_kind(None, "kafka")
