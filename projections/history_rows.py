"""What of a session is in context, row by row: arrays of agent messages, and entries of turns that brought none.

Read from the newest backwards, a bounded number of rows at a time, so that cost follows what is asked for.
"""

from typing import NamedTuple
from uuid import UUID

from turnlog.domain.fold.state import Placement, ResumePoint
from turnlog.domain.positions import ROWS_PER_EVENT
from turnlog.domain.session_key import Scope
from turnlog.projections.statement import Connection

_IN_CONTEXT = int(Placement.IN_CONTEXT)

_CONTEXT = """
WITH unseen AS (
  SELECT greatest((SELECT last_delete FROM fences WHERE session_id = $1),
                  (SELECT max(last_clear) FROM clears
                   JOIN unnest($2::text[], $3::text[]) AS own(team_id, scope) USING (team_id, scope)), 0) AS ended
)
SELECT coalesce(greatest(s.last_delete, s.last_clear, s.last_reset), ended) AS epoch,
       coalesce(s.last_delete, (SELECT last_delete FROM fences WHERE session_id = $1), 0) AS last_delete,
       coalesce(s.last_position, ended) AS last_position,
       coalesce(s.context_floor, 0) AS context_floor,
       r.runtime, r.resume_id, r.saved_ms, r.position
FROM unseen
LEFT JOIN sessions AS s ON s.session_id = $1
LEFT JOIN resume_points AS r ON r.session_id = $1
"""

# Entries of a turn with messages feed pages alone. The first part bounds the second: where it found all that was asked
# for, nothing below its oldest row is looked at.
_NEWEST = f"""
WITH brought AS (
  SELECT row_id, messages FROM agent_messages
  WHERE session_id = $1 AND placement = {_IN_CONTEXT} AND row_id > $2 AND row_id < $3
  ORDER BY row_id DESC LIMIT $4
),
lowest AS (SELECT CASE WHEN count(*) = $4 THEN min(row_id) ELSE $2 END AS row_id FROM brought),
spoken AS (
  SELECT e.row_id, e.entry FROM transcript_entries AS e
  WHERE e.session_id = $1 AND e.placement = {_IN_CONTEXT} AND e.row_id > (SELECT row_id FROM lowest) AND e.row_id < $3
    AND NOT EXISTS (
      SELECT FROM agent_messages AS m WHERE m.session_id = $1
        AND m.row_id BETWEEN e.row_id / {ROWS_PER_EVENT} * {ROWS_PER_EVENT}
                         AND e.row_id / {ROWS_PER_EVENT} * {ROWS_PER_EVENT} + {ROWS_PER_EVENT - 1})
  ORDER BY e.row_id DESC LIMIT $4
)
SELECT row_id, messages, true FROM brought UNION ALL SELECT row_id, entry, false FROM spoken
ORDER BY 1 DESC LIMIT $4
"""  # noqa: S608 - a constant of this module


class Context(NamedTuple):
    """What bounds a session's context. `last_position` is the offset of its last turn or ending, `floor` a row id."""

    epoch: int
    last_delete: int
    last_position: int
    floor: int
    resume_point: ResumePoint | None


class HistoryRow(NamedTuple):
    """One row: an array of messages, the first of which has this row id, or one entry."""

    row_id: int
    text: str
    is_messages: bool


async def context(connection: Connection, session: UUID, scopes: tuple[Scope, ...]) -> Context:
    """The bounds now. A session never seen has those of its fence and its scopes."""
    row = await connection.fetchrow(_CONTEXT, session, [s.team_id for s in scopes], [s.name for s in scopes])
    assert row is not None  # noqa: S101 - the first part of the join always has a row
    epoch, last_delete, last_position, floor, runtime, resume_id, saved_ms, position = row
    point = None if resume_id is None else ResumePoint(runtime, resume_id, saved_ms, position)
    return Context(epoch, last_delete, last_position, floor, point)


async def newest(connection: Connection, session: UUID, floor: int, before: int, limit: int) -> list[HistoryRow]:
    """At most `limit` rows in context above row id `floor` and below `before`, the newest first."""
    return [HistoryRow(*row) for row in await connection.fetch(_NEWEST, session, floor, before, limit)]
