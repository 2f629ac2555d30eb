"""The guard of `conftest.py` itself: it must bite, or its silence means nothing."""

import time
from pathlib import Path

import pytest
from blockbuster import BlockingError

import turnlog
from turnlog.infra import embedded_postgres

OURS = str(Path(turnlog.__path__[0], "infra", "made_up.py"))


async def test_a_blocking_call_of_ours_inside_the_event_loop_is_an_error() -> None:
    called: dict[str, object] = {"time": time}
    exec(compile("def block(): time.sleep(0.001)", OURS, "exec"), called)  # noqa: S102 - code that claims to be ours
    block = called["block"]
    assert callable(block)
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        block()


def test_our_modules_say_that_they_come_from_where_the_guard_looks() -> None:
    assert embedded_postgres._stop.__code__.co_filename.startswith(turnlog.__path__[0])


def test_outside_of_an_event_loop_blocking_is_fine() -> None:
    time.sleep(0.001)
