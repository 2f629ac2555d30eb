"""The `erasure_outbox` ledger: records whose values must go from the log. The eraser works it off."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from turnlog.domain.events import RecordKey
from turnlog.domain.fold.effects import OutboxRow
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
WHERE erased_at IS NULL AND published_at IS NOT NULL AND (partition, position) > ($2::smallint, $3::bigint)
ORDER BY partition, position LIMIT $1
"""
_PUBLISHED = """
UPDATE erasure_outbox SET published_at = clock_timestamp() WHERE partition = $1 AND position = ANY($2::bigint[])
"""
_ERASED = """
UPDATE erasure_outbox SET erased_at = clock_timestamp() WHERE partition = $1 AND position = ANY($2::bigint[])
"""
_OPEN_PARTITIONS = "SELECT DISTINCT partition FROM erasure_outbox WHERE erased_at IS NULL ORDER BY partition"

_WORK = """
SELECT EXISTS (SELECT FROM erasure_outbox WHERE erased_at IS NULL AND published_at IS NULL) AS unpublished,
  EXISTS (SELECT FROM erasure_outbox WHERE erased_at IS NULL AND published_at IS NOT NULL) AS unverified,
  EXISTS (SELECT FROM erasure_outbox WHERE rewritten_at IS NULL AND published_at IS NOT NULL) AS unrewritten
"""
_UNREWRITTEN = "SELECT max(published_at) FROM erasure_outbox WHERE rewritten_at IS NULL"
_REWRITTEN = """
UPDATE erasure_outbox SET rewritten_at = clock_timestamp() WHERE rewritten_at IS NULL AND published_at <= $1
"""
_NOT_REWRITTEN = """
UPDATE erasure_outbox SET rewritten_at = NULL
WHERE rewritten_at IS NOT NULL AND (erased_at IS NULL OR erased_at >= $1 OR rewritten_at >= $1)
"""
_NOW = "SELECT clock_timestamp()"
_SINCE_REWRITE = "SELECT extract(epoch FROM clock_timestamp() - max(rewritten_at))::float FROM erasure_outbox"


class Queued(NamedTuple):
    """A record to be erased, as the eraser takes it from here."""

    partition: int
    offset: int
    key: RecordKey
    session_id: UUID


class Work(NamedTuple):
    """What there is to do: records to ask the log for, to see to be gone, to rewrite Postgres' files without."""

    unpublished: bool
    unverified: bool
    unrewritten: bool


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


async def work(connection: Connection) -> Work:
    """Whether there is anything to do. Cheap, for it is asked every second."""
    row = await connection.fetchrow(_WORK)
    assert row is not None  # noqa: S101 - a SELECT without FROM has one row
    return Work(*row)


async def unpublished(connection: Connection, limit: int) -> list[Queued]:
    """Records whose erasure the log hasn't been asked for yet, at most `limit`, by position."""
    return [_queued(*row) for row in await connection.fetch(_UNPUBLISHED, limit)]


async def unverified(connection: Connection, after: tuple[int, int], limit: int) -> list[Queued]:
    """Records the log was asked to erase that haven't been seen to be gone, by position, above (partition, offset)."""
    return [_queued(*row) for row in await connection.fetch(_UNVERIFIED, limit, *after)]


async def mark_published(connection: Connection, partition: int, offsets: Sequence[int]) -> None:
    """The log has been asked to erase these."""
    await connection.execute(_PUBLISHED, partition, offsets)


async def mark_erased(connection: Connection, partition: int, offsets: Sequence[int]) -> None:
    """These have been seen to be gone."""
    await connection.execute(_ERASED, partition, offsets)


async def open_partitions(connection: Connection) -> list[int]:
    """Partitions in which something is still to be erased."""
    return [row[0] for row in await connection.fetch(_OPEN_PARTITIONS)]


async def unrewritten(connection: Connection) -> datetime | None:
    """When the newest record was published whose bytes may still lie in Postgres' own files; None without any."""
    newest: datetime | None = await connection.fetchval(_UNREWRITTEN)
    return newest


async def mark_rewritten(connection: Connection, published: datetime) -> None:
    """Nothing of what was published until then lies in Postgres' own files any more."""
    await connection.execute(_REWRITTEN, published)


async def mark_not_rewritten(connection: Connection, since: datetime) -> None:
    """Tables were filled from the log since then: they may have held records that were erased meanwhile."""
    await connection.execute(_NOT_REWRITTEN, since)


async def now(connection: Connection) -> datetime:
    """The database's clock, which all times of the ledger are by."""
    value: datetime = await connection.fetchval(_NOW)
    return value


async def since_rewrite_s(connection: Connection) -> float | None:
    """Seconds since the last rewrite, None if there was none. Reads the whole ledger."""
    seconds: float | None = await connection.fetchval(_SINCE_REWRITE)
    return seconds


def _queued(partition: int, offset: int, event_id: UUID, attempt: int, session_id: UUID) -> Queued:
    return Queued(partition, offset, RecordKey(event_id, attempt), session_id)
