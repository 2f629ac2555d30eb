"""Rows 1 and 2: in-process appends of 16 sessions at once, against the floor."""

import anyio

from tests.bench.floor import open_floor
from tests.bench.ratio import Row
from tests.bench.turns import new_turn
from turnlog.services.composition import Turnlog

CLIENTS = 16
SLICES = 7
SLICE_S = 2.0


def session_keys(run: str, count: int = CLIENTS) -> list[str]:
    """One session per client, each of another agent."""
    return [f"agent:{run}{number}:native" for number in range(count)]


async def rate(log: Turnlog, keys: list[str], seconds: float, *, awaiting: bool) -> float:
    """Turns per second, until the projector has applied the last one."""
    done = 0
    started = anyio.current_time()
    until = started + seconds

    async def append(key: str) -> None:
        nonlocal done
        while anyio.current_time() < until:
            saved = await log.conversations.save_entries(key, new_turn(key))
            assert saved.position is not None
            if awaiting:
                await log.applied.reach(saved.position, timeout_ms=60_000)
            done += 1

    async with anyio.create_task_group() as tasks:
        for key in keys:
            tasks.start_soon(append, key)
    await drained(log)
    return done / (anyio.current_time() - started)


async def drained(log: Turnlog) -> None:
    """Wait until the checkpoints have passed this process's last append."""
    own = [log.applied.own(partition) for partition in range(log.applied.partitions)]
    await log.applied.reach_all(own, timeout_ms=600_000)


async def append_rows(log: Turnlog, dsn: str) -> list[Row]:
    """Both rows, slices interleaved with the floor's."""
    plain: list[float] = []
    awaited: list[float] = []
    floors: list[float] = []
    async with open_floor(dsn, CLIENTS) as floor:
        keys = session_keys("bench")
        await rate(log, keys, SLICE_S, awaiting=False)
        for _ in range(SLICES):
            below = await floor.rate(SLICE_S, keys)
            plain.append(await rate(log, keys, SLICE_S, awaiting=False) / below)
            awaited.append(await rate(log, keys, SLICE_S, awaiting=True) / below)
            floors.append(below)
    note = f"F = {sorted(floors)[len(floors) // 2]:.0f} turns/s"
    return [
        Row("in-process append, 16 sessions, drain included", 0.5, plain, at_least=True, gate=True, notes=[note]),
        Row("the same, every caller awaiting its projection", 0.25, awaited, at_least=True, gate=True, notes=[note]),
    ]
