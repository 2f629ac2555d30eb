"""The floor F: raw asyncpg, one prepared single-row INSERT per turn of the same bytes, committed, fsync on."""

import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

import anyio
import asyncpg

from tests.bench.turns import joined, new_turn

Connection: TypeAlias = "asyncpg.Connection[Any]"

_CREATE = "CREATE TABLE IF NOT EXISTS bench_floor (id bigint PRIMARY KEY, body bytea NOT NULL)"
_INSERT = "INSERT INTO bench_floor (id, body) VALUES ($1, $2)"

_ids = itertools.count(1)


class Floor:
    """As many dedicated connections as the row has clients, each with its statement prepared."""

    def __init__(self, connections: list[Connection]) -> None:
        self._connections = connections

    async def rate(self, seconds: float, keys: list[str]) -> float:
        """Turns per second over `seconds`, every connection inserting one turn after the other."""
        done = 0
        started = anyio.current_time()
        until = started + seconds

        async def insert(connection: Connection, key: str) -> None:
            nonlocal done
            statement = await connection.prepare(_INSERT)
            while anyio.current_time() < until:
                await statement.fetch(next(_ids), joined(new_turn(key)))
                done += 1

        async with anyio.create_task_group() as tasks:
            for connection, key in zip(self._connections, keys, strict=True):
                tasks.start_soon(insert, connection, key)
        return done / (anyio.current_time() - started)


@asynccontextmanager
async def open_floor(dsn: str, clients: int) -> AsyncIterator[Floor]:
    """The floor on the server at `dsn`, its table emptied first and dropped afterwards."""
    async with AsyncExitStack() as stack:
        connections = []
        for _ in range(clients):
            connection = await asyncpg.connect(dsn, server_settings={"synchronous_commit": "on"})
            stack.push_async_callback(connection.close)
            connections.append(connection)
        await connections[0].execute("DROP TABLE IF EXISTS bench_floor")
        await connections[0].execute(_CREATE)
        yield Floor(connections)
