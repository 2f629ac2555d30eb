"""Row 9: bytes in the projection tables per turn, all indexes, event index and requests included, after a vacuum."""

import asyncpg

from tests.bench.append import drained, session_keys
from tests.bench.ratio import Row
from tests.bench.turns import joined, new_turn
from turnlog.projections.tables import PROJECTION_TABLES, generation_schema
from turnlog.services.composition import Turnlog

TURNS = 20_000

_TABLES = [f"{generation_schema(1)}.{table.name}" for table in PROJECTION_TABLES] + ["turnlog.requests"]
_SIZE = "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest($1::text[]) AS name"


async def size_row(log: Turnlog, dsn: str) -> Row:
    """Grows the tables by `TURNS` turns of 16 sessions and compares with the entries' own bytes."""
    connection = await asyncpg.connect(dsn)
    try:
        before = await _size(connection)
        own = 0
        keys = session_keys("size")
        for number in range(TURNS):
            key = keys[number % len(keys)]
            turn = new_turn(key)
            own += len(joined(turn)) - 1
            await log.conversations.save_entries(key, turn)
        await drained(log)
        grown = await _size(connection) - before
        in_log = await connection.fetchval("SELECT pg_total_relation_size('turnlog.event_log')")
    finally:
        await connection.close()
    note = f"{own / TURNS:.0f} B of entries a turn; the log's table, apart: {in_log / 2**20:.0f} MiB in all"
    return Row("bytes in the projection tables per turn", 1.6, [grown / own], at_least=False, gate=True, notes=[note])


async def _size(connection: "asyncpg.Connection[asyncpg.Record]") -> int:
    for table in _TABLES:
        await connection.execute(f"VACUUM {table}")
    return int(await connection.fetchval(_SIZE, _TABLES))
