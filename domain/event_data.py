"""The data of every event type: one frozen struct each, camelCase on the wire (events.md, "Types").

Raw JSON inside (entries, agent messages) is kept as bytes and never re-serialised.
"""

from typing import Annotated, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
NonEmpty = Annotated[str, msgspec.Meta(min_length=1)]

RawValue = msgspec.Raw | msgspec.UnsetType
"""One raw JSON value, or UNSET; a `null` means the same as UNSET. (msgspec reads `Raw | None` as None alone.)"""


class _Data(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Unknown fields are ignored: a released schema changes only by optional additions."""


class ResumePointData(_Data, frozen=True):
    """Where an agent's runtime continues; a null `resume_id` clears it."""

    runtime: str
    resume_id: str | None = None


class Genesis(_Data, frozen=True):
    """First record of every partition."""

    log_id: NonEmpty
    partition: Count
    partitions: Annotated[int, msgspec.Meta(ge=1, le=1024)]


class TurnAppended(_Data, frozen=True):
    """One request's worth of conversation: entries, agent messages or both. `messages` None and `[]` differ."""

    session_key: NonEmpty
    gateway_url: str = ""
    entries: list[msgspec.Raw] = []
    messages: list[msgspec.Raw] | None = None
    run_id: str | None = None
    epoch: Count | None = None
    if_position: Count | None = None
    based_on: Count | None = None
    outcome: Literal["ok", "failed", "interrupted"] = "ok"
    error: str | None = None
    usage: RawValue = msgspec.UNSET
    finish_reason: str | None = None
    resume_point: ResumePointData | None = None
    agent: str | None = None
    model: str | None = None


class TurnStarted(_Data, frozen=True):
    """Takes the session's lease for `lease` ms of append time; may carry the prompt."""

    session_key: NonEmpty
    run_id: NonEmpty
    lease: Count
    policy: Literal["reject", "enqueue", "interrupt"] = "reject"
    epoch: Count | None = None
    if_position: Count | None = None
    gateway_url: str = ""
    entries: list[msgspec.Raw] = []
    messages: list[msgspec.Raw] | None = None


class TurnReleased(_Data, frozen=True):
    """Gives the lease of `run_id` back."""

    session_key: NonEmpty
    run_id: NonEmpty


class HistoryRestored(_Data, frozen=True):
    """Replaces what the model sees by these messages."""

    session_key: NonEmpty
    messages: list[msgspec.Raw]
    epoch: Count | None = None


class ResumePointSaved(_Data, frozen=True):
    """Sets or (null `resume_id`) clears the resume point."""

    session_key: NonEmpty
    runtime: str
    resume_id: str | None
    epoch: Count | None = None


class AttachmentAdded(_Data, frozen=True):
    """A reference to bytes kept elsewhere by their SHA-256 (hex). `size` is in bytes."""

    session_key: NonEmpty
    message_id: NonEmpty
    name: str
    mime_type: str
    size: Count
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class SessionForked(_Data, frozen=True):
    """`session_key` starts from `source` at row id `at`."""

    session_key: NonEmpty
    source: NonEmpty
    at: Count


class ContextReset(_Data, frozen=True):
    """Ends the context of every listed key; the divider becomes a row of `notice_key`."""

    session_keys: Annotated[list[NonEmpty], msgspec.Meta(min_length=1)]
    divider: RawValue = msgspec.UNSET
    notice_key: str | None = None


class ChatCleared(_Data, frozen=True):
    """Sets aside a team's General chat, one room (`room:<id>`) or everything (`*`). `cleared_at` is Unix ms."""

    team_id: NonEmpty
    scope: NonEmpty
    cleared_at: Count


class SessionDeleted(_Data, frozen=True):
    """Ends the session and everything it held."""

    session_key: NonEmpty
    reason: str | None = None
    actor: str | None = None


class ErasureCompleted(_Data, frozen=True):
    """The bytes of a deleted session are gone from every store. Hash: SHA-256 (hex) of the session key."""

    session_hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    counts: dict[str, int]
    positions: list[str]


class QuarantineDecided(_Data, frozen=True):
    """An operator's decision on a parked record."""

    session_key: NonEmpty
    position: NonEmpty
    decision: Literal["retry", "skip"]
    why: str


class ProducerFenced(_Data, frozen=True):
    """From here on records of this producer (UUID text) are ignored in this partition."""

    producer: NonEmpty


class Tick(_Data, frozen=True):
    """Nothing; makes an idle segment roll."""


EventData = (
    Genesis
    | TurnAppended
    | TurnStarted
    | TurnReleased
    | HistoryRestored
    | ResumePointSaved
    | AttachmentAdded
    | SessionForked
    | ContextReset
    | ChatCleared
    | SessionDeleted
    | ErasureCompleted
    | QuarantineDecided
    | ProducerFenced
    | Tick
)
