"""One database: an asyncpg pool per generation of tables, and a SQLAlchemy engine for DDL.

A connection's search path is the schema of its generation, then `turnlog`; statements name tables without a schema.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import anyio
import asyncpg
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from turnlog.domain.errors import Misconfigured
from turnlog.infra.postgres_errors import translated

LEAST_VERSION = 160_000
CONNECT_S = 10.0
CLOSE_S = 5.0
SIDE_POOL_SIZE = 2

_SETTINGS = {
    "application_name": "turnlog",
    "synchronous_commit": "on",
    "jit": "off",
    "timezone": "UTC",
    "idle_in_transaction_session_timeout": "60000",
}
_LIVE = "SELECT live FROM turnlog.generations"


class _Connection(asyncpg.Connection):
    """Statements leave no session state behind, so releasing needs no reset query."""

    def get_reset_query(self) -> str:
        return ""


class Database:
    """Use as an async context manager. One connection serves one task."""

    def __init__(self, dsn: str, *, pool_size: int = 10) -> None:
        url = make_url(dsn)
        self.dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self.engine: AsyncEngine = create_async_engine(url.set(drivername="postgresql+asyncpg"), poolclass=NullPool)
        self._pool_size = pool_size
        self._pools: dict[int, asyncpg.Pool[Any]] = {}
        self._opening = anyio.Lock()
        self._generation = 0

    @property
    def generation(self) -> int:
        """The generation of tables that `connection` reads, as last looked up."""
        return self._generation

    async def __aenter__(self) -> Self:
        with translated():
            connection = await asyncpg.connect(self.dsn, timeout=CONNECT_S)
            try:
                await _check_server(connection)
                self._generation = await connection.fetchval(_LIVE)
            finally:
                await connection.close()
        await self._pool(self._generation)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.move_on_after(CLOSE_S, shield=True):
            for generation in list(self._pools):
                await self._close(generation)
            await self.engine.dispose()

    @asynccontextmanager
    async def connection(self, generation: int | None = None) -> AsyncIterator["asyncpg.Connection[Any]"]:
        """A connection for one task, of the live generation or another.

        Raises Unavailable and Bug, never driver errors.
        """
        with translated():
            pool = await self._pool(self._generation if generation is None else generation)
            async with pool.acquire(timeout=CONNECT_S) as connection:
                yield connection  # type: ignore[misc] # the pool's proxy has the connection's interface

    async def refresh_generation(self) -> int:
        """Look up which generation is live; later connections are of that one. Returns it."""
        async with self.connection() as connection:
            live: int = await connection.fetchval(_LIVE)
        if live != self._generation:
            former, self._generation = self._generation, live
            with anyio.move_on_after(CLOSE_S, shield=True):
                await self._close(former)
        return live

    async def _pool(self, generation: int) -> "asyncpg.Pool[Any]":
        pool = self._pools.get(generation)
        if pool is not None:
            return pool
        async with self._opening:
            pool = self._pools.get(generation)
            if pool is None:
                pool = await asyncpg.create_pool(
                    self.dsn,
                    min_size=1,
                    max_size=self._pool_size if generation == self._generation else SIDE_POOL_SIZE,
                    connection_class=_Connection,
                    timeout=CONNECT_S,
                    server_settings={**_SETTINGS, "search_path": f"turnlog_g{generation}, turnlog"},
                )
                self._pools[generation] = pool
        return pool

    async def _close(self, generation: int) -> None:
        pool = self._pools.pop(generation)
        with anyio.move_on_after(CLOSE_S) as bounded:
            await pool.close()
        if bounded.cancelled_caught:
            pool.terminate()


async def _check_server(connection: "asyncpg.Connection[Any]") -> None:
    number = int(await connection.fetchval("SELECT current_setting('server_version_num')"))
    if number < LEAST_VERSION:
        raise Misconfigured(f"PostgreSQL 16 or newer is needed, the server is {number // 10_000}")
    for name in ("fsync", "full_page_writes"):
        if await connection.fetchval("SELECT current_setting($1)", name) != "on":
            raise Misconfigured(f"the server runs with {name} = off and would lose acknowledged turns: set {name} = on")
