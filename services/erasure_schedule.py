"""How often the eraser does what. The defaults keep the stated bound of 48 h."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErasureSchedule:
    """`interval_s`: between rounds. `tick_s`: between tick records on a partition that isn't verified yet.

    `verify_after_ms`: how long after asking the log the first look is. `rewrite_s`: least time between two rewrites of
    the tables; `lock_timeout_ms`: how long a rewrite waits for a table.
    """

    interval_s: float = 1.0
    tick_s: float = 6 * 3600.0
    verify_after_ms: int = 0
    rewrite_s: float = 24 * 3600.0
    lock_timeout_ms: int = 5_000
