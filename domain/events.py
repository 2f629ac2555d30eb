"""Event types, the envelope around every event, and records as a log returns them (events.md)."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from turnlog.domain.positions import Position

MAX_RECORD_BYTES = 3 * 1024 * 1024
"""`max.message.bytes` of the topic; no record, headers included, may exceed it."""

TYPE_PREFIX = "dev.turnlog."
TYPE_SUFFIX = ".v1"


class EventType(IntEnum):
    """Every event type. The number is what the event index stores; numbers are never reused."""

    GENESIS = 1
    TURN_APPENDED = 2
    TURN_STARTED = 3
    TURN_RELEASED = 4
    HISTORY_RESTORED = 5
    RESUMEPOINT_SAVED = 6
    ATTACHMENT_ADDED = 7
    SESSION_FORKED = 8
    CONTEXT_RESET = 9
    CHAT_CLEARED = 10
    SESSION_DELETED = 11
    ERASURE_COMPLETED = 12
    QUARANTINE_DECIDED = 13
    PRODUCER_FENCED = 14
    TICK = 15

    @property
    def wire_name(self) -> str:
        """The CloudEvents type, as in `dev.turnlog.turn.appended.v1`."""
        return WIRE_NAMES[self]

    @property
    def erasable(self) -> bool:
        """True if records of this type go when their session is deleted."""
        return self in _ERASABLE


_ERASABLE = frozenset(
    {
        EventType.TURN_APPENDED,
        EventType.TURN_STARTED,
        EventType.TURN_RELEASED,
        EventType.HISTORY_RESTORED,
        EventType.RESUMEPOINT_SAVED,
        EventType.ATTACHMENT_ADDED,
        EventType.SESSION_FORKED,
    }
)

WIRE_NAMES: dict[EventType, str] = {
    event_type: f"{TYPE_PREFIX}{event_type.name.lower().replace('_', '.')}{TYPE_SUFFIX}" for event_type in EventType
}
TYPES_BY_WIRE_NAME: dict[str, EventType] = {name: event_type for event_type, name in WIRE_NAMES.items()}


class RecordKey(NamedTuple):
    """The key of one physical append attempt, `<event id>/<attempt>`: unique, so compaction only ever erases."""

    event_id: UUID
    attempt: int

    def __str__(self) -> str:
        return f"{self.event_id}/{self.attempt}"


NO_KEY = RecordKey(UUID(int=0), 0)
"""Stands for a record key that isn't turnlog's."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event with its CloudEvents attributes. `data` is the UTF-8 JSON value, kept byte for byte.

    `type` is the wire name, so that an unknown type survives reading. `time_ms` is when it was accepted (Unix ms,
    the accepting process's clock; never decides order). `sent_after` is an offset: on a resend the partition's end
    when it was first sent, on a request with an idempotency key the checkpoint at which the key was looked up.
    `idempotency_key` is the key hash, 32 bytes; `request_hash` the SHA-256 of the client's request, 32 bytes.
    """

    id: UUID
    type: str
    stream: str
    subject: str
    time_ms: int
    data: bytes
    attempt: int = 1
    sent_after: int | None = None
    idempotency_key: bytes | None = None
    request_hash: bytes | None = None
    producer: UUID | None = None
    actor: str | None = None
    traceparent: str | None = None
    ignorable: bool = False

    @property
    def key(self) -> RecordKey:
        """The record key of this attempt."""
        return RecordKey(self.id, self.attempt)


@dataclass(frozen=True, slots=True)
class Record:
    """What a log returns at a position. `event` is None where the value was erased, or is `undecodable`.

    `appended_ms` is the log's append time (Unix ms): what "at an instant" means. `undecodable` says why a record with
    a value is no event of turnlog's; its `key` may then be `NO_KEY`.
    """

    position: Position
    appended_ms: int
    key: RecordKey
    event: Event | None
    undecodable: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Records read from one partition, in offset order, and where reading goes on.

    `next_offset` can lie beyond the last record: offsets have gaps where compaction removed whole ranges.
    """

    records: tuple[Record, ...] = field(default_factory=tuple)
    next_offset: int = 0
