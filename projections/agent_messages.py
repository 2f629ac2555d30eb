"""The `agent_messages` table: what replays, one JSON array per turn or restore."""

from collections.abc import Sequence
from uuid import UUID

from turnlog.domain.fold.effects import MessagesRow
from turnlog.projections.statement import Statement, columns

_INSERT = """
INSERT INTO agent_messages (
  session_id, row_id, message_count, user_messages, placement, appended_ms, based_on, restores, valid, messages)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::int[], $4::int[], $5::smallint[], $6::bigint[], $7::bigint[],
  $8::boolean[], $9::boolean[], $10::text[])
"""

_DELETE = "DELETE FROM agent_messages WHERE session_id = ANY($1::uuid[])"


def insert(messages: Sequence[MessagesRow]) -> Statement:
    """Add these arrays of messages."""
    return Statement(_INSERT, columns(messages))


def delete(session_ids: Sequence[UUID]) -> Statement:
    """Remove all messages of these sessions."""
    return Statement(_DELETE, [session_ids])
