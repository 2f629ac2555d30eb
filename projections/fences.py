"""The `fences` table: what is left of a deleted session, the hash of its key and the offset of its last delete."""

from collections.abc import Mapping
from uuid import UUID

from turnlog.projections.statement import Statement

LOAD = "SELECT ROW(session_id, last_delete) FROM fences WHERE session_id = ANY({session_ids}::uuid[])"

_UPSERT = """
INSERT INTO fences (session_id, partition, last_delete)
SELECT i.session_id, $1::smallint, i.last_delete FROM unnest($2::uuid[], $3::bigint[]) AS i(session_id, last_delete)
ON CONFLICT (session_id) DO UPDATE SET last_delete = excluded.last_delete
"""


def upsert(partition: int, fences: Mapping[UUID, int]) -> Statement:
    """Write the offset of the last delete of these sessions."""
    return Statement(_UPSERT, [partition, list(fences), list(fences.values())])
