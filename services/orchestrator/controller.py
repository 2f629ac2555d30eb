"""Controllers: tools that come with hooks around each turn (orchestrator.md, "Persistence")."""

from collections.abc import Awaitable, Iterable
from typing import Protocol

from turnlog.services.agent.tools import Tool, ToolFunction
from turnlog.services.orchestrator.exchange_events import RequestEvent, ResponseEvent


class Controller(Protocol):
    """Drives something with the model's help. Its hooks may be sync, and run in a thread then."""

    def tools(self) -> Iterable[ToolFunction | Tool]:
        """What the model may call. Asked once, when the orchestrator is connected."""
        ...

    def on_request(self, event: RequestEvent) -> Awaitable[None] | None:
        """Before the request listeners. Raising stops the prompt."""
        ...

    def on_response(self, event: ResponseEvent) -> Awaitable[None] | None:
        """After the response listeners, whatever became of them."""
        ...
