"""SIGTERM: nothing new is accepted, what is in flight finishes or ends in time, and the exit status is 0."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

ROOT = Path(__file__).parents[2]


class Process:
    """A server process."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, request: str) -> asyncio.StreamReader:
        """Send a request on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request.replace("\n", "\r\n").encode())
        self._writers.append(writer)
        return reader

    def close(self) -> None:
        """Drop all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def save(self, session_key: str) -> asyncio.StreamReader:
        """Begin a save; return once the server is in it."""
        body = f'{{"sessionKey":"{session_key}","entries":[{{"entryId":"e"}}]}}'
        head = "POST /api/chat-history HTTP/1.1\nHost: localhost\nContent-Type: application/json\n"
        reader = await self.connect(f"{head}Content-Length: {len(body)}\n\n{body}")
        assert self.process.stdout is not None
        assert await self.process.stdout.readline() == f"saving {session_key}\n".encode()
        return reader

    async def terminate(self) -> float:
        """SIGTERM; seconds until it has ended, which it has to with status 0."""
        before = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(15):
            assert await self.process.wait() == 0
        return time.monotonic() - before


@asynccontextmanager
async def serving() -> AsyncIterator[Process]:
    """A server process that accepts connections."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.http.serving_process", stdout=asyncio.subprocess.PIPE, env=environment, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        with anyio.fail_after(30):
            port = int(await process.stdout.readline())
        server = Process(process, port)
        yield server
        server.close()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_request_in_flight_is_finished_and_nothing_new_is_accepted() -> None:
    async with serving() as server:
        answer = await server.save("slow")
        idle = await server.connect("")
        server.process.send_signal(signal.SIGTERM)
        assert await idle.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await server.connect("")
        assert (await answer.read()).startswith(b"HTTP/1.1 200 OK")
        assert await server.terminate() < 3


async def test_open_streams_end_at_once() -> None:
    async with serving() as server:
        opened = [await server.connect("GET /api/teams/t/chat/stream HTTP/1.1\nHost: localhost\n\n") for _ in range(50)]
        for reader in opened:
            await reader.readuntil(b": connected")
        assert await server.terminate() < 2
        for reader in opened:
            assert (await reader.read()).endswith(b"0\r\n\r\n")


async def test_what_does_not_end_is_ended() -> None:
    async with serving() as server:
        answer = await server.save("stuck")
        assert await server.terminate() < 6
        assert (await answer.read()).startswith(b"HTTP/1.1 503 Service Unavailable")
