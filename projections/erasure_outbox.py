"""The `erasure_outbox` ledger: records whose values must go from the log. The eraser works it off."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from turnlog.domain.events import RecordKey
from turnlog.domain.fold_effects import OutboxRow
from turnlog.projections.event_index import TAKE_ERASABLE
from turnlog.projections.statement import Connection, Statement, columns

_INSERT = """
INSERT INTO erasure_outbox (partition, position, event_id, session_id, attempt)
SELECT $1::smallint, i.position, i.event_id, i.session_id, i.attempt
FROM unnest($2::bigint[], $3::uuid[], $4::uuid[], $5::int[]) AS i(position, event_id, session_id, attempt)
ON CONFLICT (partition, position) DO NOTHING
"""

_MOVE = f"""
WITH taken AS ({TAKE_ERASABLE})
INSERT INTO erasure_outbox (partition, position, event_id, session_id, attempt)
SELECT partition, position, event_id, subject_id, attempt FROM taken
ON CONFLICT (partition, position) DO NOTHING
"""  # noqa: S608 - the text is a constant of event_index

_HOLDS = "SELECT EXISTS (SELECT FROM erasure_outbox WHERE partition = $1 AND position = $2 AND event_id = $3)"

_UNPUBLISHED = """
SELECT partition, position, event_id, attempt, session_id FROM erasure_outbox
WHERE erased_at IS NULL AND published_at IS NULL ORDER BY partition, position LIMIT $1
"""
_UNVERIFIED = """
SELECT partition, position, event_id, attempt, session_id FROM erasure_outbox
WHERE erased_at IS NULL AND published_at < now() - $2::bigint * interval '1 ms' ORDER BY partition, position LIMIT $1
"""
_PUBLISHED = """
UPDATE erasure_outbox SET published_at = now() WHERE partition = $1 AND position = ANY($2::bigint[])
"""
_ERASED = "UPDATE erasure_outbox SET erased_at = now() WHERE partition = $1 AND position = ANY($2::bigint[])"
_OPEN_PARTITIONS = "SELECT DISTINCT partition FROM erasure_outbox WHERE erased_at IS NULL ORDER BY partition"


class Queued(NamedTuple):
    """A record to be erased, as the eraser takes it from here."""

    partition: int
    offset: int
    key: RecordKey
    session_id: UUID


def insert(partition: int, rows: Sequence[OutboxRow]) -> Statement:
    """Add these records; one that is queued already stays as it is."""
    values = columns((row.offset, row.key.event_id, row.session_id, row.key.attempt) for row in rows)
    return Statement(_INSERT, [partition, *values])


def move_from_index(session_ids: Sequence[UUID]) -> Statement:
    """Move the erasable records of deleted sessions here from the event index."""
    return Statement(_MOVE, [session_ids])


async def holds(connection: Connection, partition: int, offset: int, event_id: UUID) -> bool:
    """True if this event's record at this offset is to be erased, or was."""
    found: bool = await connection.fetchval(_HOLDS, partition, offset, event_id)
    return found


async def unpublished(connection: Connection, limit: int) -> list[Queued]:
    """Records whose erasure the log hasn't been asked for yet, at most `limit`, by position."""
    return [_queued(*row) for row in await connection.fetch(_UNPUBLISHED, limit)]


async def unverified(connection: Connection, limit: int, age_ms: int) -> list[Queued]:
    """Records the log was asked to erase at least `age_ms` ago and that haven't been seen to be gone."""
    return [_queued(*row) for row in await connection.fetch(_UNVERIFIED, limit, age_ms)]


async def mark_published(connection: Connection, partition: int, offsets: Sequence[int]) -> None:
    """The log has been asked to erase these."""
    await connection.execute(_PUBLISHED, partition, offsets)


async def mark_erased(connection: Connection, partition: int, offsets: Sequence[int]) -> None:
    """These have been seen to be gone."""
    await connection.execute(_ERASED, partition, offsets)


async def open_partitions(connection: Connection) -> list[int]:
    """Partitions in which something is still to be erased."""
    return [row[0] for row in await connection.fetch(_OPEN_PARTITIONS)]


def _queued(partition: int, offset: int, event_id: UUID, attempt: int, session_id: UUID) -> Queued:
    return Queued(partition, offset, RecordKey(event_id, attempt), session_id)
