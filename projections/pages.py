"""Reading transcript rows: a page of one session, a stretch of a merged stream, single rows.

Pages and streams show rows above the session's cleared floor that a late arrival didn't join to the set-aside part.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import asyncpg

from turnlog.domain.fold.state import Placement
from turnlog.domain.positions import ROWS_PER_EVENT
from turnlog.projections.checkpoints import OF_THE_TABLES
from turnlog.projections.statement import Connection

PAGE_BYTES = 32 * 1024 * 1024
"""No page holds more (an entry has at most 3 MiB, a record's limit): it ends early, and the walk goes on from there."""

_SET_ASIDE = int(Placement.SET_ASIDE)

_SHOWN = f"""
e.session_id = $1 AND e.placement <> {_SET_ASIDE}
  AND e.row_id > coalesce((SELECT cleared_floor FROM sessions WHERE session_id = $1), 0)
"""  # noqa: S608 - a constant of this module

_PAGE = f"""
SELECT convert_to(page.entries, 'UTF8') AS entries, page.oldest,
  EXISTS (SELECT FROM transcript_entries AS e WHERE {_SHOWN} AND e.row_id < page.oldest) AS older
FROM (
  SELECT string_agg(entry, ',' ORDER BY row_id) AS entries, min(row_id) AS oldest FROM (
    SELECT e.row_id, e.entry, sum(octet_length(e.entry)) OVER (ORDER BY e.row_id DESC) AS bytes
    FROM transcript_entries AS e WHERE {_SHOWN} AND e.row_id < $2
    ORDER BY e.row_id DESC LIMIT $3
  ) AS newest
  WHERE bytes <= {PAGE_BYTES}
) AS page
"""  # noqa: S608 - a constant of this module

_ENTRY = "SELECT entry FROM transcript_entries WHERE session_id = $1 AND row_id = $2"

_CLEARED_AT = "SELECT cleared_at_ms FROM endings WHERE partition = $1 AND position = $2 AND ordinal = 0"

_MERGED = f"""
WITH members AS (SELECT session_id, cleared_floor FROM sessions WHERE {{members}}),
merged AS (
  SELECT row.row_id, row.entry FROM members CROSS JOIN LATERAL (
    SELECT row_id, entry FROM transcript_entries
    WHERE session_id = members.session_id AND row_id > greatest($1, members.cleared_floor) AND placement <> {_SET_ASIDE}
    ORDER BY row_id LIMIT $2
  ) AS row
  ORDER BY row.row_id LIMIT $2
),
measured AS (
  SELECT row_id, entry, sum(octet_length(entry)) OVER (ORDER BY row_id) AS bytes, count(*) OVER () AS found FROM merged
)
SELECT c.next_offset, rows.row_id, rows.entry, rows.found
FROM checkpoints AS c LEFT JOIN (SELECT * FROM measured WHERE bytes <= {PAGE_BYTES}) AS rows ON true
WHERE c.generation = {OF_THE_TABLES} AND c.partition = $3
ORDER BY rows.row_id
"""  # noqa: S608 - a constant of this module
_TEAM_ROWS = _MERGED.format(members="team_id = $4 AND room_id IS NOT DISTINCT FROM $5::text")
_AGENT_ROWS = _MERGED.format(members="agent_id = $4")


class PageRows(NamedTuple):
    """The newest rows of a session, oldest first: their JSON texts joined by commas.

    `oldest` is the least row id among them (None if there are none), `older` tells whether there are more before it.
    """

    entries: bytes
    oldest: int | None
    older: bool


class MergedRows(NamedTuple):
    """Rows of several sessions in increasing row id. Every visible row up to `upto` is among them or lies before.

    `more` if the limit (of rows or bytes) was reached, so that there may be further ones already.
    """

    rows: list[tuple[int, str]]
    upto: int
    more: bool


async def newest(connection: Connection, session: UUID, before: int, limit: int) -> PageRows:
    """At most `limit` rows and `PAGE_BYTES` bytes below row id `before`.

    Joined by the server: one value costs less to fetch than many.
    """
    row = await connection.fetchrow(_PAGE, session, before, limit)
    if row is None or row["oldest"] is None:
        return PageRows(b"", None, older=False)
    return PageRows(row["entries"], row["oldest"], row["older"])


async def entry(connection: Connection, session: UUID, row: int) -> bytes | None:
    """The exact JSON of one row, or None."""
    text: str | None = await connection.fetchval(_ENTRY, session, row)
    return None if text is None else text.encode()


async def cleared_at_ms(connection: Connection, partition: int, offset: int) -> int:
    """When (Unix ms) the clear at this position was asked for."""
    value: int = await connection.fetchval(_CLEARED_AT, partition, offset)
    return value


async def team_rows(
    connection: Connection,
    team_id: str,
    room_id: str | None,
    *,
    after_row: int,
    limit: int,
    partition: int,
) -> MergedRows:
    """At most `limit` rows and `PAGE_BYTES` bytes of a team's General sessions, or of one room, above `after_row`."""
    found = await connection.fetch(_TEAM_ROWS, after_row, limit, partition, team_id, room_id)
    return _merged(found, after_row, limit)


async def agent_rows(
    connection: Connection, agent_id: str, *, after_row: int, limit: int, partition: int
) -> MergedRows:
    """At most `limit` rows and `PAGE_BYTES` bytes of an agent's own (1:1) sessions above row id `after_row`."""
    found = await connection.fetch(_AGENT_ROWS, after_row, limit, partition, agent_id)
    return _merged(found, after_row, limit)


def _merged(found: Sequence[asyncpg.Record], after_row: int, limit: int) -> MergedRows:
    rows = [(row[1], row[2]) for row in found if row[1] is not None]
    if rows and (found[0][3] == limit or found[0][3] > len(rows)):
        return MergedRows(rows, rows[-1][0], more=True)
    applied = found[0][0] * ROWS_PER_EVENT - 1 if found else after_row
    return MergedRows(rows, max(after_row, applied), more=False)
