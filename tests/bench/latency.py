"""Row 4: append until applied, with 100,000 messages in the session against an empty one."""

import statistics
import time

from tests.bench.filling import fill
from tests.bench.ratio import Row
from tests.bench.turns import new_turn
from turnlog.services.composition import Turnlog

MESSAGES = 100_000
BLOCKS = 10
PAIRS_A_BLOCK = 200


async def append_latency_row(log: Turnlog) -> Row:
    """One ratio of medians per block of alternating pairs."""
    full = "agent:full:native"
    await fill(log, full, MESSAGES)
    ratios: list[float] = []
    number = 0
    for _ in range(BLOCKS):
        of_full: list[float] = []
        of_empty: list[float] = []
        for _ in range(PAIRS_A_BLOCK):
            number += 1
            of_full.append(await _applied_in(log, full))
            of_empty.append(await _applied_in(log, f"agent:empty{number}:native"))
        ratios.append(statistics.median(of_full) / statistics.median(of_empty))
    return Row(
        "append until applied, p50, 100,000 messages vs none",
        1.15,
        ratios,
        at_least=False,
        notes=[f"{BLOCKS * PAIRS_A_BLOCK:,} alternating pairs"],
    )


async def _applied_in(log: Turnlog, key: str) -> float:
    turn = new_turn(key)
    started = time.perf_counter()
    saved = await log.conversations.save_entries(key, turn)
    assert saved.position is not None
    await log.applied.reach(saved.position, timeout_ms=60_000)
    return time.perf_counter() - started
