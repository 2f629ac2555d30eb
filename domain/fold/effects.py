"""What a folded batch changes: rows, removals and verdicts, as plain values (fold.md, "A record at position p").

Applying order: first everything of `deleted` sessions goes, then the rows are written.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from turnlog.domain.events import EventType, RecordKey
from turnlog.domain.fold.state import Placement, SessionState
from turnlog.domain.session_key import Scope


class EntryRow(NamedTuple):
    """One transcript entry. `text` is its exact JSON; `arrived_ms` the log's append time (Unix ms)."""

    session_id: UUID
    row_id: int
    entry_hash: UUID
    placement: Placement
    arrived_ms: int
    gateway_url: str
    text: str


class MessagesRow(NamedTuple):
    """The agent messages of one turn or restore: a JSON array (maybe empty), numbered from `row_id` on.

    `based_on` is the row id that the turn was prompted from, if it said so; `restores` is True for a restore, which
    replaces all before it. `user_messages` counts those of the role user; `valid` tells that the text replays as it is.
    """

    session_id: UUID
    row_id: int
    message_count: int
    user_messages: int
    placement: Placement
    appended_ms: int
    based_on: int | None
    restores: bool
    valid: bool
    text: str


class AttachmentRow(NamedTuple):
    """A reference to attachment bytes. `size` in bytes, `sha256` raw."""

    session_id: UUID
    offset: int
    message_id: str
    name: str
    mime_type: str
    size: int
    sha256: bytes


class EndingKind(IntEnum):
    """The three ways a conversation ends."""

    RESET = 1
    CLEAR = 2
    DELETE = 3


class EndingRow(NamedTuple):
    """One ending: of a session (reset, delete) or of a scope (clear). Never erased, holds no content."""

    offset: int
    ordinal: int
    kind: EndingKind
    session_id: UUID | None
    scope: Scope | None
    actor: str | None
    reason: str | None
    cleared_at_ms: int | None
    appended_ms: int


class IndexRow(NamedTuple):
    """One judged record in the event index: no content. `subject_id` is the session's id, or that of the subject."""

    subject_id: UUID
    offset: int
    key: RecordKey
    key_hash: bytes | None
    type: EventType
    status: int


class OutboxRow(NamedTuple):
    """A record whose value must be erased from the log."""

    offset: int
    key: RecordKey
    session_id: UUID


class Verdict(NamedTuple):
    """The fold's answer to one record: HTTP-like `status` (200, 202 waiting, 409, 410), and why if it was refused.

    `first` is set on a duplicate: the verdict it repeats. `session_keys` is what a clear ended. `stored` counts the
    entries added. `awaited` is True if somebody may wait for it, so it must stand in `requests`.
    """

    event_id: UUID
    subject_id: UUID
    offset: int
    type: EventType
    status: int
    error: str | None
    epoch: int
    key_hash: bytes | None
    request_hash: bytes | None
    first: UUID | None
    session_keys: tuple[str, ...]
    stored: int
    awaited: bool


@dataclass(slots=True)
class Effects:
    """Everything one batch changes in one partition."""

    deleted: set[UUID] = field(default_factory=set)
    """Sessions whose stored state, rows and erasable index rows (these to the outbox) go before anything is written."""
    sessions: dict[UUID, SessionState] = field(default_factory=dict)
    """Session rows to write whole, resume point included (None: remove its row)."""
    fences: dict[UUID, int] = field(default_factory=dict)
    clears: dict[Scope, int] = field(default_factory=dict)
    fenced_producers: dict[UUID, int] = field(default_factory=dict)
    entries: list[EntryRow] = field(default_factory=list)
    messages: list[MessagesRow] = field(default_factory=list)
    attachments: list[AttachmentRow] = field(default_factory=list)
    endings: list[EndingRow] = field(default_factory=list)
    index: list[IndexRow] = field(default_factory=list)
    outbox: list[OutboxRow] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    changes: list["SessionChange"] = field(default_factory=list)


class SessionChange(NamedTuple):
    """A hint for open streams: which session key got rows or an ending at which offset (`what` names the ending)."""

    key: str
    offset: int
    what: EndingKind | None
