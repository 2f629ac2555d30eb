"""How often the eraser does what. The defaults keep the stated bound of 48 h."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErasureSchedule:
    """`interval_s`: between looks for work. `tick_s`: between tick records on a partition that isn't verified yet.

    `verify_s`: between looks whether what the log was asked to erase is gone; 0 where that is so at once.
    `rewrite_s`: least time between two rewrites of the tables, 0 for none at all. A rewrite that finds a table in use
    waits `lock_timeout_ms` for it, then tries again after `retry_s`; a table larger than `rewrite_max_bytes` is left
    to the operator. `lock_timeout_ms` must be above Postgres' `deadlock_timeout` (1 s), after which an autovacuum that
    is in the way gives up.
    """

    interval_s: float = 1.0
    tick_s: float = 6 * 3600.0
    verify_s: float = 0.0
    rewrite_s: float = 24 * 3600.0
    retry_s: float = 60.0
    rewrite_max_bytes: int = 1 << 30
    lock_timeout_ms: int = 2_000
