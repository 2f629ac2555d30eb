"""Clients that send or read too slowly are ended, whatever they ask for."""

import asyncio

import anyio

from tests.http.running import running, until
from tests.http.stand_ins import Tables
from turnlog.services.http.options import HttpOptions


async def test_a_request_that_does_not_arrive_is_refused() -> None:
    async with running(HttpOptions(port=0, rate_limit=0, body_timeout_s=0.3)) as server:
        head = f"POST /api/chat-history HTTP/1.1\r\nHost: {server.own}\r\nContent-Type: application/json\r\n"
        for part in (head, head + "Content-Length: 50\r\n\r\n{"):
            answer = await server.raw(part.encode())
            assert (answer.status, answer.error()) == (408, "the request took too long to arrive")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with anyio.fail_after(5):
            assert await reader.read() == b""
        writer.close()
        assert not server.commands.calls


async def test_a_client_that_stops_reading_is_closed() -> None:
    tables = Tables()
    for _ in range(200):
        tables.add("agent:a:team:t", '{"text":"%s"}' % ("x" * 100_000))
    async with running(HttpOptions(port=0, rate_limit=0, send_timeout_s=0.3), tables) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(f"GET /api/teams/t/chat/stream HTTP/1.1\r\nHost: {server.own}\r\n\r\n".encode())
        connections = server.server.server_state.connections
        await until(lambda: any(getattr(connection, "stalled_since", None) for connection in connections))
        await until(lambda: not connections)
        assert len(tables.reads) < 100
        writer.transport.abort()


async def test_a_client_that_has_said_all_and_closed_its_side_still_gets_the_answer() -> None:
    body = b'{"sessionKey":"k","entries":[{"entryId":"e"}]}'
    async with running(HttpOptions(port=0, rate_limit=0)) as server:
        head = (
            f"POST /api/chat-history HTTP/1.1\r\nHost: {server.own}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head.encode() + body)
        writer.write_eof()
        with anyio.fail_after(5):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b'{"ok":true,"saved":1,"stored":1}')
        connections = server.server.server_state.connections
        await until(lambda: not connections)
        writer.close()


async def test_a_stream_ends_when_its_client_closes_its_side() -> None:
    async with running(HttpOptions(port=0, rate_limit=0), Tables()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET /api/teams/t/chat/stream HTTP/1.1\r\nHost: {server.own}\r\n\r\n".encode())
        with anyio.fail_after(5):
            await reader.readuntil(b": connected")
            writer.write_eof()
            await reader.read()
        connections = server.server.server_state.connections
        await until(lambda: not connections)
        writer.close()
