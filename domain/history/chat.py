"""A conversation as people see it (orchestrator.md, "Types"): messages with author and time, attachments apart."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from turnlog.domain.errors import BadInput


class ChatRole(StrEnum):
    """Who said it."""

    USER = "USER"
    ASSISTANT = "ASSISTANT"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message. `message_id` is set on user messages (attachments are found by it), None on assistant ones.

    `content` may be empty; `time` carries a time zone. Raises BadInput naming the field that breaks a rule.
    """

    role: ChatRole
    content: str
    message_id: str | None = None
    time: datetime | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.role, ChatRole):
            raise BadInput("role must be ChatRole.USER or ChatRole.ASSISTANT")
        if not isinstance(self.content, str):
            raise BadInput("content must be a string")
        if not isinstance(self.message_id, str | None):
            raise BadInput("message_id must be a string or None")
        if not isinstance(self.time, datetime | None):
            raise BadInput("time must be a datetime or None")
        if self.time is not None and self.time.tzinfo is None:
            raise BadInput("time must carry a time zone")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that belongs to a user message. Raises BadInput naming the field of a wrong type."""

    name: str
    mime_type: str
    data: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise BadInput("name must be a string")
        if not isinstance(self.mime_type, str):
            raise BadInput("mime_type must be a string")
        if not isinstance(self.data, bytes):
            raise BadInput("data must be bytes")


@dataclass(frozen=True, slots=True)
class AttachmentRef:
    """Where an attachment's bytes are: stored once per content. `size` in bytes, `sha256` in hex."""

    message_id: str
    name: str
    mime_type: str
    size: int
    sha256: str
