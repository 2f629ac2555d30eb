"""All projection tables as plain rows: of a database, and what they must be by the tables in memory.

Ledgers are apart: they stand outside the law of erasure.
"""

import json
from typing import Any
from uuid import UUID

import asyncpg

from tests.domain.memory_tables import MemoryTables
from turnlog.domain.fold.effects import Effects, Verdict
from turnlog.domain.fold.state import SessionState
from turnlog.domain.session_key import agent_id_of, parse_team_key
from turnlog.projections.tables import PROJECTION_TABLES

Dump = dict[str, list[tuple[Any, ...]]]
"""Table name → its rows, each with the columns in the order of their names, sorted."""
Row = dict[str, Any]


async def dump(connection: "asyncpg.Connection[Any]") -> Dump:
    """Every projection table of the generation that the connection's search path finds."""
    tables: Dump = {}
    for table in PROJECTION_TABLES:
        columns = sorted(column.name for column in table.columns)
        rows = await connection.fetch(f"SELECT {', '.join(columns)} FROM {table.name}")  # noqa: S608 - names of ours
        tables[table.name] = sorted((tuple(row) for row in rows), key=repr)
    return tables


async def outbox(connection: "asyncpg.Connection[Any]") -> set[tuple[int, int, UUID, int, UUID]]:
    """(partition, offset, event id, attempt, session id) of every record that is to be erased."""
    rows = await connection.fetch("SELECT partition, position, event_id, attempt, session_id FROM erasure_outbox")
    return {tuple(row) for row in rows}


async def requests(connection: "asyncpg.Connection[Any]") -> Dump:
    """The verdicts that stand, without the time they were written."""
    columns = sorted({*_request_row(0, None)} - {"applied_at"})
    rows = await connection.fetch(f"SELECT {', '.join(columns)} FROM requests")  # noqa: S608 - names of ours
    return {"requests": sorted((tuple(row) for row in rows), key=repr)}


def expected_dump(partitions: dict[int, MemoryTables]) -> Dump:
    """What `dump` must return for these partitions' tables."""
    rows: dict[str, list[Row]] = {table.name: [] for table in PROJECTION_TABLES}
    for partition, tables in partitions.items():
        for name, found in _rows(partition, tables).items():
            rows[name] += found
    return {name: _sorted(found) for name, found in rows.items()}


def expected_outbox(partition: int, tables: MemoryTables) -> set[tuple[int, int, UUID, int, UUID]]:
    """What `outbox` must return for one partition."""
    return {
        (partition, row.offset, row.key.event_id, row.key.attempt, row.session_id) for row in tables.outbox.values()
    }


def expected_requests(partition: int, effects: list[Effects]) -> Dump:
    """The awaited verdicts that stand after these batches: an event's first, unless a later attempt got 410."""
    standing: dict[UUID, Verdict] = {}
    for verdict in (verdict for effect in effects for verdict in effect.verdicts if verdict.awaited):
        first = standing.setdefault(verdict.event_id, verdict)
        if verdict.status == 410 and first.status != 410:
            standing[verdict.event_id] = verdict
    return {"requests": _sorted([_request_row(partition, verdict) for verdict in standing.values()])}


def _rows(partition: int, tables: MemoryTables) -> dict[str, list[Row]]:
    points = [(state.id, state.resume_point) for state in tables.sessions.values() if state.resume_point is not None]
    return {
        "sessions": [_session_row(partition, state) for state in tables.sessions.values()],
        "resume_points": [{"session_id": session_id} | point._asdict() for session_id, point in points],
        "fences": [
            {"session_id": session_id, "partition": partition, "last_delete": offset}
            for session_id, offset in tables.fences.items()
        ],
        "clears": [
            {"team_id": scope.team_id, "scope": scope.name, "partition": partition, "last_clear": offset}
            for scope, offset in tables.clears.items()
        ],
        "fenced_producers": [
            {"partition": partition, "producer": producer, "position": offset}
            for producer, offset in tables.fenced_producers.items()
        ],
        "endings": [
            _renamed(row._asdict(), offset="position", scope=None)
            | {"partition": partition}
            | {"team_id": row.scope and row.scope.team_id, "scope": row.scope and row.scope.name}
            for row in tables.endings.values()
        ],
        "transcript_entries": [_renamed(row._asdict(), text="entry") for row in tables.entries.values()],
        "agent_messages": [_renamed(row._asdict(), text="messages") for row in tables.messages.values()],
        "attachments": [_renamed(row._asdict(), offset="position") for row in tables.attachments.values()],
        "event_index": [
            _renamed(row._asdict(), offset="position", key=None)
            | {"event_id": row.key.event_id, "attempt": row.key.attempt, "partition": partition}
            for row in tables.index.values()
        ],
    }


def _session_row(partition: int, state: SessionState) -> Row:
    team = parse_team_key(state.key)
    lease = state.lease and [state.lease.run_id, state.lease.until_ms, [list(run) for run in state.lease.waiting]]
    return {
        "session_id": state.id,
        "partition": partition,
        "session_key": state.key,
        "agent_id": agent_id_of(state.key) if team is None else None,
        "team_id": team and team.team_id,
        "room_id": team and team.room_id,
        "last_delete": state.last_delete,
        "last_clear": state.last_clear,
        "last_reset": state.last_reset,
        "context_floor": state.context_floor,
        "cleared_floor": state.cleared_floor,
        "last_position": state.last,
        "visible_entries": state.visible_entries,
        "total_entries": state.total_entries,
        "total_messages": state.total_messages,
        "replayed_entries": state.replayed_entries,
        "first_activity_ms": state.first_activity_ms,
        "last_activity_ms": state.last_activity_ms,
        "fork_source": state.fork and state.fork.source,
        "fork_at": None if state.fork is None else state.fork.at,
        "fork_position": None if state.fork is None else state.fork.position,
        "lease": None if lease is None else json.dumps(lease, ensure_ascii=False, separators=(",", ":")),
    }


def _request_row(partition: int, verdict: Verdict | None) -> Row:
    row = dict.fromkeys(Verdict._fields) if verdict is None else verdict._asdict()
    keys = list(row.pop("session_keys") or ())
    return _renamed(row, offset="position", first="first_event_id", awaited=None) | {
        "partition": partition,
        "session_keys": json.dumps(keys, ensure_ascii=False, separators=(",", ":")) if keys else None,
    }


def _renamed(row: Row, **names: str | None) -> Row:
    """The row with these columns renamed; None leaves a column out."""
    renamed = {names.get(name, name): value for name, value in row.items()}
    return {name: value for name, value in renamed.items() if name is not None}


def _sorted(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted((tuple(_plain(row[name]) for name in sorted(row)) for row in rows), key=repr)


def _plain(value: Any) -> Any:  # noqa: ANN401 - a column of any table
    return int(value) if isinstance(value, int) else value
