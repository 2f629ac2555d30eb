"""A turnlog composed in this process, on a loop that runs only while it is asked, with a projector to kill."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar
from uuid import uuid4

import anyio

from turnlog.infra.settings import Settings
from turnlog.services.composition import Turnlog, open_turnlog
from turnlog.services.projector import Projector

LEASE_MS = 500
T = TypeVar("T")


class MortalProjector(Projector):
    """Ends without giving its leases back, as after SIGKILL."""

    async def _leave(self) -> None:
        return


class Composed:
    """Start it, ask it, kill its projector, restart it, stop it; all from outside of any loop."""

    def __init__(self, dsn: str) -> None:
        self._settings = Settings(database_url=dsn, lease_ms=LEASE_MS, read_wait_ms=20_000, pool_size=6)
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._turnlog: Turnlog | None = None
        self._ending = asyncio.Event()
        self._projecting: anyio.CancelScope | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def turnlog(self) -> Turnlog:
        """The running parts."""
        assert self._turnlog is not None
        return self._turnlog

    def ask(self, call: Coroutine[Any, Any, T]) -> T:
        """The call's result."""
        return self._runner.run(call)

    def start(self) -> None:
        """Open everything, and project."""
        self.ask(self._start())

    def stop(self) -> None:
        """End in order."""
        self.ask(self._stop())

    def close(self) -> None:
        """End in order, the loop too."""
        self.stop()
        self._runner.close()

    async def kill_projector(self) -> None:
        """It is gone, its leases are not; another one waits for them."""
        if self._projecting is not None:
            self._projecting.cancel()

    async def _start(self) -> None:
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ending = asyncio.Event()
        self._running = asyncio.create_task(self._run(started))
        await asyncio.wait([started, self._running], return_when=asyncio.FIRST_COMPLETED)
        if self._running.done():
            await self._running

    async def _stop(self) -> None:
        self._ending.set()
        if self._running is not None:
            await self._running

    async def _run(self, started: "asyncio.Future[None]") -> None:
        async with open_turnlog(self._settings, projecting=False) as self._turnlog, anyio.create_task_group() as tasks:
            tasks.start_soon(self._project_forever)
            started.set_result(None)
            await self._ending.wait()
            tasks.cancel_scope.cancel()

    async def _project_forever(self) -> None:
        while True:
            projector = MortalProjector(
                database=self.turnlog.database,
                log=self.turnlog.log,
                applied=self.turnlog.applied,
                on_changes=self.turnlog.changes.publish,
                lease_ms=LEASE_MS,
                member=uuid4(),
            )
            with anyio.CancelScope() as self._projecting:
                await projector.run()
