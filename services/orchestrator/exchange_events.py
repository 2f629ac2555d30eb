"""What listeners are told (orchestrator.md, "Types" and "A turn")."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import Attachment
from turnlog.services.providers.provider import ResponseMetadata


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """A prompt is about to be sent. `message_id` is the one its user message will have in the history."""

    text: str
    message_id: str
    attachments: tuple[Attachment, ...]


@dataclass(frozen=True, slots=True)
class ResponseEvent:
    """A turn ended. `response` is the whole answer, empty when there is none or `error` is set.

    `metadata` is what was known by then. Raises BadInput naming the field of a wrong type.
    """

    response: str
    error: BaseException | None
    metadata: ResponseMetadata

    def __post_init__(self) -> None:
        if not isinstance(self.response, str):
            raise BadInput("response must be a string")
        if not isinstance(self.error, BaseException | None):
            raise BadInput("error must be an exception or None")
        if not isinstance(self.metadata, ResponseMetadata):
            raise BadInput("metadata must be a ResponseMetadata")


RequestListener = Callable[[RequestEvent], None] | Callable[[RequestEvent], Awaitable[None]]
"""Runs before the prompt is recorded and sent; one that raises stops it. A sync one runs in a thread."""

ResponseListener = Callable[[ResponseEvent], None] | Callable[[ResponseEvent], Awaitable[None]]
"""Runs once when a turn has ended, or failed before it began. A sync one runs in a thread."""
