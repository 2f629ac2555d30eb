"""Running `wrk` (a small HTTP load generator) against the server, and row 3: the HTTP rate against the floor."""

import base64
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import anyio
import asyncpg

from tests.bench.floor import open_floor
from tests.bench.ratio import Row
from turnlog.domain.errors import Misconfigured

CLIENTS = 32
SLICES = 5
SLICE_S = 4.0
SCRIPT = Path(__file__).with_name("turns.lua")

_APPLIED = """
SELECT (SELECT next_offset FROM turnlog.event_log_head) <= (SELECT max(next_offset) FROM turnlog.checkpoints)
"""
_ENTRIES = "SELECT coalesce(sum(total_entries), 0)::bigint FROM turnlog_g1.sessions WHERE session_key LIKE $1"


class Load(NamedTuple):
    """Turns saved, and the seconds until the last of them was applied."""

    turns: int
    seconds: float


async def load(port: int, dsn: str, seconds: float) -> Load:
    """Save turns over `CLIENTS` keep-alive connections. A non-2xx answer, or a turn that isn't there, is a failure."""
    if shutil.which("wrk") is None:
        raise Misconfigured("the HTTP rows of the benchmark need `wrk` (Debian: apt-get install wrk)")
    run = f"w{os.urandom(5).hex()}x"
    started = anyio.current_time()
    with tempfile.NamedTemporaryFile() as blob:
        blob.write(base64.b64encode(os.urandom(1_000_000)).replace(b"/", b"_"))
        blob.flush()
        command = ["wrk", "-t1", f"-c{CLIENTS}", f"-d{seconds:g}s", "-s", str(SCRIPT), f"http://127.0.0.1:{port}"]
        ended = await anyio.run_process([*command, "--", run, blob.name])
    result = next(line for line in ended.stdout.decode().splitlines() if line.startswith("RESULT"))
    requests, _, refused, broken = (int(part) for part in result.split()[1:])
    assert refused == 0, ended.stdout.decode()
    assert broken == 0, ended.stdout.decode()
    connection = await asyncpg.connect(dsn)
    try:
        while not await connection.fetchval(_APPLIED):
            await anyio.sleep(0.005)
        seconds = anyio.current_time() - started
        entries = await connection.fetchval(_ENTRIES, f"agent:{run}%")
    finally:
        await connection.close()
    # wrk hangs up on up to CLIENTS requests at its end; they may be stored and stay uncounted.
    assert 0 <= entries - 2 * requests <= 2 * CLIENTS, (entries, requests)
    return Load(requests, seconds)


async def http_row(port: int, dsn: str) -> Row:
    """Slices interleaved with the floor's."""
    ratios: list[float] = []
    rates: list[float] = []
    keys = [f"agent:f{number}:native" for number in range(CLIENTS)]
    async with open_floor(dsn, CLIENTS) as floor:
        await load(port, dsn, SLICE_S)
        for _ in range(SLICES):
            below = await floor.rate(SLICE_S, keys)
            turns, seconds = await load(port, dsn, SLICE_S)
            rates.append(turns / seconds)
            ratios.append(rates[-1] / below)
    note = f"{sorted(rates)[len(rates) // 2]:.0f} turns/s, drain included"
    return Row(f"over HTTP, {CLIENTS} connections, one process", 0.2, ratios, at_least=True, gate=True, notes=[note])
