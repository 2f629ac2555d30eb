"""Getting erased bytes out of Postgres' own files: rewriting the heaps that held them."""

from turnlog.projections.statement import Connection

_REWRITTEN = (
    "transcript_entries",
    "agent_messages",
    "resume_points",
    "attachments",
    "sessions",
    "turnlog.event_log",
)


async def rewrite(connection: Connection, *, lock_timeout_ms: int) -> None:
    """Rewrite every table that holds content, so that no dead row version remains, then checkpoint.

    Takes each table's exclusive lock while it is rewritten (seconds for a gigabyte); gives up on one that isn't free
    within `lock_timeout_ms`.
    """
    await connection.execute(f"SET lock_timeout = {int(lock_timeout_ms)}")
    try:
        for table in _REWRITTEN:
            await connection.execute(f"VACUUM (FULL) {table}")
    finally:
        await connection.execute("RESET lock_timeout")
    await connection.execute("SELECT pg_switch_wal()")
    await connection.execute("CHECKPOINT")
