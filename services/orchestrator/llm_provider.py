"""What an orchestrator drives: a provider that remembers the conversation (orchestrator.md, "Types")."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from turnlog.domain.history.chat import Attachment, ChatMessage
from turnlog.services.providers.provider import ProviderPart, ProviderRequest

AttachmentsByMessageId = Mapping[str, Sequence[Attachment]]
"""Attachments of user messages, by message id."""


class LLMProvider(Protocol):
    """A model and its memory of one conversation.

    A request holds the system message, if there is one, and the messages of the turn so far; what was said before is
    the provider's to add. A request whose last message has the role user begins a turn.
    """

    def stream(self, request: ProviderRequest) -> AsyncIterator[ProviderPart]:
        """The answer, as it comes."""
        ...

    def set_history(self, history: Sequence[ChatMessage], attachments_by_message_id: AttachmentsByMessageId) -> None:
        """Replace what is remembered. Must not block. A provider whose memory lives elsewhere may ignore the call."""
        ...


@asynccontextmanager
async def closing(parts: AsyncIterator[ProviderPart]) -> AsyncGenerator[AsyncIterator[ProviderPart], None]:
    """`parts`, closed at the end if they can be: any async iterator may be an answer."""
    try:
        yield parts
    finally:
        close = getattr(parts, "aclose", None)
        if close is not None:
            await close()
