"""The `sessions` table: one row per session key with its endings, floors, counts and lease."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from turnlog.domain.fold.state import Fork, Lease, ResumePoint, SessionState
from turnlog.domain.session_key import ALL, GENERAL, Scope, agent_id_of, parse_team_key
from turnlog.projections.statement import Statement, columns

_ROW = """ROW(
  s.session_key, s.session_id, s.last_delete, s.last_clear, s.last_reset, s.context_floor, s.cleared_floor,
  s.last_position, s.visible_entries, s.total_entries, s.total_messages, s.replayed_entries,
  s.first_activity_ms, s.last_activity_ms, s.fork_source, s.fork_at, s.fork_position, s.lease, r.runtime, r.resume_id,
  r.saved_ms, r.position)"""

LOAD = f"""
SELECT {_ROW} FROM sessions s LEFT JOIN resume_points r USING (session_id)
WHERE s.session_id = ANY({{session_ids}}::uuid[])
"""  # noqa: S608 - the text is a constant of this module

LOAD_CLEARED = f"""
SELECT {_ROW}
FROM unnest({{cleared_teams}}::text[], {{cleared_rooms}}::text[]) AS c(team_id, room_id)
JOIN sessions s ON s.team_id = c.team_id AND (c.room_id = '{ALL}' OR s.room_id IS NOT DISTINCT FROM c.room_id)
LEFT JOIN resume_points r USING (session_id)
"""  # noqa: S608 - the text is a constant of this module

_UPSERT = """
INSERT INTO sessions (
  session_id, partition, session_key, agent_id, team_id, room_id, last_delete, last_clear, last_reset, context_floor,
  cleared_floor, last_position, visible_entries, total_entries, total_messages, replayed_entries, first_activity_ms,
  last_activity_ms, fork_source, fork_at, fork_position, lease)
SELECT i.session_id, $1::smallint, i.session_key, i.agent_id, i.team_id, i.room_id, i.last_delete, i.last_clear,
  i.last_reset, i.context_floor, i.cleared_floor, i.last_position, i.visible_entries, i.total_entries,
  i.total_messages, i.replayed_entries, i.first_activity_ms, i.last_activity_ms, i.fork_source, i.fork_at,
  i.fork_position, i.lease
FROM unnest(
  $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[],
  $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[],
  $17::bigint[], $18::bigint[], $19::text[], $20::bigint[], $21::bigint[], $22::text[])
AS i(
  session_id, session_key, agent_id, team_id, room_id, last_delete, last_clear, last_reset, context_floor,
  cleared_floor, last_position, visible_entries, total_entries, total_messages, replayed_entries, first_activity_ms,
  last_activity_ms, fork_source, fork_at, fork_position, lease)
ON CONFLICT (session_id) DO UPDATE SET
  last_delete = excluded.last_delete, last_clear = excluded.last_clear, last_reset = excluded.last_reset,
  context_floor = excluded.context_floor, cleared_floor = excluded.cleared_floor,
  last_position = excluded.last_position, visible_entries = excluded.visible_entries,
  total_entries = excluded.total_entries, total_messages = excluded.total_messages,
  replayed_entries = excluded.replayed_entries,
  first_activity_ms = excluded.first_activity_ms, last_activity_ms = excluded.last_activity_ms,
  fork_source = excluded.fork_source, fork_at = excluded.fork_at, fork_position = excluded.fork_position,
  lease = excluded.lease
"""

_DELETE = "DELETE FROM sessions WHERE session_id = ANY($1::uuid[])"

_lease_decoder = msgspec.json.Decoder(Lease)


def upsert(partition: int, states: Collection[SessionState]) -> Statement:
    """Write these rows whole, their resume points aside."""
    return Statement(_UPSERT, [partition, *columns(_values(state) for state in states)])


def delete(session_ids: Sequence[object]) -> Statement:
    """Remove these rows."""
    return Statement(_DELETE, [session_ids])


def cleared_rooms(scopes: Sequence[Scope]) -> list[str | None]:
    """What `LOAD_CLEARED` takes as rooms: the room id, null for General, `*` for the whole team.

    A room named `*` can't be told from the whole team here; loading more than asked for does no harm.
    """
    return [None if name == GENERAL else name.removeprefix("room:") for _, name in scopes]


def state_of(row: Sequence[Any]) -> SessionState:
    """The state from a row as `LOAD` returns it."""
    *plain, fork_source, fork_at, fork_position, lease, runtime, resume_id, saved_ms, position = row
    state = SessionState(*plain)
    if runtime is not None:
        state.resume_point = ResumePoint(runtime, resume_id, saved_ms, position)
    if fork_source is not None:
        state.fork = Fork(fork_source, fork_at, fork_position)
    if lease is not None:
        state.lease = _lease_decoder.decode(lease)
    return state


def _values(state: SessionState) -> tuple[object, ...]:
    fork_source, fork_at, fork_position = state.fork or (None, None, None)
    return (
        state.id,
        state.key,
        *_owners(state.key),
        state.last_delete,
        state.last_clear,
        state.last_reset,
        state.context_floor,
        state.cleared_floor,
        state.last,
        state.visible_entries,
        state.total_entries,
        state.total_messages,
        state.replayed_entries,
        state.first_activity_ms,
        state.last_activity_ms,
        fork_source,
        fork_at,
        fork_position,
        None if state.lease is None else msgspec.json.encode(state.lease).decode(),
    )


@lru_cache(maxsize=4096)
def _owners(key: str) -> tuple[str | None, str | None, str | None]:
    """Agent (of a 1:1 key only), team and room, for the columns that listings search by."""
    team = parse_team_key(key)
    if team is not None:
        return None, team.team_id, team.room_id
    return agent_id_of(key), None, None
