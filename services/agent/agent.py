"""The agent: a prompt and all that was said before go to a provider, and the answer joins what was said."""

import copy
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

import anyio

from turnlog.domain.history.messages import AgentMessage
from turnlog.domain.history.provider_valid import Placed, provider_valid
from turnlog.domain.history.restoring import restored
from turnlog.services.agent.response_cache import ResponseCache
from turnlog.services.agent.tools import Tool, Toolbox, ToolFunction
from turnlog.services.agent.turn import CALLS_PER_TOOL, CALLS_PER_TURN, Turn
from turnlog.services.providers.provider import Provider

CACHE_TTL_S = 3600.0


class Agent:
    """A conversation with a model. One turn runs at a time; further prompts wait for it.

    `instructions` become the system message of every request and are no part of the history. `tools` are plain typed
    functions. With `cache` a prompt that was answered within `cache_ttl_s` seconds is answered without the model.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        instructions: str = "",
        tools: Iterable[ToolFunction | Tool] = (),
        cache: bool = False,
        cache_ttl_s: float = CACHE_TTL_S,
        calls_per_tool: int = CALLS_PER_TOOL,
        calls_per_turn: int = CALLS_PER_TURN,
    ) -> None:
        self._provider = provider
        self._instructions = instructions
        self._toolbox = Toolbox(tools)
        self._cache = ResponseCache(cache_ttl_s) if cache else None
        self._calls_per_tool = calls_per_tool
        self._calls_per_turn = calls_per_turn
        self._history: list[AgentMessage] = []
        # No lock: an iterator may be closed by another task than the one that began it.
        self._one_turn = anyio.Semaphore(1)

    async def chat(self, prompt: str) -> str:
        """The model's answer. The turn joins the history, its tool calls and results included.

        A turn that fails adds nothing and raises what the provider raised. One that is cancelled after the model has
        called tools adds the prompt, the calls and the results that were there.
        """
        return "".join([piece async for piece in self.stream(prompt)])

    async def stream(self, prompt: str) -> AsyncGenerator[str, None]:
        """The same, piece by piece. Closing the iterator early cancels the turn."""
        _check_prompt(prompt)
        async with self._one_turn:
            cached = None if self._cache is None else self._cache.get(prompt)
            if cached is not None:
                yield cached
                return
            history, turn = self._history, self._turn(prompt)
            try:
                async with aclosing(turn.run(self._before())) as pieces:
                    async for piece in pieces:
                        yield piece
            except (GeneratorExit, anyio.get_cancelled_exc_class()):
                if turn.acted:
                    history += turn.messages
                raise
            # A history set or cleared meanwhile wins: the turn joins the one it began under.
            history += turn.messages
            if self._cache is not None and history is self._history:
                self._cache.put(prompt, turn.text)

    async def start(self, prompt: str) -> str:
        """An answer in the light of the history, of which nothing is kept."""
        _check_prompt(prompt)
        return "".join([piece async for piece in self._turn(prompt).run(self._before())])

    def get_history(self) -> list[AgentMessage]:
        """A copy of what was said, as plain JSON-able data."""
        return copy.deepcopy(self._history)

    def set_history(self, messages: object) -> None:
        """Replace what was said by a saved history, of which a copy is kept. Forgets cached answers.

        Raises HistoryError, and changes nothing, if it breaks a rule (history-restore.md, "set_history(messages)").
        """
        self._history = restored(messages)
        self._forget_answers()

    def clear_history(self) -> None:
        """Forget what was said, and cached answers."""
        self._history = []
        self._forget_answers()

    def _turn(self, prompt: str) -> Turn:
        return Turn(
            self._provider,
            self._toolbox,
            prompt,
            calls_per_tool=self._calls_per_tool,
            calls_per_turn=self._calls_per_turn,
        )

    def _before(self) -> list[AgentMessage]:
        stored = [Placed(index, message) for index, message in enumerate(self._history)]
        said = [message for _, message in provider_valid(stored).messages]
        if not self._instructions:
            return said
        return [{"role": "system", "content": self._instructions}, *said]

    def _forget_answers(self) -> None:
        if self._cache is not None:
            self._cache.clear()


def _check_prompt(prompt: object) -> None:
    if not isinstance(prompt, str):
        raise TypeError("prompt must be a string")
