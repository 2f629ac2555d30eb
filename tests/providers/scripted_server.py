"""A chat-completions server over a real socket that answers as a test tells it, byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came. Header names are in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body, a JSON object."""
        body: dict[str, Any] = orjson.loads(self.body)
        return body


class Exchange:
    """One request and the way back to its client. Sending raises ConnectionError once the client has gone."""

    def __init__(self, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._reader = reader
        self._writer = writer
        self.ended = False

    async def send(self, data: bytes) -> None:
        """Sends `data` as it is."""
        self._writer.write(data)
        await self._writer.drain()

    async def client_closes(self) -> None:
        """Returns when the client has closed the connection."""
        await self._reader.read()
        raise ConnectionResetError

    def drop(self) -> None:
        """Ends the connection, in the middle of whatever was being sent."""
        self.ended = True
        self._writer.close()


Answer = Callable[[Exchange], Awaitable[None]]
"""What is done with a request; the connection stays open for the next one unless it was dropped."""


class ScriptedServer:
    """Gives `answers` one after another, one for each request, and HTTP 418 when there is none left.

    `requests` holds what came, `connections` how many were opened, `client_closed` is set once a client closed one
    while its answer was under way.
    """

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[Received] = []
        self.connections = 0
        self.client_closed = asyncio.Event()
        self.port = 0
        self._running: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """What a client is told."""
        return f"http://127.0.0.1:{self.port}/v1"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listens on a free port of the loopback interface meanwhile."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _received(reader)) is not None:
                self.requests.append(request)
                exchange = Exchange(request, reader, writer)
                try:
                    await (self.answers.pop(0) if self.answers else _teapot)(exchange)
                except ConnectionError:
                    self.client_closed.set()
                    return
                if exchange.ended:
                    return
        finally:
            writer.close()


async def _received(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    line, *fields = head.decode().strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    return Received(line, headers, await reader.readexactly(int(headers["content-length"])))


async def _teapot(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 418 No Answer Left\r\ncontent-length: 0\r\n\r\n")
