"""Erasing in the generation that is kept for rollback: no query reads it, and still it must forget.

A session deleted after the flip has all its rows there from before its delete, so all of them go. Rolled back and
projected on, the tables come to the same delete and so to the same state (fold.md, "The law").
"""

from collections.abc import Sequence
from uuid import UUID

from turnlog.projections.statement import Connection
from turnlog.projections.tables import CONTENT_COLUMNS, generation_schema

_DOOMED = """
SELECT f.session_id FROM fences AS f
JOIN checkpoints AS c ON c.generation = $2 AND c.partition = f.partition
WHERE f.session_id = ANY($1::uuid[]) AND f.last_delete >= c.next_offset
"""


async def forget(connection: Connection, previous: int, session_ids: Sequence[UUID]) -> None:
    """Remove what the generation `previous` holds of those of these sessions that were deleted since its time."""
    doomed = [row[0] for row in await connection.fetch(_DOOMED, session_ids, previous)]
    if not doomed:
        return
    for table in CONTENT_COLUMNS:
        sql = f"DELETE FROM {generation_schema(previous)}.{table} WHERE session_id = ANY($1::uuid[])"  # noqa: S608 - names of ours
        await connection.execute(sql, doomed)
