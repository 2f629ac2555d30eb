"""Answers to prompts that were asked before in the same conversation (history-restore.md, "The agent")."""

import time
from collections import OrderedDict
from collections.abc import Callable

MOST = 1_000
"""Answers kept; the one unused for longest goes first."""


class ResponseCache:
    """Prompt → answer, each for `ttl_s` seconds."""

    def __init__(self, ttl_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._answers: OrderedDict[str, tuple[float, str]] = OrderedDict()

    def get(self, prompt: str) -> str | None:
        """The answer to this very prompt, if it is still fresh."""
        found = self._answers.get(prompt)
        if found is None:
            return None
        until, answer = found
        if self._clock() >= until:
            del self._answers[prompt]
            return None
        self._answers.move_to_end(prompt)
        return answer

    def put(self, prompt: str, answer: str) -> None:
        """Remember an answer from now on."""
        self._answers[prompt] = (self._clock() + self._ttl_s, answer)
        self._answers.move_to_end(prompt)
        if len(self._answers) > MOST:
            self._answers.popitem(last=False)

    def clear(self) -> None:
        """Forget all answers."""
        self._answers.clear()
