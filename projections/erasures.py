"""The `erasures` ledger: receipts of sessions whose records are all gone."""

from typing import NamedTuple
from uuid import UUID

from turnlog.domain.events import EventType
from turnlog.projections.statement import Connection

_FINISHED = """
WITH open AS MATERIALIZED (
  SELECT f.session_id, f.partition, f.last_delete FROM fences AS f
  WHERE NOT EXISTS (SELECT FROM erasures AS e WHERE e.session_id = f.session_id AND e.last_delete = f.last_delete)
)
SELECT open.session_id, open.partition, open.last_delete, o.records
FROM open CROSS JOIN LATERAL (
  SELECT count(*) AS records, bool_and(erased_at IS NOT NULL AND (rewritten_at IS NOT NULL OR NOT $2::bool)) AS gone
  FROM erasure_outbox WHERE session_id = open.session_id
) AS o
WHERE o.gone ORDER BY open.partition, open.last_delete LIMIT $1
"""
_RECORD = """
INSERT INTO erasures (session_id, last_delete, partition, records) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING
"""
_IN_LOG = f"""
SELECT EXISTS (SELECT FROM event_index WHERE key_hash = $1 AND type = {int(EventType.ERASURE_COMPLETED)})
"""  # noqa: S608 - a number of the enum


class Finished(NamedTuple):
    """A deleted session all of whose records are erased: how many, and the offset of its last delete."""

    session_id: UUID
    partition: int
    last_delete: int
    records: int


async def without_receipt(connection: Connection, limit: int, *, rewritten: bool) -> list[Finished]:
    """Finished erasures that have no receipt yet.

    With `rewritten` an erasure is finished once Postgres' own files have been rewritten too, else once the log is done.
    """
    return [Finished(*row) for row in await connection.fetch(_FINISHED, limit, rewritten)]


async def in_log(connection: Connection, key_hash: bytes) -> bool:
    """True if the receipt with this key hash is in the log and applied."""
    found: bool = await connection.fetchval(_IN_LOG, key_hash)
    return found


async def record(connection: Connection, finished: Finished) -> None:
    """Write the receipt."""
    await connection.execute(_RECORD, finished.session_id, finished.last_delete, finished.partition, finished.records)
