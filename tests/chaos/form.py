"""How much chaos: a few minutes by default, ten times as much with TURNLOG_TEST_CHAOS=long."""

import os

LONG = os.environ.get("TURNLOG_TEST_CHAOS") == "long"
FACTOR = 10 if LONG else 1


def times(count: int) -> int:
    """`count` in the short form, ten times as many in the long one."""
    return count * FACTOR


def timeout_s(seconds: int) -> int:
    """A test's time limit in this form; `seconds` is the short one's."""
    return seconds * FACTOR
