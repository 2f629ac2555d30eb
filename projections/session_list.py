"""Listing sessions by key, a keyset page at a time, and reading one session's epoch and resume point."""

import sys
from typing import NamedTuple
from uuid import UUID

from turnlog.domain.fold.state import ResumePoint
from turnlog.domain.session_key import Scope
from turnlog.projections.statement import Connection

_LIST = """
SELECT session_key, visible_entries, greatest(last_delete, last_clear, last_reset) AS epoch, last_activity_ms
FROM sessions AS s
WHERE session_key > $1 AND session_key >= $2 AND session_key < $4
  AND (total_entries > 0 OR total_messages > 0 OR fork_source IS NOT NULL
       OR EXISTS (SELECT FROM resume_points AS r WHERE r.session_id = s.session_id))
ORDER BY session_key LIMIT $3
"""

_BEYOND_EVERY_KEY = "\U0010ffff" * 257
"""A key has at most 1,024 bytes, which are 256 of the greatest character."""

_RESUME = """
SELECT coalesce(greatest(s.last_delete, s.last_clear, s.last_reset),
                greatest((SELECT last_delete FROM fences WHERE session_id = $1),
                         (SELECT max(last_clear) FROM clears
                          JOIN unnest($2::text[], $3::text[]) AS own(team_id, scope) USING (team_id, scope))),
                0) AS epoch,
       r.runtime, r.resume_id, r.saved_ms, r.position
FROM (SELECT 1) AS one
LEFT JOIN sessions AS s ON s.session_id = $1
LEFT JOIN resume_points AS r ON r.session_id = $1
"""


class ListedSession(NamedTuple):
    """One listed session. `entries` is what its pages show; `last_activity_ms` is Unix ms of the log's append time."""

    key: str
    entries: int
    epoch: int
    last_activity_ms: int


async def listed(connection: Connection, prefix: str, after_key: str, limit: int) -> list[ListedSession]:
    """At most `limit` sessions whose key starts with `prefix` and sorts (bytewise) after `after_key`."""
    found = await connection.fetch(_LIST, after_key, prefix, limit, _beyond(prefix))
    return [ListedSession(*row) for row in found]


async def resume_point(
    connection: Connection, session: UUID, scopes: tuple[Scope, ...]
) -> tuple[ResumePoint | None, int]:
    """The session's resume point and epoch; a session never seen has the epoch of its fence and scopes."""
    row = await connection.fetchrow(_RESUME, session, [s.team_id for s in scopes], [s.name for s in scopes])
    if row is None:
        return None, 0
    epoch, runtime, resume_id, saved_ms, position = row
    return None if resume_id is None else ResumePoint(runtime, resume_id, saved_ms, position), epoch


def _beyond(prefix: str) -> str:
    """The least text that sorts bytewise after everything that begins so: an index reads to there and no further."""
    for index in range(len(prefix) - 1, -1, -1):
        following = ord(prefix[index]) + 1
        if following <= sys.maxunicode:
            # UTF-8 has no surrogates.
            return prefix[:index] + chr(0xE000 if following == 0xD800 else following)
    return _BEYOND_EVERY_KEY
