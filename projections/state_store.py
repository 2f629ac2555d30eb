"""Between the fold and the tables: everything a batch touches in one query, everything it changes as sets of rows.

Two round trips apply a batch of turns: `load`, then `advance_and_write`, which is one statement and so one transaction.
What was loaded before it holds as long as the checkpoint stands where it stood under the same fence.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import asyncpg

from turnlog.domain.errors import Fenced
from turnlog.domain.events import EventType
from turnlog.domain.fold.effects import Effects
from turnlog.domain.fold.state import Judged, Loaded, Touched
from turnlog.domain.session_key import Scope
from turnlog.projections import (
    agent_messages,
    attachments,
    checkpoints,
    clears,
    endings,
    erasure_outbox,
    event_index,
    fenced_producers,
    fences,
    requests,
    resume_points,
    sessions,
    transcript_entries,
)
from turnlog.projections.checkpoints import Held
from turnlog.projections.statement import Connection, Statement, combined

ROLLBACK_S = 5.0

LONGEST_STATEMENT_S = 600.0
"""A delete takes time in proportion to its session's length; everything else is far below."""

# A stuck holder must not keep its row locks.
_BEGIN = f"""
BEGIN;
SET LOCAL idle_in_transaction_session_timeout = '10s';
SET LOCAL statement_timeout = '{LONGEST_STATEMENT_S:.0f}s';
"""

_LOADED = f"""
  ARRAY({sessions.LOAD}) AS sessions,
  ARRAY({fences.LOAD}) AS fences,
  ARRAY({clears.LOAD}) AS clears,
  ARRAY({event_index.LOAD_BY_EVENT_ID}) AS by_event_id,
  ARRAY({event_index.LOAD_BY_KEY_HASH}) AS by_key_hash,
  ARRAY({transcript_entries.LOAD_HASHES}) AS entry_hashes,
  ARRAY({fenced_producers.LOAD}) AS fenced_producers
"""
_CLEARED = f", ARRAY({sessions.LOAD_CLEARED}) AS cleared"
_TOUCHED = (
    "partition",
    "session_ids",
    "scope_teams",
    "scope_names",
    "event_ids",
    "key_hashes",
    "entry_hashes",
    "producers",
)
_TOUCHED_CLEARED = ("cleared_teams", "cleared_rooms")
_ONE_ADVANCED = Statement("SELECT 1 / count(*) FROM w0", [])
"""Fails, and with it the whole statement, if the checkpoint wasn't where it was expected."""


def _numbered(template: str, names: Sequence[str]) -> str:
    return template.format(**{name: f"${index}" for index, name in enumerate(names, 1)})


_LOAD = _numbered(f"SELECT {_LOADED}", _TOUCHED)
_LOAD_WITH_CLEARED = _numbered(f"SELECT {_LOADED}{_CLEARED}", _TOUCHED + _TOUCHED_CLEARED)


def _unwatched(place: str) -> None:
    """What `passing` is when nobody watches."""


@asynccontextmanager
async def transaction(connection: Connection, *, durable: bool = True) -> AsyncIterator[None]:
    """One transaction with the settings that loading and applying need; rolled back on any error or cancellation.

    One that isn't `durable` may be lost by a crash of the database until the next one that is has committed.
    """
    await connection.execute(_BEGIN if durable else f"{_BEGIN}SET LOCAL synchronous_commit = off;")
    try:
        yield
        await connection.execute("COMMIT")
    except BaseException:
        with anyio.move_on_after(ROLLBACK_S, shield=True):
            if not connection.is_closed():
                await connection.execute("ROLLBACK")
        raise


async def load(connection: Connection, partition: int, touched: Touched) -> Loaded:
    """The stored state of everything the batch touches. One round trip."""
    args = _touched_args(partition, touched)
    if touched.cleared:
        return _loaded(await connection.fetchrow(_LOAD_WITH_CLEARED, *args, *_cleared_args(touched)))
    return _loaded(await connection.fetchrow(_LOAD, *args))


async def advance_and_write(
    connection: Connection,
    before: Held,
    after: Held,
    effects: Effects,
    *,
    lease_ms: int,
    passing: Callable[[str], None] = _unwatched,
) -> None:
    """Move the checkpoint from `before` to `after` and write the effects: all of it or nothing. Raises Fenced.

    `effects` must come from a state that was loaded while the checkpoint stood at `before`. `passing` is told the
    names of the places where a test may want this process to end.
    """
    advance = checkpoints.advance(before, after, lease_ms)
    if effects.deleted:
        async with transaction(connection):
            if await connection.fetchval(advance.sql, *advance.args) is None:
                raise _fenced(before)
            for statement in statements(before.partition, effects):
                await execute(connection, statement)
                passing("mid-apply")
            passing("before-commit")
        return
    everything = combined([advance, *_writes(before.partition, effects), _ONE_ADVANCED])
    try:
        await execute(connection, everything)
    except asyncpg.DivisionByZeroError:
        raise _fenced(before) from None


