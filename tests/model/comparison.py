"""The same log through the real fold and through the naive model, and both dumps in one plain form."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

from tests.domain.memory_tables import MemoryTables
from tests.model.naive_fold import NaiveFold
from tests.model.naive_records import LogRecord, subject_id
from turnlog.domain.events import Event, Record, RecordKey
from turnlog.domain.fold.effects import (
    AttachmentRow,
    Effects,
    EndingRow,
    EntryRow,
    IndexRow,
    MessagesRow,
    OutboxRow,
    Verdict,
)
from turnlog.domain.fold.state import Fork, SessionState
from turnlog.domain.positions import Position
from turnlog.domain.session_key import Scope

Dump = dict[str, list[Any]]
"""Table name → its rows as plain values, sorted."""
Row = dict[str, Any]
RealRow = EntryRow | MessagesRow | AttachmentRow | EndingRow | IndexRow | OutboxRow


def real_record(record: LogRecord) -> Record:
    """The record as a log would return it."""
    event_id = UUID(record.event_id)
    event = None
    if record.data is not None:
        event = Event(
            id=event_id,
            type=f"dev.turnlog.{record.type}.v1",
            stream=record.stream,
            subject=record.subject,
            time_ms=record.appended_ms,
            data=record.data,
            attempt=record.attempt,
            sent_after=record.sent_after,
            idempotency_key=record.key_hash,
            request_hash=record.request_hash,
            producer=None if record.producer is None else UUID(record.producer),
            actor=record.actor,
            ignorable=record.ignorable,
        )
    return Record(Position(0, record.offset), record.appended_ms, RecordKey(event_id, record.attempt), event)


def fold_really(batches: Iterable[Sequence[LogRecord]]) -> tuple[MemoryTables, list[Effects]]:
    """The tables after the real fold of these batches, and what each batch did."""
    tables = MemoryTables()
    return tables, [tables.fold([real_record(record) for record in batch]) for batch in batches]


def erased(log: Sequence[LogRecord], nulled: set[int], removed: set[int]) -> list[LogRecord]:
    """The log with the records at some offsets nulled, at others gone; every offset that stays is kept."""
    return [
        replace(record, data=None) if record.offset in nulled else record
        for record in log
        if record.offset not in removed
    ]


def real_dump(tables: MemoryTables) -> Dump:
    """Every table that isn't a ledger."""
    sessions = list(tables.sessions.values())
    return {
        "sessions": sorted((_session(state) for state in sessions), key=repr),
        "resume points": sorted((s.id.hex, tuple(s.resume_point)) for s in sessions if s.resume_point is not None),
        "fences": sorted((session.hex, at) for session, at in tables.fences.items()),
        "clears": sorted((scope.team_id, scope.name, at) for scope, at in tables.clears.items()),
        "fenced producers": sorted((str(producer), at) for producer, at in tables.fenced_producers.items()),
        "entries": _real_rows(tables.entries.values()),
        "messages": _real_rows(tables.messages.values()),
        "attachments": _real_rows(tables.attachments.values()),
        "endings": _real_rows(tables.endings.values()),
        "event index": _real_rows(tables.index.values()),
    }


def naive_dump(fold: NaiveFold) -> Dump:
    """The model's tables in the form of `real_dump`."""
    sessions = fold.sessions.items()
    return {
        "sessions": sorted((_naive_session(key, row) for key, row in sessions), key=repr),
        "resume points": sorted((subject_id(key), row["resume_point"]) for key, row in sessions if row["resume_point"]),
        "fences": sorted((subject_id(key), at) for key, at in fold.fences.items()),
        "clears": sorted((team, scope, at) for (team, scope), at in fold.clears.items()),
        "fenced producers": sorted(fold.fenced_producers.items()),
        "entries": _naive_rows(fold.entries),
        "messages": _naive_rows(fold.messages),
        "attachments": _naive_rows(fold.attachments),
        "endings": _naive_rows(fold.endings),
        "event index": _naive_rows(fold.index),
    }


def real_outbox(tables: MemoryTables) -> list[Any]:
    """Record keys to erase, by offset."""
    return _real_rows(tables.outbox.values())


def naive_outbox(fold: NaiveFold) -> list[Any]:
    """The model's outbox in the form of `real_outbox`."""
    return _naive_rows(fold.outbox)


def real_verdicts(effects: Iterable[Effects]) -> list[Any]:
    """Every verdict in log order, without the error's words."""
    return [_verdict(verdict) for effect in effects for verdict in effect.verdicts]


def naive_verdicts(fold: NaiveFold) -> list[Any]:
    """The model's verdicts in the form of `real_verdicts`."""
    return [_ordered(row) for row in fold.verdicts]


def _session(state: SessionState) -> Row:
    row = {column.name: getattr(state, column.name) for column in fields(state) if column.name != "resume_point"}
    lease = state.lease
    row["lease"] = lease and {"run_id": lease.run_id, "until_ms": lease.until_ms, "waiting": list(lease.waiting)}
    return _ordered(row)


def _naive_session(key: str, row: Row) -> Row:
    return _ordered({name: value for name, value in row.items() if name != "resume_point"} | {"id": subject_id(key)})


def _verdict(verdict: Verdict) -> Row:
    row = verdict._asdict()
    error = row.pop("error")
    assert verdict.first is not None or (error is None) == (verdict.status < 300)
    row["session_keys"] = list(verdict.session_keys)
    # The epoch that a reset, clear or delete answers isn't settled by the rules.
    row["epoch"] = verdict.epoch if verdict.type.erasable else None
    return _ordered(row)


def _real_rows(rows: Iterable[RealRow]) -> list[Row]:
    # Whether messages replay as they are has a test of its own: tests/domain/test_message_facts.py.
    plain = ({name: value for name, value in row._asdict().items() if name != "valid"} for row in rows)
    return sorted((_ordered(row) for row in plain), key=_place)


def _naive_rows(rows: Iterable[Row]) -> list[Row]:
    return sorted((_ordered(row) for row in rows), key=_place)


def _place(row: Row) -> tuple[int, int]:
    return row["row_id"] if "row_id" in row else row["offset"], row.get("ordinal", 0)


def _ordered(row: Row) -> Row:
    """The row with its columns in order, a record key as its two parts and ids as hex."""
    key: RecordKey | None = row.get("key") if isinstance(row.get("key"), RecordKey) else None
    if key is not None:
        row = {name: value for name, value in row.items() if name != "key"}
        row |= {"event_id": key.event_id, "attempt": key.attempt}
    return {name: _plain(row[name]) for name in sorted(row)}


def _plain(value: Any) -> Any:  # noqa: ANN401 - a column of any table
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, Scope | Fork):
        return tuple(value)
    return value.hex() if isinstance(value, bytes) else value
