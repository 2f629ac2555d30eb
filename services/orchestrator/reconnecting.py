"""Giving a restored orchestrator what isn't saved with it (orchestrator.md, "Persistence and reconnect")."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Self, TypeVar

from turnlog.services.agent.tools import Tool, ToolFunction
from turnlog.services.orchestrator.controller import Controller
from turnlog.services.orchestrator.errors import MissingArgumentError
from turnlog.services.orchestrator.llm_provider import AttachmentsByMessageId, LLMProvider
from turnlog.services.orchestrator.recorder import TurnRecorder
from turnlog.services.providers.provider import Provider

Value = TypeVar("Value")


@dataclass(slots=True)
class Handover:
    """What is handed over. What isn't, is not restored."""

    provider: LLMProvider | Provider
    tools: tuple[ToolFunction | Tool, ...] = ()
    controller: Controller | None = None
    attachments: AttachmentsByMessageId = field(default_factory=dict)
    recorder: TurnRecorder | None = None


class Reconnection:
    """A reconnection being prepared: `await orchestrator.reconnect(provider).with_tools(…).apply()`."""

    def __init__(self, provider: LLMProvider | Provider, connect: Callable[[Handover], Awaitable[None]]) -> None:
        self._handover = Handover(provider)
        self._connect = connect

    def with_tools(self, tools: Iterable[ToolFunction | Tool]) -> Self:
        """The tools that the model may call."""
        self._handover.tools = tuple(_given(tools, "tools"))
        return self

    def with_controller(self, controller: Controller) -> Self:
        """The controller of the turns to come."""
        self._handover.controller = _given(controller, "controller")
        return self

    def with_attachments(self, attachments: AttachmentsByMessageId) -> Self:
        """The attachments of the history's user messages, for the provider and the view."""
        self._handover.attachments = _given(attachments, "attachments")
        return self

    def with_recorder(self, recorder: TurnRecorder) -> Self:
        """Where the turns to come are recorded. Without one they are kept in memory alone."""
        self._handover.recorder = _given(recorder, "recorder")
        return self

    async def apply(self) -> None:
        """Connect; nothing has changed before. Raises AlreadyConnectedError, and what connecting raises: the
        orchestrator stays disconnected then, and the provider free.
        """
        await self._connect(self._handover)


def _given(value: Value | None, name: str) -> Value:
    if value is None:
        raise MissingArgumentError(name)
    return value
