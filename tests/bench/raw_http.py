"""A keep-alive HTTP/1.1 client with next to no cost of its own, so that what is measured is the server."""

import asyncio
from typing import NamedTuple, Self


class Answer(NamedTuple):
    """Status, the position header if any, and the body."""

    status: int
    position: str | None
    body: bytes


class RawHttp:
    """One connection to 127.0.0.1; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self._reader = reader
        self._writer = writer
        self._host = b"Host: 127.0.0.1:%d\r\n" % port

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        return cls(reader, writer, port)

    async def get(self, path: str, headers: bytes = b"") -> Answer:
        """GET; `headers` are whole lines with CRLF."""
        self._writer.write(b"GET %s HTTP/1.1\r\n%s%s\r\n" % (path.encode(), self._host, headers))
        return await self._answer()

    async def post(self, path: str, body: bytes) -> Answer:
        """POST JSON."""
        head = b"POST %s HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._writer.write(head % (path.encode(), self._host, len(body)) + body)
        return await self._answer()

    async def stream(self, path: str) -> asyncio.StreamReader:
        """GET an endless response; the reader stands behind its headers."""
        self._writer.write(b"GET %s HTTP/1.1\r\n%s\r\n" % (path.encode(), self._host))
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        return self._reader

    def close(self) -> None:
        """Hang up."""
        self._writer.close()

    async def _answer(self) -> Answer:
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        length = int(_header(head, b"content-length") or 0)
        position = _header(head, b"turnlog-position")
        return Answer(status, position.decode() if position else None, await self._reader.readexactly(length))


def _header(head: bytes, name: bytes) -> bytes | None:
    at = head.find(b"\r\n" + name + b":")
    if at < 0:
        return None
    return head[at + len(name) + 3 : head.index(b"\r\n", at + 2)].strip()
