"""All SQL of the Postgres event log's two tables, and the mapping between rows and events.

The counter row's lock serialises writers: an append waits for it, takes the next offsets and commits, so offsets are
gapless and in commit order and a reader can't skip a slow transaction.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import asyncpg

from turnlog.domain.events import Event, Record, RecordKey
from turnlog.domain.positions import Position

Connection: TypeAlias = "asyncpg.Connection[Any]"

MAX_READ_BYTES = 8 * 1024 * 1024
"""Value bytes one read returns at most, but always one record."""

_COLUMNS = (
    "event_id, attempt, type, stream, subject, time_ms, sent_after, ignorable, producer, "
    "idempotency_key, request_hash, actor, traceparent, value"
)
_ARRAYS = (
    "$2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bool[], $10::uuid[], "
    "$11::bytea[], $12::bytea[], $13::text[], $14::text[], $15::bytea[]"
)

_APPEND = f"""
WITH head AS (
  UPDATE turnlog.event_log_head
  SET next_offset = next_offset + $1,
      appended_ms = greatest(appended_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  RETURNING next_offset - $1 AS base, appended_ms
), appended AS (
  INSERT INTO turnlog.event_log (position, appended_ms, {_COLUMNS})
  SELECT head.base + item.ordinality - 1, head.appended_ms, {_COLUMNS}
  FROM head, unnest({_ARRAYS}) WITH ORDINALITY AS item({_COLUMNS}, ordinality)
)
SELECT base, appended_ms FROM head
"""  # noqa: S608 - column names are constants of this module

_READ = f"""
SELECT position, appended_ms, {_COLUMNS} FROM (
  SELECT *, sum(octet_length(value)) OVER (ORDER BY position) - octet_length(value) AS bytes_before FROM (
    SELECT * FROM turnlog.event_log WHERE position >= $1 ORDER BY position LIMIT $2
  ) AS page
) AS sized
WHERE bytes_before IS NULL OR bytes_before < $3
ORDER BY position
"""  # noqa: S608 - column names are constants of this module

_LOCK_HEAD = "SELECT next_offset FROM turnlog.event_log_head FOR UPDATE"
_END = "SELECT next_offset FROM turnlog.event_log_head"
_FIND = """
SELECT log.event_id, log.attempt, log.position, log.appended_ms FROM turnlog.event_log AS log
JOIN unnest($1::uuid[], $2::int[]) AS wanted(event_id, attempt) USING (event_id, attempt)
WHERE log.position >= $3
"""
_ERASE = """
UPDATE turnlog.event_log
SET value = NULL, type = NULL, stream = NULL, subject = NULL, time_ms = NULL, sent_after = NULL, producer = NULL,
    idempotency_key = NULL, request_hash = NULL, actor = NULL, traceparent = NULL
WHERE position = ANY($1::bigint[]) AND value IS NOT NULL
"""
_UNERASED = """
SELECT event_id, attempt FROM turnlog.event_log WHERE position = ANY($1::bigint[]) AND value IS NOT NULL
"""


class Appended(NamedTuple):
    """Where a batch went: its first offset, and the append time of all its records (Unix ms)."""

    base: int
    appended_ms: int


async def append(connection: Connection, events: Sequence[Event]) -> Appended:
    """Append the events as one transaction, in order."""
    columns = list(zip(*(_row(event) for event in events), strict=True))
    row = await connection.fetchrow(_APPEND, len(events), *columns)
    if row is None:
        raise asyncpg.DataError("turnlog.event_log_head has no row")
    return Appended(row["base"], row["appended_ms"])


async def append_missing(connection: Connection, events: Sequence[Event], since: int) -> dict[RecordKey, Appended]:
    """Append those of the events that aren't in the log at or after offset `since`: the road after a lost answer.

    Takes the counter row's lock first, so a transaction that is still under way has ended before the look.
    """
    async with connection.transaction():
        await connection.fetchval(_LOCK_HEAD)
        keys = [event.key for event in events]
        rows = await connection.fetch(_FIND, [key.event_id for key in keys], [key.attempt for key in keys], since)
        found = {
            RecordKey(row["event_id"], row["attempt"]): Appended(row["position"], row["appended_ms"]) for row in rows
        }
        missing = [event for event in events if event.key not in found]
        if missing:
            base, appended_ms = await append(connection, missing)
            found |= {event.key: Appended(base + index, appended_ms) for index, event in enumerate(missing)}
    return found


async def read(connection: Connection, next_offset: int, limit: int) -> list[Record]:
    """Records at offsets ≥ `next_offset`, at most `limit` and about `MAX_READ_BYTES`, at least one if there is one."""
    return [_record(row) for row in await connection.fetch(_READ, next_offset, limit, MAX_READ_BYTES)]


async def end(connection: Connection) -> int:
    """The offset the next record gets."""
    value: int = await connection.fetchval(_END)
    return value


async def lock_head(connection: Connection) -> int:
    """`end`, with the counter row locked until the transaction ends."""
    value: int = await connection.fetchval(_LOCK_HEAD)
    return value


async def erase(connection: Connection, offsets: Sequence[int]) -> None:
    """Null everything but the keys of these records."""
    await connection.execute(_ERASE, list(offsets))


async def unerased(connection: Connection, offsets: Sequence[int]) -> list[RecordKey]:
    """The keys of those records that still hold a value."""
    rows = await connection.fetch(_UNERASED, list(offsets))
    return [RecordKey(row["event_id"], row["attempt"]) for row in rows]


def _row(event: Event) -> tuple[object, ...]:
    return (
        event.id,
        event.attempt,
        event.type,
        event.stream,
        event.subject,
        event.time_ms,
        event.sent_after,
        event.ignorable,
        event.producer,
        event.idempotency_key,
        event.request_hash,
        event.actor,
        event.traceparent,
        event.data,
    )


def _record(row: asyncpg.Record) -> Record:
    (position, appended_ms, event_id, attempt, kind, stream, subject, time_ms, sent_after, ignorable) = row[:10]
    producer, idempotency_key, request_hash, actor, traceparent, value = row[10:]
    key = RecordKey(UUID(int=event_id.int), attempt)
    event = None
    if value is not None:
        event = Event(
            id=key.event_id,
            type=kind,
            stream=stream,
            subject=subject,
            time_ms=time_ms,
            data=value,
            attempt=attempt,
            sent_after=sent_after,
            idempotency_key=idempotency_key,
            request_hash=request_hash,
            producer=producer,
            actor=actor,
            traceparent=traceparent,
            ignorable=ignorable,
        )
    return Record(Position(0, position), appended_ms, key, event)
