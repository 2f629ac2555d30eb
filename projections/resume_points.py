"""The `resume_points` table: where each session's agent runtime continues. Read together with `sessions`."""

from collections.abc import Sequence
from uuid import UUID

from turnlog.domain.fold.state import ResumePoint
from turnlog.projections.statement import Statement, columns

_UPSERT = """
INSERT INTO resume_points (session_id, runtime, resume_id, saved_ms, position)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
ON CONFLICT (session_id) DO UPDATE SET
  position = excluded.position, saved_ms = excluded.saved_ms, runtime = excluded.runtime, resume_id = excluded.resume_id
"""

_DELETE = "DELETE FROM resume_points WHERE session_id = ANY($1::uuid[])"


def upsert(points: Sequence[tuple[UUID, ResumePoint]]) -> Statement:
    """Write the resume points of these sessions."""
    return Statement(_UPSERT, columns((session_id, *point) for session_id, point in points))


def delete(session_ids: Sequence[UUID]) -> Statement:
    """Remove those of these sessions; most have none."""
    return Statement(_DELETE, [session_ids])
