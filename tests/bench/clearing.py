"""Row 8: a clear of 100,000 messages against one of 10, and the GET after it."""

import statistics
import time

from tests.bench.filling import fill_over_http
from tests.bench.ratio import Row
from tests.bench.raw_http import RawHttp

RUNS = 20
MESSAGES = {"large": 100_000, "small": 10}


async def clear_rows(port: int) -> list[Row]:
    """Medians of `RUNS` clears of each size, each of a team of its own.

    Both teams of a run are filled before either is cleared, and they take turns in being first: what the filling leaves
    to do (vacuum, a checkpoint) meets both alike.
    """
    clears: dict[str, list[float]] = {"large": [], "small": []}
    reads: dict[str, list[float]] = {"large": [], "small": []}
    for run in range(RUNS):
        for size, messages in MESSAGES.items():
            await fill_over_http(port, _key(size, run), messages)
        for size in sorted(MESSAGES, reverse=run % 2 == 1):
            key = _key(size, run)
            client = await RawHttp.open(port)
            await client.get(f"/api/chat-history?sessionKey={key}&limit=1")
            started = time.perf_counter()
            cleared = await client.post(f"/api/teams/bench-{size}-{run}/chat/clear", b"{}")
            clears[size].append(time.perf_counter() - started)
            assert cleared.status == 200, cleared
            started = time.perf_counter()
            page = await client.get(f"/api/chat-history?sessionKey={key}")
            reads[size].append(time.perf_counter() - started)
            assert page.body.startswith(b'{"entries":[]'), page.body[:100]
            client.close()
    return [_row("clear of 100,000 messages vs of 10", clears), _row("the GET after that clear", reads)]


def _key(size: str, run: int) -> str:
    return f"agent:a:team:bench-{size}-{run}"


def _row(name: str, times: dict[str, list[float]]) -> Row:
    ratio = statistics.median(times["large"]) / statistics.median(times["small"])
    pairs = [large / small for large, small in zip(times["large"], times["small"], strict=True)]
    note = f"pairs {min(pairs):.2g} to {max(pairs):.2g}, median small {statistics.median(times['small']) * 1000:.2f} ms"
    return Row(name, 1.5, [ratio], at_least=False, gate=True, notes=[note])
