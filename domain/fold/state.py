"""What the fold needs to know before it judges a batch, and how it asks for it (fold.md, "State")."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from turnlog.domain.events import EventType
from turnlog.domain.session_key import Scope


class Placement(IntEnum):
    """Where a row stands, set once by the fold."""

    IN_CONTEXT = 0
    OUTSIDE_CONTEXT = 1
    SET_ASIDE = 2


class ResumePoint(NamedTuple):
    """The saved session an agent continues from. `saved_ms` is the log's append time (Unix ms)."""

    runtime: str
    resume_id: str
    saved_ms: int
    position: int


class Fork(NamedTuple):
    """Where a forked session comes from: `source` key, rows ≤ `at` (row id); since `position` (offset)."""

    source: str
    at: int
    position: int


class Lease(NamedTuple):
    """Who may run a turn. `until_ms` is in append time (Unix ms); `waiting` are (run id, lease ms) in order."""

    run_id: str
    until_ms: int
    waiting: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class SessionState:
    """One session key's state. Endings and `last` are offsets, floors are row ids (a row counts if id > floor)."""

    key: str
    id: UUID
    last_delete: int = 0
    last_clear: int = 0
    last_reset: int = 0
    context_floor: int = 0
    cleared_floor: int = 0
    last: int = 0
    visible_entries: int = 0
    total_entries: int = 0
    total_messages: int = 0
    replayed_entries: int = 0
    """Entries of turns that brought no messages: these are what replays of such turns."""
    first_activity_ms: int = 0
    last_activity_ms: int = 0
    resume_point: ResumePoint | None = None
    fork: Fork | None = None
    lease: Lease | None = None

    @property
    def epoch(self) -> int:
        """The position of the last ending that touched this key or its scope, 0 if none."""
        return max(self.last_delete, self.last_clear, self.last_reset)

    @property
    def listed(self) -> bool:
        """True once it has an entry, a message, a resume point or a fork source."""
        return bool(self.total_entries or self.total_messages or self.resume_point or self.fork)

    def note_activity(self, appended_ms: int) -> None:
        """Something was applied at this append time (Unix ms), which may lie before an earlier record's."""
        self.first_activity_ms = self.first_activity_ms or appended_ms
        self.last_activity_ms = max(self.last_activity_ms, appended_ms)


class Judged(NamedTuple):
    """The first verdict on an event id or key hash: its event, its offset and the HTTP-like status it got."""

    event_id: UUID
    offset: int
    status: int


@dataclass(slots=True)
class Touched:
    """What a batch touches, so that one query can load it."""

    session_ids: set[UUID] = field(default_factory=set)
    scopes: set[Scope] = field(default_factory=set)
    """Scopes whose last clear matters to a touched key."""
    cleared: set[Scope] = field(default_factory=set)
    """Scopes cleared in the batch: all their sessions must be loaded."""
    event_ids: set[UUID] = field(default_factory=set)
    key_hashes: set[bytes] = field(default_factory=set)
    entry_hashes: set[UUID] = field(default_factory=set)
    """Of the entries the batch would add; each hash also covers its session."""
    producers: set[UUID] = field(default_factory=set)


@dataclass(slots=True)
class Loaded:
    """The stored state of everything in `Touched`; absent keys have no row. The fold takes it over and changes it."""

    sessions: dict[UUID, SessionState] = field(default_factory=dict)
    fences: dict[UUID, int] = field(default_factory=dict)
    """Session id → offset of its last delete."""
    clears: dict[Scope, int] = field(default_factory=dict)
    """Scope → offset of its last clear."""
    judged: dict[tuple[UUID, EventType, UUID], Judged] = field(default_factory=dict)
    """(subject id, type, event id) → first verdict."""
    judged_keys: dict[tuple[UUID, EventType, bytes], Judged] = field(default_factory=dict)
    """(subject id, type, key hash) → first verdict."""
    entry_hashes: dict[UUID, set[UUID]] = field(default_factory=dict)
    """Session id → those of its touched entry hashes that are already stored."""
    fenced_producers: dict[UUID, int] = field(default_factory=dict)
    """Producer → offset at which it was fenced in this partition."""
