"""Rows 6 and 7: from a POST, counted from when it was due, to a GET or a stream frame that shows it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import anyio

from tests.bench.ratio import Row, percentile
from tests.bench.raw_http import RawHttp
from tests.bench.turns import new_turn, post_body

TURNS_A_SECOND = 100
SECONDS = 20.0
WARM_UP_S = 2.0
CLIENTS = 50
SENDERS = 16

Turn = Callable[[RawHttp, str, float, bool], Awaitable[None]]
"""Sends one turn: connection, session key, when it was due, whether it counts."""


async def visible_row(port: int, log: str, goal_ms: float) -> Row:
    """Open loop: every 10 ms a POST is due; then a GET with its position must hold it."""
    latencies: list[float] = []

    async def turn(client: RawHttp, key: str, due: float, counted: bool) -> None:
        entries = new_turn(key)
        saved = await client.post("/api/chat-history", post_body(key, entries))
        assert saved.status == 200 and saved.position is not None, saved
        shown = await client.get(
            f"/api/chat-history?sessionKey={key}&limit=2", b"Turnlog-After: %s\r\n" % saved.position.encode()
        )
        assert entries[1].text in shown.body, shown
        if counted:
            latencies.append((time.perf_counter() - due) * 1000)

    await _open_loop(port, turn)
    return Row(
        f"POST to visible in a GET, p99, {log} log",
        goal_ms,
        [percentile(latencies, 0.99)],
        at_least=False,
        unit="ms",
        notes=[f"{len(latencies):,} turns at {TURNS_A_SECOND}/s, p50 {percentile(latencies, 0.5):.1f} ms"],
    )


async def frames_row(port: int) -> Row:
    """The same turns, in one team; all of the clients of its stream get every frame."""
    sent: dict[bytes, float] = {}
    latencies: list[float] = []
    expected = 0

    async def turn(client: RawHttp, key: str, due: float, counted: bool) -> None:
        nonlocal expected
        team_key = f"{key.removesuffix(':native')}:team:bench"
        entries = new_turn(team_key)
        if counted:
            expected += len(entries)
            for entry in entries:
                sent[entry.entry_id.encode()] = due
        assert (await client.post("/api/chat-history", post_body(team_key, entries))).status == 200

    async def listen() -> None:
        client = await RawHttp.open(port)
        reader = await client.stream("/api/teams/bench/chat/stream")
        while True:
            frame = await reader.readuntil(b"\n\n")
            at = frame.find(b'"entryId":"')
            if at < 0:
                continue
            due = sent.get(frame[at + 11 : frame.index(b'"', at + 11)])
            if due is not None:
                latencies.append((time.perf_counter() - due) * 1000)

    async with anyio.create_task_group() as tasks:
        for _ in range(CLIENTS):
            tasks.start_soon(listen)
        await _open_loop(port, turn)
        with anyio.fail_after(30):
            while len(latencies) < expected * CLIENTS:
                await anyio.sleep(0.05)
        tasks.cancel_scope.cancel()
    return Row(
        f"POST to stream frame, all of {CLIENTS} clients, p99",
        100,
        [percentile(latencies, 0.99)],
        at_least=False,
        unit="ms",
        notes=[f"{len(latencies):,} frames, p50 {percentile(latencies, 0.5):.1f} ms"],
    )


async def _open_loop(port: int, turn: Turn) -> None:
    """Start a turn every 10 ms, whether the ones before are answered or not."""
    idle: asyncio.Queue[RawHttp] = asyncio.Queue()
    started = time.perf_counter()
    async with anyio.create_task_group() as tasks:

        async def one(due: float, number: int) -> None:
            client = idle.get_nowait() if not idle.empty() else await RawHttp.open(port)
            await turn(client, f"agent:v{number % SENDERS}:native", due, due >= started + WARM_UP_S)
            idle.put_nowait(client)

        for number in range(int(TURNS_A_SECOND * (SECONDS + WARM_UP_S))):
            due = started + number / TURNS_A_SECOND
            await anyio.sleep(max(0.0, due - time.perf_counter()))
            tasks.start_soon(one, due, number)
    while not idle.empty():
        idle.get_nowait().close()
