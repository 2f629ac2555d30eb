"""Reads a live stream: one connection, events one at a time."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio

from tests.plain_client import PlainClient


class Event(NamedTuple):
    """One event or comment as it came; `text` is its data."""

    id: int | None
    name: str | None
    text: str | None
    comment: str | None

    @property
    def data(self) -> Any:  # noqa: ANN401 - JSON is any value
        """The data's value."""
        return None if self.text is None else json.loads(self.text)


class StreamReader:
    """Decodes the chunked response of an open stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._received = b""
        self.headers: dict[str, str] = {}
        self.status = 0

    async def open(self) -> None:
        """Read the head."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    async def next(self, *, within_s: float = 5) -> Event | None:
        """The next event or comment, None at the end of the stream."""
        with anyio.fail_after(within_s):
            while b"\n\n" not in self._received:
                size = int(await self._reader.readuntil(b"\r\n"), 16)
                chunk = await self._reader.readexactly(size + 2)
                if not size:
                    return None
                self._received += chunk[:-2]
        block, _, self._received = self._received.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in block.decode().split("\n"))
        row = fields.get("id")
        return Event(None if row is None else int(row), fields.get("event"), fields.get("data"), fields.get(""))

    async def rows(self, count: int) -> list[Event]:
        """The next `count` stored entries; comments are left out."""
        found: list[Event] = []
        while len(found) < count:
            event = await self.next()
            assert event is not None, f"the stream ended after {len(found)} of {count} rows"
            found += [event] if event.id is not None else []
        return found

    def vanish(self) -> None:
        """Drop the connection."""
        self._writer.transport.abort()


@asynccontextmanager
async def stream(server: PlainClient, target: str, **headers: str) -> AsyncIterator[StreamReader]:
    """An open stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    lines = [f"GET {target} HTTP/1.1", f"Host: {server.own}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    found = StreamReader(reader, writer)
    try:
        with anyio.fail_after(5):
            await found.open()
        yield found
    finally:
        writer.transport.abort()
