"""A memory for providers that have none: the newest messages, cut at turn boundaries (orchestrator.md, "Persistence").

The window bounds what is remembered together with a new prompt. A turn's own tool exchanges are always sent whole.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast

import anyio.to_thread

from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import ChatMessage, ChatRole
from turnlog.domain.history.messages import AgentMessage
from turnlog.domain.history.provider_valid import Placed, provider_valid
from turnlog.domain.history.window import last_turns, within_tokens
from turnlog.services.agent.turn import calling
from turnlog.services.orchestrator.content_parts import user_content
from turnlog.services.orchestrator.errors import MissingArgumentError
from turnlog.services.orchestrator.llm_provider import AttachmentsByMessageId, closing
from turnlog.services.providers.provider import Provider, ProviderPart, ProviderRequest, ToolCall

WINDOW = 30
"""Messages sent with a new prompt, itself included; the system message isn't counted."""


class WindowedProvider:
    """`provider` with a memory of one conversation. Several may share one stateless provider.

    A prompt that got no answer is remembered without one, as a history holds it. Remembered messages are always sent in
    a form that providers accept. One answer streams at a time.
    """

    def __init__(self, provider: Provider, *, window: int = WINDOW) -> None:
        """Raises BadInput for a window of less than one message."""
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise BadInput("window must be a whole number from 1")
        self._provider = provider
        self._window = window
        self._past: list[AgentMessage] = []
        self._turn: list[AgentMessage] = []
        """The newest turn: what was asked, and what came of it so far."""
        self._restored: tuple[tuple[ChatMessage, ...], AttachmentsByMessageId] | None = None

    def set_history(self, history: Sequence[ChatMessage], attachments_by_message_id: AttachmentsByMessageId) -> None:
        """Remember this history, of which a copy is kept, in place of all else. Raises MissingArgumentError."""
        if history is None:
            raise MissingArgumentError("history")
        if attachments_by_message_id is None:
            raise MissingArgumentError("attachments_by_message_id")
        self._restored = (tuple(history[-self._window :]), dict(attachments_by_message_id))
        self._past, self._turn = [], []

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[ProviderPart, None]:
        """The answer to the request's turn in the light of what is remembered. Raises what the provider raises."""
        messages = list(request.messages)
        system = messages[:1] if messages and messages[0]["role"] == "system" else []
        turn = messages[len(system) :]
        if turn and turn[-1]["role"] == "user":
            await self._end_turn()
        self._turn = turn
        stored = [Placed(index, message) for index, message in enumerate(self._past)]
        remembered = [message for _, message in provider_valid(stored).messages]
        text = ""
        calls: list[ToolCall] = []
        whole = ProviderRequest((*system, *remembered, *turn), request.tools)
        async with closing(self._provider.stream(whole)) as parts:
            async for part in parts:
                if isinstance(part, str):
                    text += part
                elif isinstance(part, ToolCall):
                    calls.append(part)
                yield part
        if text or calls:
            self._turn = [*turn, _answer(text, calls)]

    async def _end_turn(self) -> None:
        past = [*self._past, *self._turn]
        if self._restored is not None:
            past = await anyio.to_thread.run_sync(_messages, *self._restored, abandon_on_cancel=True)
        self._past, self._turn, self._restored = _newest(past, self._window - 1), [], None


def _newest(messages: Sequence[AgentMessage], limit: int) -> list[AgentMessage]:
    """As many whole turns as fit; if not even the newest does, that one without its tool exchanges."""
    start = within_tokens(messages, limit, _one)
    if start < len(messages):
        return list(messages[start:])
    turn = messages[last_turns(messages, 1) :]
    said = [message for message in turn if message["role"] != "tool" and "tool_calls" not in message]
    return said if len(said) <= limit else []


def _one(_message: Mapping[str, Any]) -> int:
    return 1


def _messages(history: Sequence[ChatMessage], attachments: AttachmentsByMessageId) -> list[AgentMessage]:
    return [_message(said, attachments) for said in history]


def _message(said: ChatMessage, attachments: AttachmentsByMessageId) -> AgentMessage:
    if said.role is ChatRole.ASSISTANT:
        return {"role": "assistant", "content": said.content}
    files = () if said.message_id is None else attachments.get(said.message_id, ())
    return cast("AgentMessage", {"role": "user", "content": user_content(said.content, files)})


def _answer(text: str, calls: Sequence[ToolCall]) -> AgentMessage:
    if not calls:
        return {"role": "assistant", "content": text}
    return calling(text, calls)
