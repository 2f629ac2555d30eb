"""A provider with a memory of its own, and what tests wait with."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import anyio

from turnlog.domain.history.chat import Attachment, ChatMessage, ChatRole
from turnlog.services.agent.tools import Tool
from turnlog.services.orchestrator.exchange_events import RequestEvent, ResponseEvent
from turnlog.services.orchestrator.llm_provider import AttachmentsByMessageId
from turnlog.services.orchestrator.orchestrator import Orchestrator
from turnlog.services.orchestrator.recorder import TurnEnd
from turnlog.services.providers.provider import ProviderPart, ProviderRequest, ResponseMetadata, ToolCall
from turnlog.services.providers.scripted import Scripted, ScriptedAnswer

WAIT_S = 5.0
PICTURE = Attachment("cat.png", "image/png", b"\x89PNG\r\n")
NOTE = Attachment("note.txt", "text/plain", b"remember the milk")
USED = ResponseMetadata("stop", 3, 2, 5)


def user(text: str, message_id: str | None = None) -> ChatMessage:
    return ChatMessage(ChatRole.USER, text, message_id)


def assistant(text: str) -> ChatMessage:
    return ChatMessage(ChatRole.ASSISTANT, text)


class Remembering(Scripted):
    """Scripted, and says what it was told to remember."""

    def __init__(self, answers: Sequence[ScriptedAnswer] = (), *, refusal: Exception | None = None) -> None:
        super().__init__(answers)
        self.refusal = refusal
        self.remembered: list[tuple[list[ChatMessage], dict[str, list[Attachment]]]] = []

    def set_history(self, history: Sequence[ChatMessage], attachments_by_message_id: AttachmentsByMessageId) -> None:
        if self.refusal is not None:
            raise self.refusal
        files = {key: list(value) for key, value in attachments_by_message_id.items()}
        self.remembered.append((list(history), files))


class Gated:
    """A stateless provider that gives `parts`, says that it did, and waits to be let on (then: " and more")."""

    def __init__(self, *parts: ProviderPart) -> None:
        self._parts = parts
        self.asked = 0
        self.is_closed = False
        self.waiting = anyio.Event()
        self.go_on = anyio.Event()

    async def stream(self, _request: ProviderRequest) -> AsyncGenerator[ProviderPart, None]:
        self.asked += 1
        try:
            for part in self._parts:
                yield part
            self.waiting.set()
            await self.go_on.wait()
            yield " and more"
        finally:
            self.is_closed = True


class Breaking:
    """A stateless provider that gives `parts` and then fails; without parts it fails before the first."""

    def __init__(self, error: BaseException, *parts: ProviderPart) -> None:
        self._error = error
        self._parts = parts

    async def stream(self, _request: ProviderRequest) -> AsyncGenerator[ProviderPart, None]:
        for part in self._parts:
            yield part
        raise self._error


class Recorder:
    """Keeps what it is told; `on_started` and `on_finished` are awaited meanwhile."""

    def __init__(
        self,
        *,
        on_started: Callable[[], Awaitable[object]] | None = None,
        on_finished: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._on_started = on_started
        self._on_finished = on_finished
        self.begun: list[tuple[ChatMessage, tuple[Attachment, ...]]] = []
        self.ends: list[TurnEnd] = []
        self.calls: list[str] = []

    async def started(self, message: ChatMessage, attachments: Sequence[Attachment]) -> None:
        self.calls.append("started")
        if self._on_started is not None:
            await self._on_started()
        self.begun.append((message, tuple(attachments)))

    async def finished(self, end: TurnEnd) -> None:
        self.calls.append("finished")
        if self._on_finished is not None:
            await self._on_finished()
        self.ends.append(end)


class Cabinet:
    """A controller with one tool."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.refusal = refusal
        self.requests: list[RequestEvent] = []
        self.responses: list[ResponseEvent] = []

    def tools(self) -> list[Any]:
        async def drawer(number: int) -> str:
            return f"drawer {number} is empty"

        return [drawer]

    async def on_request(self, event: RequestEvent) -> None:
        self.requests.append(event)
        if self.refusal is not None:
            raise self.refusal

    def on_response(self, event: ResponseEvent) -> None:
        self.responses.append(event)


def said(orchestrator: Orchestrator) -> list[tuple[str, str]]:
    return [(message.role.value, message.content) for message in orchestrator.get_history()]


def shown(orchestrator: Orchestrator) -> list[tuple[str, str]]:
    return [(item.author, item.text) for item in orchestrator.view()]


def sent(provider: Scripted) -> list[Any]:
    return list(provider.requests[-1].messages)


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


async def echo(text: str) -> str:
    """Say it again."""
    return text


# Made here, because the first tool of a process has pydantic look for plugins on the disk.
ECHO = Tool(echo)
