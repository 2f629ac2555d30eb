"""Places where a test can have the process killed: `TURNLOG_FAILPOINT=<name>:<nth>` sends SIGKILL at the nth pass.

Without the variable, `failpoint` does nothing.
"""

import os
import signal
from collections.abc import Callable
from typing import Final

VARIABLE: Final = "TURNLOG_FAILPOINT"

NAMES: Final = (
    "before-load",
    "after-load",
    "after-fold",
    "mid-apply",
    "before-commit",
    "after-commit",
    "before-notify",
)
"""The projector's failpoints, in the order in which a batch passes them."""

ERASER_NAMES: Final = (
    "before-erase",
    "after-erase",
    "before-verified",
    "before-rewrite",
    "before-rewritten",
    "before-receipt",
    "after-receipt",
)
"""The eraser's, in the order in which an erasure passes them."""

REBUILD_NAMES: Final = ("after-refold", "before-flip", "after-flip")
"""Those of a rebuild; the first is passed after every batch."""


def _nothing(name: str) -> None:
    """What `failpoint` is when none is armed."""


def _armed(setting: str) -> Callable[[str], None]:
    wanted, _, nth = setting.partition(":")
    known = NAMES + ERASER_NAMES + REBUILD_NAMES
    if wanted not in known or not nth.isdecimal():
        raise ValueError(f"{VARIABLE} must be <name>:<nth>, the name one of {', '.join(known)}")
    left = int(nth)

    def reached(name: str) -> None:
        nonlocal left
        if name != wanted:
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


failpoint: Final = _armed(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else _nothing
"""Marks the place called `name`."""
