"""Row 5: the newest 200 over HTTP against a raw select of the same rows, and with 100,000 messages against 1,000."""

import statistics
import time

import asyncpg

from tests.bench.filling import fill_over_http
from tests.bench.ratio import Row
from tests.bench.raw_http import RawHttp
from turnlog.domain.session_key import session_id

LIMIT = 200
BLOCKS = 10
PAIRS_A_BLOCK = 200
TEXT = "incompressible enough to be a message of ordinary size, " * 10
_SELECT = "SELECT entry FROM turnlog_g1.transcript_entries WHERE session_id = $1 ORDER BY row_id DESC LIMIT 200"


async def page_rows(port: int, dsn: str) -> list[Row]:
    """Both ratios, from alternating reads."""
    large, small = "agent:pages-large:native", "agent:pages-small:native"
    await fill_over_http(port, large, 100_000, TEXT)
    await fill_over_http(port, small, 1_000, TEXT)
    connection = await asyncpg.connect(dsn)
    client = await RawHttp.open(port)
    raw = await connection.prepare(_SELECT)
    over_raw: list[float] = []
    over_small: list[float] = []
    try:
        await connection.execute("VACUUM ANALYZE turnlog_g1.transcript_entries")
        for _ in range(BLOCKS):
            times: dict[str, list[float]] = {"raw": [], large: [], small: []}
            for _ in range(PAIRS_A_BLOCK):
                started = time.perf_counter()
                rows = await raw.fetch(session_id(large))
                times["raw"].append(time.perf_counter() - started)
                assert len(rows) == LIMIT
                for key in (large, small):
                    started = time.perf_counter()
                    answer = await client.get(f"/api/chat-history?sessionKey={key}&limit={LIMIT}")
                    times[key].append(time.perf_counter() - started)
                    assert answer.status == 200
            medians = {name: statistics.median(values) for name, values in times.items()}
            over_raw.append(medians[large] / medians["raw"])
            over_small.append(medians[large] / medians[small])
    finally:
        client.close()
        await connection.close()
    note = f"{BLOCKS * PAIRS_A_BLOCK:,} alternating reads"
    return [
        Row("newest 200 over HTTP, p50, vs a raw asyncpg select", 2.5, over_raw, at_least=False, notes=[note]),
        Row("newest 200, 100,000 messages vs 1,000", 1.2, over_small, at_least=False, notes=[note]),
    ]
