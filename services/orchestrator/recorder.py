"""Where turns are recorded: the port between an orchestrator and a log (orchestrator.md, "Persistence")."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from turnlog.domain.history.chat import Attachment, ChatMessage
from turnlog.domain.history.messages import AgentMessage
from turnlog.services.providers.provider import ResponseMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """How a turn ended.

    `messages` are the user message (text alone, attachments are apart) and, as far as they happened, the tool calls,
    their results and the closing assistant message. `text` is the whole answer as it was shown, or what there was of
    it. `error` says what went wrong; it holds no message text and no secret.
    """

    user_message: ChatMessage
    outcome: Literal["ok", "failed", "interrupted"]
    messages: Sequence[AgentMessage]
    text: str
    error: str | None
    metadata: ResponseMetadata


class TurnRecorder(Protocol):
    """Records the turns of one conversation. For each turn `started` is called, then, if it returned, `finished`.

    When the prompt is cancelled, both go on for GRACE_S (`grace.py`), then they are cancelled too.
    """

    async def started(self, message: ChatMessage, attachments: Sequence[Attachment]) -> None:
        """The user said this. If it raises, the prompt fails and nothing is remembered."""
        ...

    async def finished(self, end: TurnEnd) -> None:
        """The turn ended. If it raises, an answer is not remembered and the prompt fails."""
        ...
