"""The `transcript_entries` table: the entries pages and streams show, each with its exact JSON text."""

from collections.abc import Sequence
from uuid import UUID

from turnlog.domain.fold.effects import EntryRow
from turnlog.projections.statement import Statement, columns

LOAD_HASHES = """
SELECT ROW(session_id, entry_hash) FROM transcript_entries WHERE entry_hash = ANY({entry_hashes}::uuid[])
"""

_INSERT = """
INSERT INTO transcript_entries (session_id, row_id, entry_hash, placement, arrived_ms, gateway_url, entry)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::smallint[], $5::bigint[], $6::text[], $7::text[])
"""

_DELETE = "DELETE FROM transcript_entries WHERE session_id = ANY($1::uuid[])"


def insert(entries: Sequence[EntryRow]) -> Statement:
    """Add these entries; none of them is stored yet."""
    return Statement(_INSERT, columns(entries))


def delete(session_ids: Sequence[UUID]) -> Statement:
    """Remove all entries of these sessions."""
    return Statement(_DELETE, [session_ids])
