"""How long an end may take, whatever hangs: a database that stands still answers no rollback and no goodbye."""

import os
import threading

import structlog

RESERVE_S = 1.0
"""For what comes after the process: an embedded PostgreSQL notices its end, and closes in order."""

_log = structlog.get_logger(__name__)


def end_within(seconds: float) -> None:
    """Let the process end, with exit status 0, before `seconds` from now have passed.

    Nothing is lost by that: what was acknowledged is durable, and what was cut off is like after a kill.
    """
    timer = threading.Timer(max(seconds - RESERVE_S, 0.0), _end)
    timer.daemon = True
    timer.start()


def _end() -> None:
    _log.warning("ended_at_the_deadline")
    os._exit(0)
