"""Getting erased bytes out of Postgres' own files: rewriting the heaps that held them, then letting go of old WAL.

A deleted or overwritten row version keeps its bytes in its page, even vacuumed. `VACUUM FULL` writes the live rows into
new files and removes the old ones.
"""

import re
from typing import NamedTuple

import anyio.lowlevel
import asyncpg

from turnlog.projections.generations import live_generation, previous_generation
from turnlog.projections.statement import Connection
from turnlog.projections.tables import CONTENT_COLUMNS, generation_schema

_LOG_TABLE = "turnlog.event_log"
_SIZE = "SELECT coalesce(pg_table_size(to_regclass($1)), 0)"
_MAY_CHECKPOINT = """
SELECT has_function_privilege('pg_switch_wal()', 'EXECUTE') AND pg_has_role('pg_checkpoint', 'USAGE')
"""


class Rewritten(NamedTuple):
    """What a rewrite reached. `kept` counts dead row versions that an older snapshot somewhere still needs."""

    kept: int


async def content_tables(connection: Connection) -> list[str]:
    """Every table that holds content, with its schema: of the live and the kept generation, and of the event log."""
    generations = [await live_generation(connection), await previous_generation(connection)]
    schemas = [generation_schema(generation) for generation in generations if generation is not None]
    return [f"{schema}.{table}" for schema in schemas for table in CONTENT_COLUMNS] + [_LOG_TABLE]


async def size(connection: Connection, table: str) -> int:
    """Bytes of a table without its indexes."""
    found: int = await connection.fetchval(_SIZE, table)
    return found


async def rewrite(connection: Connection, table: str, *, lock_timeout_ms: int) -> Rewritten:
    """Write a table and its indexes anew. Nobody else can read or write it meanwhile.

    Raises the driver's LockNotAvailableError if it isn't free within `lock_timeout_ms`. Needs a patient connection.
    """
    kept: list[int] = []

    def heard(_connection: object, message: asyncpg.PostgresLogMessage) -> None:
        # "N dead row versions cannot be removed yet", in whatever language the server speaks.
        number = re.search(r"\d+", message.detail or "")
        if number:
            kept.append(int(number[0]))

    connection.add_log_listener(heard)
    try:
        await connection.execute(f"SET lock_timeout = {int(lock_timeout_ms)}")
        await connection.execute(f"VACUUM (FULL, VERBOSE) {table}")
        await anyio.lowlevel.checkpoint()  # the driver hands messages over in the loop's next round
    finally:
        connection.remove_log_listener(heard)
        if not connection.is_closed():
            await connection.execute("RESET lock_timeout")
    return Rewritten(sum(kept))


async def drop_old_wal(connection: Connection) -> bool:
    """Close the WAL segment and checkpoint, so that the server needs none before it. False if the role may not.

    Whether the server then removes segments or keeps them to be overwritten is its setting `wal_recycle`.
    """
    if not await connection.fetchval(_MAY_CHECKPOINT):
        return False
    await connection.execute("SELECT pg_switch_wal()")
    await connection.execute("CHECKPOINT")
    return True
