"""An external PostgreSQL of the test's own, to be killed, made to stand still, and started again on its data."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import psutil

from tests.postgres_server import temporary_data_dir
from turnlog.infra.embedded_postgres import EmbeddedPostgres, embedded_postgres


class OwnPostgres:
    """Keeps its address over restarts. Made by `own_postgres`, running."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._data_dir = stack.enter_context(temporary_data_dir())
        self._running = AsyncExitStack()
        self._server: EmbeddedPostgres | None = None

    @property
    def dsn(self) -> str:
        """`postgresql://…`."""
        assert self._server is not None
        return self._server.dsn

    async def start(self) -> None:
        """Start, and recover after a kill."""
        self._server = await self._running.enter_async_context(embedded_postgres(self._data_dir))

    async def kill(self) -> None:
        """SIGKILL to all its processes at once."""
        for process in self._processes():
            process.kill()
        await self._running.aclose()

    def freeze(self) -> None:
        """SIGSTOP to all its processes: connections stay open, and nothing is answered."""
        for process in self._processes():
            process.suspend()

    def thaw(self) -> None:
        """Let it go on."""
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    async def stop(self) -> None:
        """End it, frozen or not."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.thaw()
        await self._running.aclose()

    def _processes(self) -> list[psutil.Process]:
        assert self._server is not None
        postmaster = psutil.Process(self._server.pid)
        return [postmaster, *postmaster.children(recursive=True)]


@asynccontextmanager
async def own_postgres() -> AsyncIterator[OwnPostgres]:
    """A PostgreSQL with the settings of the embedded one, until the context ends."""
    async with AsyncExitStack() as stack:
        server = OwnPostgres(stack)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
