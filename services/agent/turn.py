"""One turn with a provider: ask, run the tools it calls, ask again, until it answers with text alone."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from turnlog.domain.errors import Unavailable
from turnlog.domain.history.messages import AgentMessage
from turnlog.services.agent.tools import Toolbox
from turnlog.services.providers.provider import Provider, ProviderPart, ProviderRequest, ResponseMetadata, ToolCall

CALLS_PER_TOOL = 40
CALLS_PER_TURN = 150


class ToolLoopError(Unavailable):
    """The model went on calling tools beyond the turn's bound; the turn failed."""


class Turn:
    """What one turn adds to a history. Calls stand in `messages` before they run, each result once it is there."""

    def __init__(
        self,
        provider: Provider,
        toolbox: Toolbox,
        prompt: str,
        *,
        calls_per_tool: int = CALLS_PER_TOOL,
        calls_per_turn: int = CALLS_PER_TURN,
    ) -> None:
        self._provider = provider
        self._toolbox = toolbox
        self._calls_per_tool = calls_per_tool
        self._calls_per_turn = calls_per_turn
        self._calls: Counter[str] = Counter()
        self.messages: list[AgentMessage] = [{"role": "user", "content": prompt}]
        self.metadata = ResponseMetadata()
        self.text = ""
        """What the model has said since its last tool call."""

    @property
    def acted(self) -> bool:
        """True once tools were called: something happened that an ended turn can't take back."""
        return len(self.messages) > 1

    async def run(self, before: Sequence[AgentMessage]) -> AsyncGenerator[str, None]:
        """The answer's text as it comes; `before` is what the model sees of the past, instructions included.

        Raises what the provider raises, and ToolLoopError.
        """
        while True:
            self.text = ""
            calls: list[ToolCall] = []
            request = ProviderRequest((*before, *self.messages), self._toolbox.specs)
            async with aclosing(_closable(self._provider.stream(request))) as parts:
                async for part in parts:
                    if isinstance(part, str):
                        self.text += part
                        yield part
                    elif isinstance(part, ToolCall):
                        calls.append(part)
                    else:
                        self.metadata = part
            if not calls:
                self.messages.append({"role": "assistant", "content": self.text})
                return
            self.messages.append(calling(self.text, calls))
            for call in calls:
                self.messages.append(await self._result(call))

    async def _result(self, call: ToolCall) -> AgentMessage:
        self._calls[call.name] += 1
        if self._calls.total() > self._calls_per_turn:
            raise ToolLoopError(f"the model called tools more than {self._calls_per_turn} times in one turn")
        if self._calls[call.name] > self._calls_per_tool:
            text = f"error: {call.name} was called {self._calls_per_tool} times in this turn, which is the limit"
        else:
            text = await self._toolbox.run(call)
        return {"role": "tool", "content": text, "tool_call_id": call.id, "name": call.name}


def calling(text: str, calls: Sequence[ToolCall]) -> AgentMessage:
    """The assistant's message that makes these calls."""
    return {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ],
    }


class _Closable(AsyncIterator[ProviderPart]):
    """A provider may answer with any async iterator; one that can be closed is closed."""

    def __init__(self, parts: AsyncIterator[ProviderPart]) -> None:
        self._parts = parts

    async def __anext__(self) -> ProviderPart:
        return await anext(self._parts)

    async def aclose(self) -> None:
        close = getattr(self._parts, "aclose", None)
        if close is not None:
            await close()


def _closable(parts: AsyncIterator[ProviderPart]) -> _Closable:
    return _Closable(parts)
