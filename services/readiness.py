"""Is traffic welcome: database and log reachable, nothing stopped, the projector within its lag bound."""

from typing import Any

import anyio

from turnlog.domain.errors import TurnlogError
from turnlog.domain.positions import Position
from turnlog.projections import checkpoints
from turnlog.services.composition import Turnlog

PROBE_S = 2.0


class Readiness:
    """Checks a running turnlog. `lag_bound` is in records per partition."""

    def __init__(self, running: Turnlog, *, lag_bound: int) -> None:
        self._running = running
        self._lag_bound = lag_bound
        self._floors = [running.applied.own(partition) for partition in range(running.applied.partitions)]

    async def check(self) -> tuple[bool, dict[str, Any]]:
        """Whether it is ready, and the figures that say why."""
        figures: dict[str, Any] = {"database": "unreachable", "log": "unreachable", "lagBound": self._lag_bound}
        try:
            with anyio.fail_after(PROBE_S):
                async with self._running.database.connection() as connection:
                    applied = await checkpoints.read(connection, self._running.database.generation)
                figures["database"] = "reachable"
                ends = [await self._running.log.end(p) for p in range(self._running.log.partitions)]
                figures["log"] = "reachable"
        except (TurnlogError, TimeoutError):
            return False, figures
        next_offsets = {checkpoint.partition: checkpoint.next_offset for checkpoint in applied}
        lags = [max(0, end - next_offsets.get(partition, 0)) for partition, end in enumerate(ends)]
        stopped = {str(c.partition): c.stopped for c in applied if c.stopped is not None}
        caught_up = all(self._reached(floor) for floor in self._floors)
        figures |= {
            "partitions": len(ends),
            "lag": lags,
            "stopped": stopped,
            "caughtUp": caught_up,
            "generation": self._running.database.generation,
        }
        return caught_up and not stopped and max(lags) <= self._lag_bound, figures

    def _reached(self, floor: Position) -> bool:
        return self._running.applied.next_offset(floor.partition) > floor.offset
