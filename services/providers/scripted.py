"""A provider that says what it was told to say: for demos and tests."""

import copy
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

from turnlog.services.providers.provider import ProviderError, ProviderPart, ProviderRequest

GivenAnswer = str | Sequence[ProviderPart] | BaseException
"""A text, the parts of an answer, or what is raised instead."""

ScriptedAnswer = GivenAnswer | Callable[[ProviderRequest], GivenAnswer | Awaitable[GivenAnswer]]
"""An answer, or a function of the request, sync or async, that gives one."""


class Scripted:
    """Gives `answers` one after another, one for each request, in the order in which requests begin.

    `requests` holds deep copies of what was asked. Raises ProviderError when there is no answer left, and whatever
    exception stands in the script.
    """

    def __init__(self, answers: Iterable[ScriptedAnswer]) -> None:
        self._answers = list(answers)
        self.requests: list[ProviderRequest] = []

    async def stream(self, request: ProviderRequest) -> AsyncGenerator[ProviderPart, None]:
        """The parts of the next answer; an empty text gives no part, as with a real provider."""
        number = len(self.requests)
        self.requests.append(copy.deepcopy(request))
        if number >= len(self._answers):
            raise ProviderError(f"The script has {len(self._answers)} answers; this is request {number + 1}")
        answer = await _given(self._answers[number], request)
        if isinstance(answer, BaseException):
            raise answer
        for part in [answer] if isinstance(answer, str) else answer:
            if part != "":
                yield part


async def _given(answer: ScriptedAnswer, request: ProviderRequest) -> GivenAnswer:
    if not callable(answer):
        return answer
    given = answer(request)
    return await given if inspect.isawaitable(given) else given
