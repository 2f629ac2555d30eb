"""Live streams over a real socket: catching up, going live, keeping alive, being cut off, coming to an end."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest

from tests.http.running import Running, running, until
from tests.http.stand_ins import Tables
from tests.http.stream_reader import StreamReader, stream
from turnlog.domain.errors import Unavailable
from turnlog.domain.fold.effects import EndingKind, SessionChange
from turnlog.domain.stream_selection import StreamSelection
from turnlog.services.http.options import HttpOptions

TEAM = "/api/teams/t/chat/stream"
KEY = "agent:a:team:t"
OPEN = HttpOptions(port=0, rate_limit=0)


def entry(number: int, size: int = 0) -> str:
    return json.dumps({"entryId": f"e{number}", "text": "x" * size})


async def test_a_stream_replays_goes_live_and_shows_its_own_rows_only() -> None:
    async with running(OPEN) as server:
        last = [server.tables.add(KEY, entry(n)) for n in range(200)][-1]
        async with stream(server, TEAM) as reader:
            assert reader.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert reader.headers["cache-control"] == "no-cache, no-transform"
            assert reader.headers["x-accel-buffering"] == "no"
            first = await reader.next()
            assert first is not None
            assert first.comment == "connected"
            found = await reader.rows(200)
            assert [event.data["entryId"] for event in found] == [f"e{n}" for n in range(200)]
            assert found[-1].id == last
            server.tables.add("agent:a:native", entry(1))
            server.tables.add("agent:a:team:other", entry(2))
            server.tables.add("agent:a:team:t:room:r", entry(3))
            live = server.tables.add("agent:new:team:t", entry(4))
            assert [(event.id, event.name) for event in await reader.rows(1)] == [(live, None)]


@pytest.mark.parametrize(
    ("query", "headers", "first"),
    [
        ("", {}, 0), ("?since={2}", {}, 3), ("", {"last_event_id": "{2}"}, 3),
        ("?since={0}", {"last_event_id": "{3}"}, 4),
        ("?since=-1", {}, 0), ("?since=abc", {}, 0), ("?since={4}", {"last_event_id": "abc"}, 0),
        ("?since={1}", {"last_event_id": ""}, 2),
    ],
)  # fmt: skip
async def test_a_stream_resumes_after_its_cursor(query: str, headers: dict[str, str], first: int) -> None:
    async with running(OPEN) as server:
        ids = [server.tables.add(KEY, entry(n)) for n in range(6)]
        given = {name: value.format(*ids) for name, value in headers.items()}
        async with stream(server, TEAM + query.format(*ids), **given) as reader:
            assert (await reader.rows(1))[0].id == ids[first]


async def test_an_agents_stream_and_a_rooms_stream() -> None:
    async with running(OPEN) as server:
        own = server.tables.add("agent:a:native", entry(1))
        room = server.tables.add("agent:a:team:t:room:r", entry(2))
        async with stream(server, "/api/agents/a/chat/stream") as reader:
            assert (await reader.rows(1))[0].id == own
        async with stream(server, f"{TEAM}?roomId=r") as reader:
            assert (await reader.rows(1))[0].id == room


async def test_no_row_is_lost_or_repeated_while_clients_come_and_go() -> None:
    async with running(OPEN) as server:
        total = 600

        async def write() -> None:
            for number in range(total):
                server.tables.add(KEY, entry(number, 300))
                await anyio.sleep(0 if number % 7 else 0.002)

        async def read(delay: float) -> None:
            await anyio.sleep(delay)
            found: list[str] = []
            last = "0"
            while len(found) < total:
                async with stream(server, TEAM, last_event_id=last) as reader:
                    rows = await reader.rows(min(83, total - len(found)))
                found += [event.data["entryId"] for event in rows]
                last = str(rows[-1].id)
            assert found == [f"e{n}" for n in range(total)]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            for number in range(8):
                tasks.start_soon(read, number * 0.01)


async def test_fifty_clients_share_one_read_per_wake() -> None:
    async with running(OPEN) as server:
        server.tables.add(KEY, entry(0))
        async with _many(server, 50) as readers:
            for reader in readers:
                await reader.rows(1)
            await until(lambda: len(server.tables.reads) >= 2)
            await anyio.sleep(0.1)
            server.tables.reads.clear()
            for number in range(1, 21):
                server.tables.add(KEY, entry(number))
                for reader in readers:
                    assert (await reader.rows(1))[0].data["entryId"] == f"e{number}"
            assert len(server.tables.reads) <= 40


async def test_ephemeral_frames_and_endings_have_no_id() -> None:
    async with running(OPEN) as server:
        async with stream(server, TEAM) as reader:
            await reader.next()
            posted = await server.post("/api/teams/t/chat/delta", b'{"text":\r\n"a"}')
            assert posted.json() == {"ok": True}
            await server.post("/api/teams/t/chat/status?roomId=r", {"not": "here"})
            await server.post("/api/teams/t/chat/status", {"busy": True})
            keys = ["agent:a:team:t", "agent:b:team:t"]
            server.tables.hub.publish(2, [SessionChange(key, 9, EndingKind.CLEAR) for key in keys])
            server.tables.hub.publish(2, [SessionChange(keys[0], 10, EndingKind.RESET)])
            server.tables.hub.publish(2, [SessionChange(keys[0], 11, EndingKind.DELETE)])
            seen = [await reader.next() for _ in range(5)]
            assert [(event.name, event.data) for event in seen if event is not None] == [
                ("delta", {"text": "a"}),
                ("status", {"busy": True}),
                ("clear", {"sessionKeys": keys, "position": "2-9"}),
                ("reset", {"sessionKeys": keys[:1], "position": "2-10"}),
                ("delete", {"sessionKeys": keys[:1], "position": "2-11"}),
            ]
            assert all(event is not None and event.id is None for event in seen)
        assert (await server.post("/api/teams/t/chat/delta", b"[1]")).error() == "invalid JSON"


async def test_an_idle_stream_is_kept_alive() -> None:
    async with running(HttpOptions(port=0, rate_limit=0, keepalive_s=0.4)) as server, stream(server, TEAM) as reader:
        await reader.next()
        before = time.monotonic()
        for _ in range(3):
            event = await reader.next(within_s=0.8)
            assert event is not None
            assert event.comment == "keepalive"
        assert time.monotonic() - before < 1.6


async def test_a_stream_outlives_the_tables_being_out_of_reach() -> None:
    async with running(HttpOptions(port=0, rate_limit=0, keepalive_s=0.4)) as server:
        server.tables.failing = Unavailable("database unreachable")
        async with stream(server, TEAM) as reader:
            assert [getattr(await reader.next(), "comment", None) for _ in range(2)] == ["connected", "keepalive"]
            row = server.tables.add(KEY, entry(1))
            server.tables.failing = None
            assert (await reader.rows(1))[0].id == row
            server.tables.failing = Unavailable("database unreachable")
            row = server.tables.add(KEY, entry(2))
            server.tables.failing = None
            assert (await reader.rows(1))[0].id == row


async def test_a_client_that_does_not_read_is_cut_off_and_the_others_are_not() -> None:
    async with running(HttpOptions(port=0, rate_limit=0, stream_queue_bytes=100_000)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(f"GET {TEAM} HTTP/1.1\r\nHost: {server.own}\r\n\r\n".encode())
        async with stream(server, TEAM) as healthy:
            await healthy.next()
            await until(lambda: len(server.server.server_state.connections) == 2)
            count = 0
            while len(server.server.server_state.connections) == 2:
                count += 1
                assert count < 1000
                server.tables.add(KEY, entry(count, 50_000))
                assert (await healthy.rows(1))[0].data["entryId"] == f"e{count}"
        writer.transport.abort()
        assert not reader.at_eof()


async def test_a_single_entry_larger_than_the_queue_is_delivered() -> None:
    options = HttpOptions(port=0, rate_limit=0, stream_queue_bytes=1000)
    async with running(options) as server, stream(server, TEAM) as reader:
        await reader.next()
        server.tables.add(KEY, entry(1, 2_000_000))
        assert len((await reader.rows(1))[0].data["text"]) == 2_000_000


async def test_a_vanished_client_does_not_hold_up_the_others() -> None:
    tables = Tables()
    for number in range(20_000):
        tables.add(KEY, entry(number))
    async with running(OPEN, tables) as server:
        async with stream(server, TEAM) as reader:
            await reader.rows(1)
            reader.vanish()
        with anyio.fail_after(1):
            assert (await server.ask("GET", "/healthz")).status == 200
        await until(lambda: len(server.server.server_state.connections) == 0)
        reads = len(tables.reads)
        tables.add(KEY, entry(0))
        await anyio.sleep(0.05)
        assert len(tables.reads) == reads


async def test_too_many_streams_are_refused() -> None:
    async with running(HttpOptions(port=0, rate_limit=0, max_streams=1)) as server, stream(server, TEAM) as reader:
        await reader.next()
        answer = await server.ask("GET", TEAM)
        assert (answer.status, answer.error(), answer.headers["retry-after"]) == (503, "too many open streams", "1")


async def test_the_end_of_the_server_is_the_end_of_its_streams() -> None:
    async with running(OPEN) as server:
        server.tables.add(KEY, entry(1))
        async with _many(server, 20) as readers:
            for reader in readers:
                await reader.rows(1)
            before = time.monotonic()
            server.server.stop()
            for reader in readers:
                last = None
                while (event := await reader.next()) is not None:
                    last = event
                assert last is not None
                assert last.comment == "closing"
            assert time.monotonic() - before < 2


async def test_nothing_is_left_of_a_stream_that_ended(server: Running) -> None:
    async with stream(server, TEAM) as reader:
        await reader.next()
        assert server.tables.hub.ephemeral(StreamSelection.team("t"), "delta", b"{}") == 1
    await until(lambda: server.tables.hub.ephemeral(StreamSelection.team("t"), "delta", b"{}") == 0)


@asynccontextmanager
async def _many(server: Running, count: int) -> AsyncIterator[list[StreamReader]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(stream(server, TEAM)) for _ in range(count)]
