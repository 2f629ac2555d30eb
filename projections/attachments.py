"""The `attachments` table: references to attachment bytes by their SHA-256."""

from collections.abc import Sequence
from uuid import UUID

from turnlog.domain.fold.effects import AttachmentRow
from turnlog.projections.statement import Statement, columns

_INSERT = """
INSERT INTO attachments (session_id, position, message_id, name, mime_type, size, sha256)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bytea[])
"""

_DELETE = "DELETE FROM attachments WHERE session_id = ANY($1::uuid[])"


def insert(attachments: Sequence[AttachmentRow]) -> Statement:
    """Add these references."""
    return Statement(_INSERT, columns(attachments))


def delete(session_ids: Sequence[UUID]) -> Statement:
    """Remove all references of these sessions."""
    return Statement(_DELETE, [session_ids])
