"""The tables in memory: what the SQL adapter does with `Touched` and `Effects`, in plain dictionaries.

The adapter of the property tests, and the meaning of `Effects` in executable form. It is strict where the database
is: writing a row whose primary key exists is an error.
"""

import copy
from collections.abc import Hashable, Iterable
from dataclasses import astuple, dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from turnlog.domain.events import EventType, Record
from turnlog.domain.fold.decode import decode
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
from turnlog.domain.fold.judge import fold
from turnlog.domain.fold.state import Judged, Loaded, SessionState, Touched
from turnlog.domain.fold.touched import touched
from turnlog.domain.session_key import Scope, scopes_of

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class MemoryTables:
    """One partition's tables. `outbox` and `requests` are ledgers: they stand outside `snapshot`."""

    sessions: dict[UUID, SessionState] = field(default_factory=dict)
    fences: dict[UUID, int] = field(default_factory=dict)
    clears: dict[Scope, int] = field(default_factory=dict)
    fenced_producers: dict[UUID, int] = field(default_factory=dict)
    entries: dict[tuple[UUID, int], EntryRow] = field(default_factory=dict)
    messages: dict[tuple[UUID, int], MessagesRow] = field(default_factory=dict)
    attachments: dict[tuple[UUID, int], AttachmentRow] = field(default_factory=dict)
    endings: dict[tuple[int, int], EndingRow] = field(default_factory=dict)
    index: dict[int, IndexRow] = field(default_factory=dict)
    outbox: dict[int, OutboxRow] = field(default_factory=dict)
    requests: dict[tuple[UUID, EventType, UUID], Verdict] = field(default_factory=dict)
    """Awaited verdicts, by subject, type and event id. The first stands, unless a later attempt was refused (410)."""

    def fold(self, records: Iterable[Record]) -> Effects:
        """One projector batch: decode, load what it touches, fold, apply. Raises Unfoldable with nothing applied."""
        decoded = [ready for record in records if (ready := decode(record)) is not None]
        effects = fold(self.load(touched(decoded)), decoded)
        self.apply(effects)
        return effects

    def load(self, wanted: Touched) -> Loaded:
        """The stored state of everything wanted, copied: the fold takes it over."""
        loaded = Loaded(
            sessions={
                id_: copy.copy(state)
                for id_, state in self.sessions.items()
                if id_ in wanted.session_ids or not wanted.cleared.isdisjoint(scopes_of(state.key))
            },
            fences={id_: at for id_, at in self.fences.items() if id_ in wanted.session_ids},
            clears={scope: at for scope, at in self.clears.items() if scope in wanted.scopes},
            fenced_producers={id_: at for id_, at in self.fenced_producers.items() if id_ in wanted.producers},
        )
        for offset in sorted(self.index):
            row = self.index[offset]
            judged = Judged(row.key.event_id, offset, row.status)
            if row.key.event_id in wanted.event_ids:
                loaded.judged.setdefault((row.subject_id, row.type, row.key.event_id), judged)
            if row.key_hash is not None and row.key_hash in wanted.key_hashes:
                loaded.judged_keys.setdefault((row.subject_id, row.type, row.key_hash), judged)
        for entry in self.entries.values():
            if entry.entry_hash in wanted.entry_hashes:
                loaded.entry_hashes.setdefault(entry.session_id, set()).add(entry.entry_hash)
        return loaded

    def apply(self, effects: Effects) -> None:
        """Everything of deleted sessions goes first, then the rows are written."""
        for session in effects.deleted:
            self._delete(session)
        self.sessions |= {id_: copy.copy(state) for id_, state in effects.sessions.items()}
        self.fences |= effects.fences
        self.clears |= effects.clears
        _insert(self.fenced_producers, effects.fenced_producers.items())
        _insert(self.entries, (((row.session_id, row.row_id), row) for row in effects.entries))
        _insert(self.messages, (((row.session_id, row.row_id), row) for row in effects.messages))
        _insert(self.attachments, (((row.session_id, row.offset), row) for row in effects.attachments))
        _insert(self.endings, (((row.offset, row.ordinal), row) for row in effects.endings))
        _insert(self.index, ((row.offset, row) for row in effects.index))
        _insert(self.outbox, ((row.offset, row) for row in effects.outbox))
        for verdict in effects.verdicts:
            key = (verdict.subject_id, verdict.type, verdict.event_id)
            if verdict.awaited and (verdict.first != verdict.event_id or key not in self.requests):
                self.requests[key] = verdict
        known = {(row.session_id, row.entry_hash) for row in self.entries.values()}
        assert len(known) == len(self.entries), "an entry id was stored twice in one session"

    def _delete(self, session: UUID) -> None:
        self.sessions.pop(session, None)
        self.entries = {key: row for key, row in self.entries.items() if row.session_id != session}
        self.messages = {key: row for key, row in self.messages.items() if row.session_id != session}
        self.attachments = {key: row for key, row in self.attachments.items() if row.session_id != session}
        for row in [row for row in self.index.values() if row.subject_id == session and row.type.erasable]:
            del self.index[row.offset]
            _insert(self.outbox, [(row.offset, OutboxRow(row.offset, row.key, session))])

    def snapshot(self) -> dict[str, object]:
        """Every table that isn't a ledger, as values that compare and print well: table name → sorted rows."""
        return {
            "sessions": sorted((astuple(state) for state in self.sessions.values()), key=repr),
            "fences": sorted(self.fences.items()),
            "clears": sorted(self.clears.items()),
            "fenced_producers": sorted(self.fenced_producers.items()),
            "entries": _rows(self.entries),
            "messages": _rows(self.messages),
            "attachments": _rows(self.attachments),
            "endings": _rows(self.endings),
            "index": _rows(self.index),
        }


def _insert(table: dict[K, V], rows: Iterable[tuple[K, V]]) -> None:
    for key, row in rows:
        assert key not in table, f"primary key {key} exists"
        table[key] = row


def _rows(table: dict[Any, V]) -> list[V]:
    return [table[key] for key in sorted(table)]
