"""How far the tables are, per partition, as this process knows it; and waiting until they are far enough.

The projector of this process advances it at every commit; a follower (`checkpoint_follower.py`) does so for partitions
that other processes project. Polling is the guarantee, wake-ups are hints (architecture, "Reading").
"""

import asyncio
import heapq
from collections.abc import Iterable
from itertools import count

import anyio

from turnlog.domain.errors import NotYet
from turnlog.domain.positions import Position


class AppliedPositions:
    """Applied offsets per partition, with waiters. Belongs to one event loop."""

    def __init__(self, partitions: int) -> None:
        self._next = [0] * partitions
        self._own = [-1] * partitions
        self._waiting: list[list[tuple[int, int, asyncio.Future[bool]]]] = [[] for _ in range(partitions)]
        self._awaited = [asyncio.Event() for _ in range(partitions)]
        self._order = count()

    def next_offset(self, partition: int) -> int:
        """The first offset of the partition that isn't known to be applied."""
        return self._next[partition]

    def advance(self, partition: int, next_offset: int) -> None:
        """Everything below `next_offset` is applied and committed. Going back is ignored."""
        if next_offset <= self._next[partition]:
            return
        self._next[partition] = next_offset
        waiting = self._waiting[partition]
        while waiting and waiting[0][0] < next_offset:
            _settle(heapq.heappop(waiting)[2], True)
        if not waiting:
            self._awaited[partition].clear()

    def note_own(self, position: Position) -> None:
        """This process appended at `position`: its later reads without a header include it."""
        if position.offset > self._own[position.partition]:
            self._own[position.partition] = position.offset

    def own(self, partition: int) -> Position:
        """The last position of the partition that this process's reads must include."""
        return Position(partition, self._own[partition])

    @property
    def partitions(self) -> int:
        """How many partitions are tracked."""
        return len(self._next)

    def is_awaited(self, partition: int) -> bool:
        """True if somebody waits for this partition; a follower polls more often then."""
        return bool(self._waiting[partition])

    async def until_awaited(self, partition: int, at_most_s: float) -> None:
        """Return once somebody waits for this partition, or after `at_most_s`."""
        if self._awaited[partition].is_set():
            return
        with anyio.move_on_after(at_most_s):
            await self._awaited[partition].wait()

    async def reach(self, position: Position, *, timeout_ms: int) -> None:
        """Return once the record at `position` is applied. Raises NotYet after `timeout_ms`."""
        if position.offset < self._next[position.partition]:
            return
        loop = asyncio.get_running_loop()
        reached: asyncio.Future[bool] = loop.create_future()
        heapq.heappush(self._waiting[position.partition], (position.offset, next(self._order), reached))
        self._awaited[position.partition].set()
        # A plain timer: a cancel scope for each waiter would cost more than the wait.
        timer = loop.call_later(timeout_ms / 1000, _settle, reached, False)
        try:
            in_time = await reached
        finally:
            timer.cancel()
        if not in_time:
            raise NotYet(f"position {position} is not applied yet")

    async def reach_all(self, positions: Iterable[Position], *, timeout_ms: int) -> None:
        """`reach` for several positions, one shared timeout."""
        missing = [p for p in positions if p.offset >= self._next[p.partition]]
        if not missing:
            return
        try:
            with anyio.fail_after(timeout_ms / 1000):
                for position in missing:
                    await self.reach(position, timeout_ms=timeout_ms)
        except TimeoutError:
            raise NotYet(f"position {missing[0]} is not applied yet") from None


def _settle(reached: asyncio.Future[bool], in_time: bool) -> None:
    if not reached.done():
        reached.set_result(in_time)