def _fenced(before: Held) -> Fenced:
    return Fenced(f"partition {before.partition} has another projector, or its checkpoint moved")


async def apply(connection: Connection, partition: int, effects: Effects, *, ledgers: bool = True) -> None:
    """Write what the fold decided. Run it inside `transaction`.

    Without `ledgers`, requests and outbox stay as they are: for a fold that only compares.
    """
    for statement in statements(partition, effects, ledgers=ledgers):
        await execute(connection, statement)


async def execute(connection: Connection, statement: Statement) -> None:
    """Run one of `statements`, however long a delete takes."""
    await connection.execute(statement.sql, *statement.args, timeout=LONGEST_STATEMENT_S)


def statements(partition: int, effects: Effects, *, ledgers: bool = True) -> list[Statement]:
    """What `apply` runs, in this order: removals of deleted sessions, then everything that is written."""
    found: list[Statement] = []
    if effects.deleted:
        ids = list(effects.deleted)
        tables = (transcript_entries, agent_messages, attachments, resume_points, sessions)
        found.append(combined([table.delete(ids) for table in tables]))
        found.append(erasure_outbox.move_from_index(ids) if ledgers else event_index.delete_erasable(ids))
    writes = _writes(partition, effects, ledgers=ledgers)
    if writes:
        found.append(combined(writes))
    return found


def _writes(partition: int, effects: Effects, *, ledgers: bool = True) -> list[Statement]:
    writes = _projection_writes(partition, effects)
    return writes + _ledger_writes(partition, effects) if ledgers else writes


def _projection_writes(partition: int, effects: Effects) -> list[Statement]:
    writes: list[Statement] = []
    if effects.entries:
        writes.append(transcript_entries.insert(effects.entries))
    if effects.messages:
        writes.append(agent_messages.insert(effects.messages))
    if effects.sessions:
        writes.append(sessions.upsert(partition, effects.sessions.values()))
        points = [(state.id, state.resume_point) for state in effects.sessions.values() if state.resume_point]
        without = [state.id for state in effects.sessions.values() if state.resume_point is None]
        if points:
            writes.append(resume_points.upsert(points))
        if without:
            writes.append(resume_points.delete(without))
    if effects.attachments:
        writes.append(attachments.insert(effects.attachments))
    if effects.endings:
        writes.append(endings.insert(partition, effects.endings))
    if effects.fences:
        writes.append(fences.upsert(partition, effects.fences))
    if effects.clears:
        writes.append(clears.upsert(partition, effects.clears))
    if effects.fenced_producers:
        writes.append(fenced_producers.upsert(partition, effects.fenced_producers))
    if effects.index:
        writes.append(event_index.insert(partition, effects.index))
    return writes


def _ledger_writes(partition: int, effects: Effects) -> list[Statement]:
    writes: list[Statement] = []
    awaited = [verdict for verdict in effects.verdicts if verdict.awaited]
    if awaited:
        writes.append(requests.insert(partition, awaited))
    if effects.outbox:
        writes.append(erasure_outbox.insert(partition, effects.outbox))
    return writes


def _touched_args(partition: int, touched: Touched) -> tuple[object, ...]:
    return (
        partition,
        list(touched.session_ids),
        [scope.team_id for scope in touched.scopes],
        [scope.name for scope in touched.scopes],
        list(touched.event_ids),
        list(touched.key_hashes),
        list(touched.entry_hashes),
        list(touched.producers),
    )


def _cleared_args(touched: Touched) -> tuple[object, ...]:
    scopes = list(touched.cleared)
    return [scope.team_id for scope in scopes], sessions.cleared_rooms(scopes)


def _loaded(row: Any) -> Loaded:  # noqa: ANN401 - a row of nested records
    loaded = Loaded(
        fences=dict(row["fences"]),
        clears={Scope(team_id, name): offset for team_id, name, offset in row["clears"]},
        fenced_producers=dict(row["fenced_producers"]),
    )
    for stored in (*row["sessions"], *row.get("cleared", ())):
        state = sessions.state_of(stored)
        loaded.sessions[state.id] = state
    for subject_id, kind, event_id, offset, status, _ in row["by_event_id"]:
        loaded.judged.setdefault((subject_id, EventType(kind), event_id), Judged(event_id, offset, status))
    for subject_id, kind, event_id, offset, status, key_hash in row["by_key_hash"]:
        loaded.judged_keys.setdefault((subject_id, EventType(kind), key_hash), Judged(event_id, offset, status))
    for session_id, entry_hash in row["entry_hashes"]:
        loaded.entry_hashes.setdefault(session_id, set()).add(entry_hash)
    return loaded
