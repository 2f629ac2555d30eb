"""Row 10: how much the server's memory grows, by turns and by stream clients that never read."""

import asyncio

import anyio
import psutil

from tests.bench.ratio import Row
from tests.bench.raw_http import RawHttp
from tests.bench.wrk import load

WARM_UP_TURNS = 20_000
TURNS = 200_000
STALLED = 200
SLICE_S = 10.0
TEAM_TURNS = 3_000
GOAL_MIB = 64


async def memory_rows(port: int, pid: int, dsn: str) -> list[Row]:
    """Growth after 200,000 turns, and the peak with 200 clients that never read."""
    server = psutil.Process(pid)
    await _turns(port, dsn, WARM_UP_TURNS)
    warm = _mib(server)
    saved = await _turns(port, dsn, TURNS)
    after = _mib(server)
    peak = await _stalled_peak(port, server)
    return [
        Row(
            f"server RSS, growth after {TURNS:,} turns",
            GOAL_MIB,
            [after - warm],
            at_least=False,
            unit="MiB",
            gate=True,
            notes=[f"{saved:,} turns, {warm:.0f} MiB when warm"],
        ),
        Row(
            f"server RSS, peak growth with {STALLED} clients that never read",
            GOAL_MIB,
            [peak - after],
            at_least=False,
            unit="MiB",
            gate=True,
            notes=[f"{TEAM_TURNS:,} turns of their team meanwhile"],
        ),
    ]


async def _turns(port: int, dsn: str, count: int) -> int:
    saved = 0
    while saved < count:
        saved += (await load(port, dsn, SLICE_S)).turns
    return saved


async def _stalled_peak(port: int, server: psutil.Process) -> float:
    peak = _mib(server)
    stalled: list[asyncio.Transport] = []
    loop = asyncio.get_running_loop()
    for _ in range(STALLED):
        transport, _ = await loop.create_connection(_NeverReads, "127.0.0.1", port)
        transport.write(b"GET /api/teams/stalled/chat/stream HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
        stalled.append(transport)
    client = await RawHttp.open(port)
    text = "y" * 1400
    for number in range(TEAM_TURNS):
        entry = b'{"entryId":"s%d","text":"%s"}' % (number, text.encode())
        body = b'{"sessionKey":"agent:a:team:stalled","entries":[%s]}' % entry
        assert (await client.post("/api/chat-history", body)).status == 200
        if number % 50 == 0:
            peak = max(peak, _mib(server))
    await anyio.sleep(1)
    peak = max(peak, _mib(server))
    client.close()
    for transport in stalled:
        transport.abort()
    return peak


class _NeverReads(asyncio.Protocol):
    """Connects and lets everything lie."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()


def _mib(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 2**20
