"""Given / when / then for the fold: a story writes records, each folded as it comes, and reads the tables.

Ids, offsets and append times count up from fixed numbers, so a story is the same in every run. `check` folds the whole
log again in one batch: however it is cut, the same tables must come out.
"""

from dataclasses import replace
from typing import Any
from uuid import UUID

import msgspec

from tests.domain.memory_tables import MemoryTables
from turnlog.domain import event_data as d
from turnlog.domain.event_json import DATA_TYPES, encode_data
from turnlog.domain.events import Event, Record, RecordKey
from turnlog.domain.fold.effects import Effects, EntryRow, MessagesRow, Verdict
from turnlog.domain.fold.state import SessionState
from turnlog.domain.positions import Position
from turnlog.domain.session_key import Scope, session_id, stream_of, team_stream

K = "agent:a1:native"
GENERAL_A = "agent:a1:team:t1"
GENERAL_B = "agent:a2:team:t1"
ROOM_A = "agent:a1:team:t1:room:r1"
OTHER_ROOM = "agent:a1:team:t1:room:r2"
OTHER_TEAM = "agent:a1:team:t2"

_TYPES = {struct: event_type for event_type, struct in DATA_TYPES.items()}


class Story:
    """A log of one partition and the tables it folds into. Every writing method answers the record's offset."""

    def __init__(self) -> None:
        self.tables = MemoryTables()
        self.records: list[Record] = []
        self.effects: list[Effects] = []
        self.offset = 0
        self.now_ms = 1_000_000

    # Writing

    def append(self, data: d.EventData, subject: str, stream: str | None = None, **envelope: Any) -> int:  # noqa: ANN401
        """Append an event with this data; `envelope` are fields of Event."""
        event = Event(
            id=UUID(int=0xE000 + self.offset + 1),
            type=_TYPES[type(data)].wire_name,
            stream=stream_of(subject) if stream is None else stream,
            subject=subject,
            time_ms=self.now_ms,
            data=encode_data(data),
        )
        return self.land(replace(event, **envelope))

    def land(self, event: Event | None, key: RecordKey | None = None) -> int:
        """A record with this event (None: an erased value) lands at the next offset and is folded."""
        self.offset += 1
        self.now_ms += 1000
        if key is None:
            key = RecordKey(UUID(int=0), 1) if event is None else event.key
        record = Record(Position(0, self.offset), self.now_ms, key, event)
        self.records.append(record)
        self.effects.append(self.tables.fold([record]))
        return self.offset

    def resend(self, offset: int, **changes: Any) -> int:  # noqa: ANN401 - fields of Event
        """The same event again, as the next attempt."""
        event = self.event(offset)
        return self.land(replace(event, **({"attempt": event.attempt + 1} | changes)))

    def turn(self, key: str, *entry_ids: str, **fields: Any) -> int:  # noqa: ANN401 - fields of data or envelope
        """A turn with one entry per id, or with the `entries` given."""
        return self._write(d.TurnAppended, key, **({"entries": entries(*entry_ids)} | fields))

    def started(self, key: str, run_id: str = "run", lease: int = 60_000, **fields: Any) -> int:  # noqa: ANN401
        """A run asks for the lease."""
        return self._write(d.TurnStarted, key, run_id=run_id, lease=lease, **fields)

    def released(self, key: str, run_id: str = "run") -> int:
        """A run gives its lease back."""
        return self._write(d.TurnReleased, key, run_id=run_id)

    def restored(self, key: str, *texts: str, **fields: Any) -> int:  # noqa: ANN401
        """The history is replaced by these messages (raw JSON)."""
        return self._write(d.HistoryRestored, key, messages=raws(*texts), **fields)

    def saved(self, key: str, resume_id: str | None = "r1", **fields: Any) -> int:  # noqa: ANN401
        """A resume point is saved, or cleared by None."""
        return self._write(d.ResumePointSaved, key, runtime="codex", resume_id=resume_id, **fields)

    def attached(self, key: str, **fields: Any) -> int:  # noqa: ANN401
        """An attachment is referred to."""
        given = {"message_id": "m1", "name": "a.png", "mime_type": "image/png", "size": 3, "sha256": "ab" * 32}
        return self._write(d.AttachmentAdded, key, **(given | fields))

    def forked(self, key: str, source: str, at: int = 4096, **fields: Any) -> int:  # noqa: ANN401
        """A key starts from another's rows."""
        return self._write(d.SessionForked, key, source=source, at=at, **fields)

    def reset(self, *keys: str, divider: str | None = None, notice: str | None = None, **envelope: Any) -> int:  # noqa: ANN401
        """The context of these keys ends; `divider` is raw JSON."""
        raw = msgspec.UNSET if divider is None else msgspec.Raw(divider.encode())
        data = d.ContextReset(list(keys), divider=raw, notice_key=notice)
        return self.append(data, keys[0] if notice is None else notice, **envelope)

    def clear(self, scope: str = "general", team: str = "t1", cleared_at: int = 5, **envelope: Any) -> int:  # noqa: ANN401
        """A scope is cleared."""
        subject = Scope(team, scope).subject()
        return self.append(d.ChatCleared(team, scope, cleared_at), subject, team_stream(team), **envelope)

    def deleted(self, key: str, reason: str | None = None, actor: str | None = None, **envelope: Any) -> int:  # noqa: ANN401
        """A session is deleted."""
        return self.append(d.SessionDeleted(key, reason, actor), key, **envelope)

    def fenced(self, producer: UUID, stream: str = "log") -> int:
        """A successor fences a dead producer."""
        return self.append(d.ProducerFenced(str(producer)), f"producer:{producer}", stream)

    def _write(self, struct: type[Any], key: str, **fields: Any) -> int:  # noqa: ANN401
        names = struct.__struct_fields__
        data = struct(session_key=key, **{name: value for name, value in fields.items() if name in names})
        return self.append(data, key, **{name: value for name, value in fields.items() if name not in names})

    # Reading

    def event(self, offset: int) -> Event:
        """The event at an offset."""
        event = self.records[offset - 1].event
        assert event is not None
        return event

    def verdict(self, offset: int) -> Verdict:
        """The one verdict on the record at an offset."""
        (verdict,) = self.effects[offset - 1].verdicts
        return verdict

    def status(self, offset: int) -> int:
        """The verdict's status."""
        return self.verdict(offset).status

    def state(self, key: str) -> SessionState:
        """The key's row."""
        return self.tables.sessions[session_id(key)]

    def has_row(self, key: str) -> bool:
        """True if the key has a row in `sessions`."""
        return session_id(key) in self.tables.sessions

    def entries(self, key: str) -> list[EntryRow]:
        """The key's entries by row id."""
        return [row for _, row in sorted(self.tables.entries.items()) if row.session_id == session_id(key)]

    def messages(self, key: str) -> list[MessagesRow]:
        """The key's message rows by row id."""
        return [row for _, row in sorted(self.tables.messages.items()) if row.session_id == session_id(key)]

    def in_outbox(self) -> set[int]:
        """Offsets of the records whose values must be erased."""
        return set(self.tables.outbox)

    def check(self) -> None:
        """Then: the same log in one batch ends in the same tables, with the same verdicts and the same outbox."""
        whole = MemoryTables()
        effects = whole.fold(self.records)
        assert whole.snapshot() == self.tables.snapshot()
        assert whole.outbox == self.tables.outbox
        assert whole.requests == self.tables.requests
        assert effects.verdicts == [verdict for step in self.effects for verdict in step.verdicts]
        assert effects.changes == [change for step in self.effects for change in step.changes]


def raws(*texts: str) -> list[msgspec.Raw]:
    """Raw JSON values."""
    return [msgspec.Raw(text.encode()) for text in texts]


def entries(*entry_ids: str) -> list[msgspec.Raw]:
    """One minimal entry per id."""
    return raws(*(f'{{"entryId":"{entry_id}"}}' for entry_id in entry_ids))
