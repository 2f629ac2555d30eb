"""Telling response listeners and the controller how a turn ended: each once, whatever becomes of the others."""

from collections.abc import Callable, Iterable
from typing import Any

import anyio
import structlog

from turnlog.services.orchestrator.controller import Controller
from turnlog.services.orchestrator.exchange_events import ResponseEvent, ResponseListener
from turnlog.services.orchestrator.grace import GRACE_S
from turnlog.services.orchestrator.invoking import invoke

_log = structlog.get_logger(__name__)


class Announcement:
    """One event for all who listen; without an event nobody is told. One that raises is logged."""

    def __init__(
        self, event: ResponseEvent | None, listeners: Iterable[ResponseListener], controller: Controller | None
    ) -> None:
        self._event = event
        self._waiting: list[Callable[..., Any]] = []
        if event is not None:
            self._waiting += [*listeners, *(() if controller is None else (controller.on_response,))]

    async def make(self) -> None:
        """Call them one after another. If the caller is cancelled meanwhile, the one that runs is cancelled, and the
        others are called as in `make_in_grace`.
        """
        try:
            await self._tell()
        except anyio.get_cancelled_exc_class():
            await self.make_in_grace()
            raise

    async def make_in_grace(self) -> None:
        """Call them although the caller was cancelled; they have GRACE_S seconds together."""
        with anyio.move_on_after(GRACE_S, shield=True):
            await self._tell()

    async def _tell(self) -> None:
        while self._waiting:
            listener = self._waiting.pop(0)
            try:
                await invoke(listener, self._event)
            except Exception as error:  # noqa: BLE001 - a listener breaks nothing (orchestrator.md, "A turn")
                _log.exception("response_listener_failed", kind=type(error).__name__)
