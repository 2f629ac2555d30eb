"""What one process tells another of endings."""

import pytest

from turnlog.domain.errors import BadInput
from turnlog.domain.fold.effects import EndingKind
from turnlog.services.applied_hints import EndingHint


@pytest.mark.parametrize("key", ["agent:a:team:t", "a key with spaces", " ", "k" * 1024])
def test_an_ending_reads_as_it_was_written_and_fits_a_notification(key: str) -> None:
    hint = EndingHint(3, 17, EndingKind.CLEAR, key)
    assert EndingHint.read(hint.written()) == hint
    assert len(hint.written().encode()) < 8000


@pytest.mark.parametrize("text", ["", "1", "1 0-1", "x 0-1 key", "1 nowhere key", "9 0-1 key"])
def test_what_is_no_ending_is_refused(text: str) -> None:
    with pytest.raises((ValueError, BadInput)):
        EndingHint.read(text)
