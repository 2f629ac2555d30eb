"""The `requests` ledger: the verdict on every event that somebody may wait for. The first verdict stands."""

from collections.abc import Sequence

import msgspec

from turnlog.domain.fold_effects import Verdict
from turnlog.projections.statement import Statement, columns

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
ON CONFLICT (event_id) DO NOTHING
"""


def insert(partition: int, verdicts: Sequence[Verdict]) -> Statement:
    """Add these verdicts, unless the event has one already."""
    return Statement(_INSERT, [partition, *columns(_values(verdict) for verdict in verdicts)])


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
