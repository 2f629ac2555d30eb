"""The `event_index` table: one row without content for every judged record, with the verdict it got."""

from collections.abc import Sequence
from uuid import UUID

from turnlog.domain.events import EventType
from turnlog.domain.fold.effects import IndexRow
from turnlog.projections.statement import Statement, columns

_ROW = "ROW(subject_id, type, event_id, position, status, key_hash)"

LOAD_BY_EVENT_ID = f"""
SELECT {_ROW} FROM event_index WHERE event_id = ANY({{event_ids}}::uuid[]) ORDER BY position
"""  # noqa: S608 - the text is a constant of this module

LOAD_BY_KEY_HASH = f"""
SELECT {_ROW} FROM event_index WHERE key_hash = ANY({{key_hashes}}::bytea[]) ORDER BY position
"""  # noqa: S608 - the text is a constant of this module

_ERASABLE = ", ".join(str(int(event_type)) for event_type in EventType if event_type.erasable)

_DELETE_ERASABLE = f"""
DELETE FROM event_index WHERE subject_id = ANY($1::uuid[]) AND type IN ({_ERASABLE})
"""  # noqa: S608 - the numbers are those of the enum

TAKE_ERASABLE = f"{_DELETE_ERASABLE} RETURNING partition, position, event_id, subject_id, attempt"
"""Removes the rows of the erasable records of these sessions and returns what the outbox needs."""

_INSERT = """
INSERT INTO event_index (subject_id, position, event_id, attempt, key_hash, type, status, partition)
SELECT i.*, $8::smallint FROM unnest(
  $1::uuid[], $2::bigint[], $3::uuid[], $4::int[], $5::bytea[], $6::smallint[], $7::smallint[]) AS i
"""


def delete_erasable(session_ids: Sequence[UUID]) -> Statement:
    """Remove the rows of the erasable records of these sessions."""
    return Statement(_DELETE_ERASABLE, [session_ids])


def insert(partition: int, rows: Sequence[IndexRow]) -> Statement:
    """Add these judged records."""
    values = columns(
        (row.subject_id, row.offset, row.key.event_id, row.key.attempt, row.key_hash, row.type, row.status)
        for row in rows
    )
    return Statement(_INSERT, [*values, partition])
