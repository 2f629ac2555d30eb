"""Interceptors: a prompt may be replaced, rejected or postponed before anybody else sees it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import anyio

from turnlog.domain.errors import BadInput
from turnlog.domain.history.chat import Attachment
from turnlog.services.orchestrator.errors import PromptTimeoutError
from turnlog.services.orchestrator.invoking import invoke


class Postponement:
    """A decision that is still to come. Both methods may be called from any thread; the first call counts."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._decided = anyio.Event()
        self._error: BaseException | None = None

    def proceed(self) -> None:
        """Go on with the prompt, or with its rejection if it was rejected meanwhile."""
        self._loop.call_soon_threadsafe(self._decide, None)

    def fail(self, error: BaseException) -> None:
        """Let the prompt fail with this error."""
        self._loop.call_soon_threadsafe(self._decide, error)

    async def wait(self, limit_s: float) -> None:
        """Wait for the decision. Raises the error it failed with, and PromptTimeoutError after `limit_s` seconds."""
        with anyio.move_on_after(limit_s):
            await self._decided.wait()
        if not self._decided.is_set():
            raise PromptTimeoutError(f"a postponed prompt was not decided within {limit_s:g} seconds")
        if self._error is not None:
            raise self._error

    def _decide(self, error: BaseException | None) -> None:
        if not self._decided.is_set():
            self._error = error
            self._decided.set()


class PendingPrompt:
    """A prompt that an interceptor decides on. Untouched, it goes on as it is."""

    def __init__(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        self.text = text
        """The prompt; after `replace`, the replacement."""
        self.attachments = attachments
        self.rejected = False
        self.reason: str | None = None
        """Why it was rejected, for the person who wrote it."""
        self._postponement = Postponement()
        self._is_postponed = False

    def replace(self, text: str) -> None:
        """Go on with another text: it is what the provider, the history and listeners see. Raises BadInput if blank."""
        if not isinstance(text, str) or not text.strip():
            raise BadInput("text must be a string that isn't blank")
        self.text = text

    def reject(self, reason: str | None = None) -> None:
        """Go no further. With a reason the prompt and the reason are shown; without one it leaves no trace."""
        self.rejected = True
        self.reason = reason

    def postpone(self) -> Postponement:
        """Wait, until the returned object is told to go on. Prompts meanwhile are dropped: the orchestrator is busy."""
        self._is_postponed = True
        return self._postponement

    async def pass_through(self, interceptors: Iterable["Interceptor"], limit_s: float) -> None:
        """Let them decide, one after another, each within `limit_s` seconds if it postpones; a rejection ends it."""
        for interceptor in interceptors:
            await invoke(interceptor, self)
            if self._is_postponed:
                await self._postponement.wait(limit_s)
                self._postponement, self._is_postponed = Postponement(), False
            if self.rejected:
                return


Interceptor = Callable[[PendingPrompt], None] | Callable[[PendingPrompt], Awaitable[None]]
"""Sees a prompt first. One that raises makes the prompt fail. A sync one runs in a thread."""
