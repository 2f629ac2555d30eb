"""The `erasure_outbox` ledger: records whose values must go from the log. The eraser works it off."""

from collections.abc import Sequence
from uuid import UUID

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
