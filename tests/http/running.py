"""A server on a free loopback port, and the plainest client: bytes out, bytes in."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import anyio

from tests.http.stand_ins import Commands, Tables
from turnlog.services.http.app import AppParts, create_app
from turnlog.services.http.options import HttpOptions
from turnlog.services.http.server import Server, new_server


class Answer(NamedTuple):
    """A response: header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - JSON is any value
        return json.loads(self.body)

    def error(self) -> str:
        """The text of the error envelope, which must hold nothing else."""
        assert self.headers["content-type"] == "application/json; charset=utf-8"
        body = self.json()
        assert list(body) == ["error"]
        text: str = body["error"]
        return text


@dataclass
class Running:
    """A running server and what stands behind it."""

    port: int
    server: Server
    commands: Commands
    tables: Tables
    own: str = field(init=False)

    def __post_init__(self) -> None:
        self.own = f"127.0.0.1:{self.port}"

    async def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        given: Mapping[str, str] | None = None,
        *,
        source: str = "127.0.0.1",
        host: str | None = None,
        **more: str,
    ) -> Answer:
        """One request on its own connection. Header names are written with underscores."""
        headers = {**(given or {}), **more}
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.own if host is None else host}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body and "transfer_encoding" not in headers:
            lines.append(f"Content-Length: {len(body)}")
        return await self.raw("\r\n".join([*lines, "", ""]).encode("latin-1") + body, source)

    async def post(self, target: str, body: object, **headers: str) -> Answer:
        """POST of JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("POST", target, data, {"content_type": "application/json", **headers})

    async def raw(self, request: bytes, source: str = "127.0.0.1") -> Answer:
        """Send bytes, read until the server closes."""
        with anyio.fail_after(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))
            writer.write(request)
            answer = await reader.read()
            writer.close()
        head, _, rest = answer.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return Answer(int(status.split()[1]), headers, rest)


@asynccontextmanager
async def running(options: HttpOptions | None = None, tables: Tables | None = None) -> AsyncIterator[Running]:
    """Serve until the block ends, then end in good order."""
    options = options or HttpOptions(port=0, rate_limit=0)
    commands, tables = Commands(), tables or Tables()
    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def ready() -> tuple[bool, dict[str, Any]]:
        return tables.failing is None, {"lagMs": 0}

    app = create_app(AppParts(commands, tables, tables.hub, ready, options))
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
