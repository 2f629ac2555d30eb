"""The collector of a serving process looks less often, but it looks."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from turnlog.services.garbage import YOUNG_OBJECTS, look_for_garbage_less_often


class _Loop:
    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def collector_of_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_cycles_are_still_found_and_what_existed_before_is_not_looked_at_again() -> None:
    kept = _Loop()
    look_for_garbage_less_often()
    assert gc.get_freeze_count() > 1_000
    assert gc.get_threshold()[0] == YOUNG_OBJECTS > 700
    gone = weakref.ref(_Loop())
    assert gone() is not None
    living = [[] for _ in range(2 * YOUNG_OBJECTS)]  # type: ignore[var-annotated]
    assert gone() is None
    assert kept.self is kept and living
