"""Advisory locks of the database: what must not run twice, or not beside another, in any process.

Each is held by one connection and ends with it, so that no kill leaves one behind.
"""

from enum import IntEnum

from turnlog.projections.statement import Connection


class Lock(IntEnum):
    """The locks. The numbers are "turnlog" in ASCII, then one byte."""

    MAINTENANCE = 0x7475726E6C6F6701
    """Held by a verify or a rebuild: whoever makes or drops generations other than the live one."""
    ERASING = 0x7475726E6C6F6702
    """Held while records are erased, tables rewritten, generations flipped, or values must stay for a comparison."""


async def try_lock(connection: Connection, lock: Lock) -> bool:
    """Take the lock if it is free; it is held until the connection closes. Never waits."""
    got: bool = await connection.fetchval("SELECT pg_try_advisory_lock($1)", int(lock))
    return got
