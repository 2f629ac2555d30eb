"""The database as the rest of turnlog uses it: pooled connections to the live generation of tables, and an engine.

Every connection is for one task at a time. Errors of the driver leave here as errors of the tree.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypeVar, cast

import anyio
import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from turnlog.domain.errors import Bug, Misconfigured, Unavailable
from turnlog.infra.postgres_connection import Connection, PooledConnection, check_server, connect, driver_dsn
from turnlog.infra.postgres_errors import (
    DRIVER_ERRORS,
    connection_was_lost,
    table_was_missing,
    translate_errors_of,
    translated,
)

ACQUIRE_S = 10.0
CLOSE_S = 5.0
READ_S = 10.0
"""How long a request waits for one answer of the database, a second try included; then it is answered without."""
_IDLE_S = 300.0
_OTHER_POOL_SIZE = 4
_NO_REPLACEMENT = 1_000_000_000
_LIVE = "SELECT live FROM turnlog.generations"

T = TypeVar("T")
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Isolation = Literal["read_committed", "repeatable_read", "serializable"]


class _Lease:
    """A pooled connection for the length of a context. Written out as a class: it is on the way of every request."""

    __slots__ = ("_connection", "_find_pool", "_pool")

    def __init__(self, find_pool: Callable[[], Awaitable[Pool]]) -> None:
        self._find_pool = find_pool

    async def __aenter__(self) -> Connection:
        with translated():
            self._pool = await self._find_pool()
            if self._pool.get_idle_size():
                self._connection = await self._pool.acquire()
            else:
                with anyio.fail_after(ACQUIRE_S):
                    self._connection = await self._pool.acquire()
        return cast(Connection, self._connection)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with translated():
            if error is None:
                await self._pool.release(self._connection, timeout=CLOSE_S)
                return
            with anyio.CancelScope(shield=True), contextlib.suppress(*DRIVER_ERRORS):
                await self._pool.release(self._connection, timeout=CLOSE_S)
            if isinstance(error, DRIVER_ERRORS):
                raise error


class Database:
    """An open database; an async context manager. The tables must have been migrated (`infra.migrations`).

    `url` is `postgresql://…`, `pool_size` the most connections held for runtime statements. Opening raises Unavailable
    if it can't be reached, Misconfigured if the server or what is in the database is refused.
    """

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        self._dsn = driver_dsn(url)
        self._pool_size = pool_size
        self._generation = 0
        self._pools: dict[int | None, Pool] = {}
        self._engine = create_async_engine(
            "postgresql+asyncpg://", async_creator=partial(self._connect, None, patient=True), poolclass=NullPool
        )
        translate_errors_of(self._engine)

    async def __aenter__(self) -> Self:
        async with self.patient_connection() as connection:
            await check_server(connection)
            try:
                self._generation = await connection.fetchval(_LIVE)
            except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError) as error:
                raise Misconfigured("this database holds no turnlog tables: it was never migrated") from error
        self._pools[None] = await self._open_pool(None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            await _close(pool)
        with anyio.CancelScope(shield=True):
            await self._engine.dispose()

    @property
    def generation(self) -> int:
        """The live generation of tables, as of the last look."""
        return self._generation

    @property
    def engine(self) -> AsyncEngine:
        """For DDL and cold queries through SQLAlchemy: a fresh, patient connection each time."""
        return self._engine

    def connection(self, generation: int | None = None) -> AbstractAsyncContextManager[Connection]:
        """A connection for one task that finds the tables of the live (or the given) generation by plain names.

        Raises Unavailable if none is free within `ACQUIRE_S`, or if it is lost inside the context.
        """
        return _Lease(partial(self._pool_of, generation))

    @asynccontextmanager
    async def transaction(
        self, generation: int | None = None, *, isolation: Isolation = "read_committed", readonly: bool = False
    ) -> AsyncIterator[Connection]:
        """A connection inside a transaction, committed when the context ends without an error."""
        async with (
            self.connection(generation) as connection,
            connection.transaction(isolation=isolation, readonly=readonly),
        ):
            yield connection

    @asynccontextmanager
    async def patient_connection(self, generation: int | None = None) -> AsyncIterator[Connection]:
        """A connection of its own, outside the pool, whose statements may take as long as they need."""
        with translated():
            connection = await self._connect(generation, patient=True)
            try:
                yield connection
            finally:
                with anyio.CancelScope(shield=True):
                    await connection.close(timeout=CLOSE_S)

    async def read(self, query: Callable[[Connection], Awaitable[T]]) -> T:
        """Run an idempotent read, and once more if its connection turns out to be gone (a restart, a lost idle one).

        Idle connections end together more often than not, so the second try takes a new one. It is also tried again
        if its generation of tables was dropped before this process looked which one is live. Raises Unavailable after
        `READ_S` (and `CLOSE_S`, to get rid of the connection).
        """
        generation = self._generation
        with translated(), anyio.fail_after(READ_S):
            try:
                async with self.connection() as connection:
                    return await query(connection)
            except Unavailable as error:
                if not connection_was_lost(error):
                    raise
                if None in self._pools:
                    await self._pools[None].expire_connections()
            except Bug as error:
                if not table_was_missing(error) or await self.refresh_generation() == generation:
                    raise
            async with self.connection() as connection:
                return await query(connection)

    async def refresh_generation(self) -> int:
        """Look which generation is live now; `connection` is of that one from here on. Returns it.

        Connections in use keep the tables they began with and close when they come back, all others move at once.
        """
        async with self.connection() as connection:
            live: int | None = await connection.fetchval(_LIVE)
        if live is None:
            raise Bug("turnlog.generations has no row")
        if live != self._generation:
            self._generation = live
            await self._pools[None].expire_connections()
        return live

    async def _pool_of(self, generation: int | None) -> Pool:
        """The pool of the live generation, or a small one whose connections close by themselves when out of use."""
        if generation in self._pools:
            return self._pools[generation]
        if not self._pools:
            raise Unavailable("the database is closed")
        opened = await self._open_pool(generation)
        return self._pools.setdefault(generation, opened)

    async def _open_pool(self, generation: int | None) -> Pool:
        return await asyncpg.create_pool(
            connect=partial(self._connect_pooled, generation),
            connection_class=PooledConnection,
            min_size=0,
            max_size=self._pool_size if generation is None else _OTHER_POOL_SIZE,
            max_queries=_NO_REPLACEMENT,
            max_inactive_connection_lifetime=_IDLE_S,
        )

    async def _connect_pooled(self, generation: int | None, _no_dsn: None, **options: Any) -> Connection:  # noqa: ANN401 - the pool's own arguments
        return await self._connect(generation, patient=False, **options)

    async def _connect(self, generation: int | None, *, patient: bool, **options: Any) -> Connection:  # noqa: ANN401
        number = self._generation if generation is None else generation
        with translated():
            return await connect(self._dsn, f"turnlog_g{number}", patient=patient, **options)


async def _close(pool: Pool) -> None:
    """Wait for connections in use, but not for long; then cut them off."""
    with anyio.move_on_after(CLOSE_S, shield=True):
        await pool.close()
