"""Row 10: how much the server's memory grows, by turns and by stream clients that never read."""

import socket
from contextlib import ExitStack

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
TEAM_TEXT = 8_192
"""Characters a turn: together far more than the kernels and the server may hold for one client."""
GOAL_MIB = 64


async def memory_rows(port: int, pid: int, dsn: str) -> list[Row]:
    """Growth after 200,000 turns, and the peak with 200 clients that never read."""
    server = psutil.Process(pid)
    await _turns(port, dsn, WARM_UP_TURNS)
    warm = _mib(server)
    saved = await _turns(port, dsn, TURNS)
    after = _mib(server)
    peak, cut = await _stalled_peak(port, server)
    assert cut == STALLED, f"only {cut} of {STALLED} clients that never read were cut off"
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
            notes=[f"{TEAM_TURNS:,} turns of {TEAM_TEXT:,} B of their team meanwhile; all of them were cut off"],
        ),
    ]


async def _turns(port: int, dsn: str, count: int) -> int:
    saved = 0
    while saved < count:
        saved += (await load(port, dsn, SLICE_S)).turns
    return saved


async def _stalled_peak(port: int, server: psutil.Process) -> tuple[float, int]:
    """The peak in MiB while clients that never read follow a busy team, and how many of them the server cut off."""
    peak = _mib(server)
    with ExitStack() as stack:
        stalled = [stack.enter_context(_never_reading(port)) for _ in range(STALLED)]
        client = await RawHttp.open(port)
        text = "y" * TEAM_TEXT
        for number in range(TEAM_TURNS):
            entry = b'{"entryId":"s%d","text":"%s"}' % (number, text.encode())
            body = b'{"sessionKey":"agent:a:team:stalled","entries":[%s]}' % entry
            assert (await client.post("/api/chat-history", body)).status == 200
            if number % 50 == 0:
                peak = max(peak, _mib(server))
        await anyio.sleep(1)
        peak = max(peak, _mib(server))
        client.close()
        cut = [_was_cut(each) for each in stalled]
    return peak, sum(cut)


def _never_reading(port: int) -> socket.socket:
    """A stream's client that lets everything lie, with little room for it in its own kernel."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.sendall(b"GET /api/teams/stalled/chat/stream HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port)
    client.settimeout(0.5)
    return client


def _was_cut(client: socket.socket) -> bool:
    """True if the stream ends after what lies in the kernels, False if it is still open."""
    try:
        while client.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def _mib(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 2**20
