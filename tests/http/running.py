"""A server on a free loopback port, in this process, and what stands behind it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from tests.http.stand_ins import Commands, Tables, parts
from tests.plain_client import PlainClient
from turnlog.services.http.app import create_app
from turnlog.services.http.options import HttpOptions
from turnlog.services.http.server import Server, new_server


@dataclass
class Running(PlainClient):
    """A running server and what stands behind it."""

    server: Server
    commands: Commands
    tables: Tables


@asynccontextmanager
async def running(options: HttpOptions | None = None, tables: Tables | None = None) -> AsyncIterator[Running]:
    """Serve until the block ends, then end in good order."""
    options = options or HttpOptions(port=0, rate_limit=0)
    commands, tables = Commands(), tables or Tables()
    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def ready() -> tuple[bool, dict[str, Any]]:
        return tables.failing is None, {"lagMs": 0}

    app = create_app(parts(commands, tables, ready, options))
    server = new_server(app, options, on_listening=listening.set_result)
    # A task of its own rather than a task group: pytest-asyncio ends a fixture in another task than it began in.
    serving = asyncio.create_task(server.serve())
    try:
        with anyio.fail_after(10):
            port = await listening
        yield Running(port, server, commands, tables)
    finally:
        server.stop()
        await serving


async def until(condition: Callable[[], bool]) -> None:
    """Return once the condition holds; it is a state of the server, which sets no event."""
    with anyio.fail_after(5):
        while not condition():
            await anyio.sleep(0.005)
