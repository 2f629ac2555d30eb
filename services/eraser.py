"""Works off the erasure outbox: asks the log to erase, verifies, keeps idle partitions moving, rewrites tables.

One process at a time, by an advisory lock; a killed one's work is found again in the outbox. Every step may run twice.
Until something is seen to be gone it stays open (architecture, "Erasure": 48 h at most).
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

import anyio
import structlog
from anyio.abc import TaskStatus

from turnlog.domain.errors import RETRIABLE, TurnlogError
from turnlog.domain.event_data import Tick
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import EventType
from turnlog.infra.postgres import Database
from turnlog.projections import erasure_outbox, generations, previous_generation
from turnlog.projections.advisory_locks import Lock
from turnlog.projections.erasure_outbox import Queued, Work
from turnlog.projections.statement import Connection
from turnlog.services.erasure_receipts import ErasureReceipts
from turnlog.services.erasure_schedule import ErasureSchedule
from turnlog.services.event_factory import new_event
from turnlog.services.failpoints import failpoint
from turnlog.services.locked import locked
from turnlog.services.table_rewrite import TableRewrite

BATCH = 500
RETRY_S = 2.0
LOOK_ROUND_S = 60.0
"""How often leftovers of other processes are looked for: generations of killed rebuilds, receipts not written."""
NEVER = -float("inf")

_log = structlog.get_logger(__name__)


class Eraser:
    """Erases what the projector put into the outbox. `schedule` holds its intervals."""

    def __init__(self, database: Database, log: EventLog, schedule: ErasureSchedule) -> None:
        self._database = database
        self._log = log
        self._schedule = schedule
        self._receipts = ErasureReceipts(log, rewritten=schedule.rewrite_s > 0)
        self._rewrite = TableRewrite(schedule)
        self._ticked: dict[int, float] = {}
        self._verified = NEVER
        self._looked_round = NEVER

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Work the outbox off until cancelled; a lost database or log is waited for."""
        task_status.started()
        while True:
            try:
                await self.work_once()
            except TurnlogError as error:
                if error.category not in RETRIABLE:
                    raise
                _log.warning("erasure_delayed", reason=str(error))
                await anyio.sleep(RETRY_S)
            await anyio.sleep(self._schedule.interval_s)

    async def work_once(self) -> bool:
        """One round of whatever is due. False if it wasn't its turn: another process was at it, a verify holds erasing
        off, or the tables have just been rebuilt.
        """
        async with self._database.connection() as connection:
            work = await erasure_outbox.work(connection)
        if not self._due(work):
            return True
        async with locked(self._database, Lock.ERASING) as connection:
            if connection is None:
                return False
            # No flip while the lock is held; one just before it would leave this connection with the former tables.
            if await generations.live_generation(connection) != self._database.generation:
                await self._database.refresh_generation()
                return False
            await self._round(connection)
        return True

    def _due(self, work: Work) -> bool:
        now = anyio.current_time()
        return (
            work.unpublished
            or (work.unverified and now >= self._verified + self._schedule.verify_s)
            or (work.unrewritten and self._rewrite.due())
            or now >= self._looked_round + LOOK_ROUND_S
        )

    async def _round(self, connection: Connection) -> None:
        while await self._publish(connection):
            pass
        changed = await self._verify(connection)
        await self._tick(connection)
        changed |= await self._rewrite.run(connection)
        look_round = anyio.current_time() >= self._looked_round + LOOK_ROUND_S
        if look_round:
            await self._drop_abandoned_generations(connection)
        if changed or look_round:
            await self._receipts.write(connection)
        if look_round:
            self._looked_round = anyio.current_time()

    async def _publish(self, connection: Connection) -> bool:
        queued = await erasure_outbox.unpublished(connection, BATCH)
        previous = await generations.previous_generation(connection)
        for partition, rows in _by_partition(queued):
            if previous is not None:
                await previous_generation.forget(connection, previous, list({row.session_id for row in rows}))
            failpoint("before-erase")
            await self._log.erase(partition, [(row.offset, row.key) for row in rows])
            failpoint("after-erase")
            await erasure_outbox.mark_published(connection, partition, [row.offset for row in rows])
        return len(queued) == BATCH

    async def _verify(self, connection: Connection) -> bool:
        if anyio.current_time() < self._verified + self._schedule.verify_s:
            return False
        self._verified = anyio.current_time()
        after = (-1, -1)
        changed = False
        while queued := await erasure_outbox.unverified(connection, after, BATCH):
            for partition, rows in _by_partition(queued):
                left = set(await self._log.unerased(partition, [(row.offset, row.key) for row in rows]))
                gone = [row.offset for row in rows if row.key not in left]
                failpoint("before-verified")
                await erasure_outbox.mark_erased(connection, partition, gone)
                changed |= bool(gone)
            after = (queued[-1].partition, queued[-1].offset)
        return changed

    async def _tick(self, connection: Connection) -> None:
        """A segment is compacted only once it is closed, and an idle one closes only on an append."""
        partitions = await erasure_outbox.open_partitions(connection)
        now = anyio.current_time()
        for partition in partitions:
            if now - self._ticked.get(partition, NEVER) >= self._schedule.tick_s:
                await self._log.append_to(partition, new_event(EventType.TICK, "tick", "tick", Tick()))
                self._ticked[partition] = now
        for partition in set(self._ticked) - set(partitions):
            del self._ticked[partition]

    async def _drop_abandoned_generations(self, connection: Connection) -> None:
        """What a killed verify or rebuild left holds content that nobody else would erase."""
        if not await generations.abandoned_generations(connection):
            return
        async with locked(self._database, Lock.MAINTENANCE) as alone:
            if alone is None:
                return
            for generation in await generations.abandoned_generations(alone):
                await generations.drop_generation(self._database.engine, generation)
                _log.info("abandoned_generation_dropped", generation=generation)


def _by_partition(queued: Iterable[Queued]) -> Iterator[tuple[int, list[Queued]]]:
    for partition, rows in groupby(queued, key=lambda row: row.partition):
        yield partition, list(rows)
