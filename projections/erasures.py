"""The `erasures` ledger: receipts of sessions whose records are all gone from the log."""

from typing import NamedTuple
from uuid import UUID

from turnlog.projections.statement import Connection

_FINISHED = """
SELECT f.session_id, f.partition, f.last_delete, count(*) AS records
FROM fences AS f
JOIN erasure_outbox AS o ON o.session_id = f.session_id
WHERE NOT EXISTS (SELECT FROM erasures AS e WHERE e.session_id = f.session_id AND e.last_delete = f.last_delete)
GROUP BY f.session_id, f.partition, f.last_delete
HAVING bool_and(o.erased_at IS NOT NULL)
ORDER BY f.last_delete LIMIT $1
"""
_RECORD = """
INSERT INTO erasures (session_id, last_delete, partition, records) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING
"""


class Finished(NamedTuple):
    """A deleted session all of whose records are erased: how many, and the offset of its last delete."""

    session_id: UUID
    partition: int
    last_delete: int
    records: int


async def without_receipt(connection: Connection, limit: int) -> list[Finished]:
    """Finished erasures that have no receipt yet."""
    return [Finished(*row) for row in await connection.fetch(_FINISHED, limit)]


async def record(connection: Connection, finished: Finished) -> None:
    """Write the receipt."""
    await connection.execute(
        _RECORD, finished.session_id, finished.last_delete, finished.partition, finished.records
    )
