"""The `requests` ledger: the verdict on every event that somebody may wait for.

The first verdict on an event stands, unless a later attempt was refused because the session is deleted
(fold-notes.md, "Judging").
"""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from turnlog.domain.fold.effects import Verdict
from turnlog.projections.statement import Connection, Statement, columns

_INSERT = """
INSERT INTO requests (
  event_id, subject_id, position, epoch, partition, type, status, stored, key_hash, request_hash, first_event_id,
  error, session_keys)
SELECT i.event_id, i.subject_id, i.position, i.epoch, $1::smallint, i.type, i.status, i.stored, i.key_hash,
  i.request_hash, i.first_event_id, i.error, i.session_keys
FROM unnest(
  $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[], $6::smallint[], $7::smallint[], $8::int[], $9::bytea[],
  $10::bytea[], $11::uuid[], $12::text[], $13::text[])
AS i(
  event_id, subject_id, position, epoch, type, status, stored, key_hash, request_hash, first_event_id, error,
  session_keys)
ON CONFLICT (event_id) DO UPDATE SET
  subject_id = excluded.subject_id, position = excluded.position, epoch = excluded.epoch,
  partition = excluded.partition, type = excluded.type, status = excluded.status, stored = excluded.stored,
  key_hash = excluded.key_hash, request_hash = excluded.request_hash, first_event_id = excluded.first_event_id,
  error = excluded.error, session_keys = excluded.session_keys, applied_at = excluded.applied_at
WHERE excluded.status = 410 AND requests.status <> 410
"""

_PRUNE = """
DELETE FROM requests WHERE event_id = ANY(ARRAY(
  SELECT event_id FROM requests WHERE key_hash IS NULL AND applied_at < clock_timestamp() - $1::float * interval '1 s'
  ORDER BY applied_at LIMIT $2))
"""

_GONE = 410


def insert(partition: int, verdicts: Sequence[Verdict]) -> Statement:
    """Add these verdicts, as far as the event's earlier one doesn't stand."""
    standing: dict[UUID, Verdict] = {}
    for verdict in verdicts:
        first = standing.setdefault(verdict.event_id, verdict)
        if verdict.status == _GONE and first.status != _GONE:
            standing[verdict.event_id] = verdict
    return Statement(_INSERT, [partition, *columns(_values(verdict) for verdict in standing.values())])


async def prune(connection: Connection, older_than_s: float, limit: int) -> int:
    """Remove up to `limit` verdicts of that age (seconds) on events without a key: nobody can ask for them any more.

    Returns how many went. A verdict on a keyed request stays for good: it answers every retry.
    """
    status: str = await connection.execute(_PRUNE, older_than_s, limit)
    return int(status.rpartition(" ")[2])


def _values(verdict: Verdict) -> tuple[object, ...]:
    keys = verdict.session_keys
    return (
        verdict.event_id,
        verdict.subject_id,
        verdict.offset,
        verdict.epoch,
        verdict.type,
        verdict.status,
        verdict.stored,
        verdict.key_hash,
        verdict.request_hash,
        verdict.first,
        verdict.error,
        msgspec.json.encode(keys).decode() if keys else None,
    )
