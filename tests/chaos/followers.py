"""A live stream's client that comes back with Last-Event-ID whenever its connection ends."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import anyio
import httpx

RECONNECT_S = 0.3


class Follower:
    """Follows one stream, on whichever server `url()` names at each connection; keeps every row it was sent."""

    def __init__(self, url: Callable[[], str], path: str) -> None:
        self.rows: list[tuple[int, dict[str, Any]]] = []
        self.connections = 0
        self._url = url
        self._path = path

    @property
    def entry_ids(self) -> list[str]:
        """The ids of the entries, in the order in which they came."""
        return [entry["entryId"] for _, entry in self.rows]

    def entry_ids_of(self, session_key: str) -> list[str]:
        """The same of one session. Its entries must carry their session key."""
        return [entry["entryId"] for _, entry in self.rows if entry["sessionKey"] == session_key]

    async def run(self) -> None:
        """Follow until cancelled. A row that came before, or out of order, fails at once."""
        async with httpx.AsyncClient(timeout=httpx.Timeout(60, connect=5)) as client:
            while True:
                with contextlib.suppress(httpx.TransportError):
                    await self._connection(client)
                await anyio.sleep(RECONNECT_S)

    async def _connection(self, client: httpx.AsyncClient) -> None:
        headers = {"Last-Event-ID": str(self.rows[-1][0])} if self.rows else {}
        async with client.stream("GET", self._url() + self._path, headers=headers) as response:
            if response.status_code == 503:
                return
            assert response.status_code == 200, response.status_code
            self.connections += 1
            row: int | None = None
            # A line that was cut off has no line end and is no event: it has no empty line behind it.
            data = ""
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    row = int(value)
                elif name == "data":
                    data = value
                elif line == "":
                    if row is not None:
                        self._take(row, data)
                    row, data = None, ""

    def _take(self, row: int, data: str) -> None:
        if self.rows:
            assert row > self.rows[-1][0], f"row {row} came after {self.rows[-1][0]} on {self._path}"
        self.rows.append((row, json.loads(data)))
