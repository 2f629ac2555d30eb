"""A conversation as people see it (orchestrator.md, "Types"): messages with author and time, attachments apart."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ChatRole(StrEnum):
    """Who said it."""

    USER = "USER"
    ASSISTANT = "ASSISTANT"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message. `message_id` is set on user messages (attachments are found by it), None on assistant ones.

    `content` may be empty. Raises TypeError for fields of a wrong type, ValueError for a naive `time`.
    """

    role: ChatRole
    content: str
    message_id: str | None = None
    time: datetime | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.role, ChatRole):
            raise TypeError("role must be ChatRole.USER or ChatRole.ASSISTANT")
        if not isinstance(self.content, str):
            raise TypeError("content must be a string")
        if not isinstance(self.message_id, str | None):
            raise TypeError("message_id must be a string or None")
        if not isinstance(self.time, datetime | None):
            raise TypeError("time must be a datetime or None")
        if self.time is not None and self.time.tzinfo is None:
            raise ValueError("time must carry a time zone")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that belongs to a user message. Raises TypeError for fields of a wrong type."""

    name: str
    mime_type: str
    data: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError("name must be a string")
        if not isinstance(self.mime_type, str):
            raise TypeError("mime_type must be a string")
        if not isinstance(self.data, bytes):
            raise TypeError("data must be bytes")


@dataclass(frozen=True, slots=True)
class AttachmentRef:
    """Where an attachment's bytes are: stored once per content. `size` in bytes, `sha256` in hex."""

    message_id: str
    name: str
    mime_type: str
    size: int
    sha256: str
