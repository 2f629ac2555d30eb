"""Works off the erasure outbox: asks the log to erase, keeps idle partitions moving, verifies, writes receipts.

Everything here may run twice or in several processes at once: tombstones, nulling and receipts are idempotent. Until
something is seen to be gone it stays open (architecture, "Erasure": 48 h at most).
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby

import anyio
import structlog
from anyio.abc import TaskStatus

from turnlog.domain.errors import Unavailable
from turnlog.domain.event_data import ErasureCompleted, Tick
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import EventType
from turnlog.infra.postgres import Database
from turnlog.projections import erasure_outbox, erasures, storage
from turnlog.projections.erasure_outbox import Queued
from turnlog.projections.erasures import Finished
from turnlog.services.event_factory import new_event
from turnlog.services.erasure_schedule import ErasureSchedule

BATCH = 500
RETRY_S = 2.0
FIRST_RECORD_WAIT_MS = 5_000

_log = structlog.get_logger(__name__)


class Eraser:
    """Erases what the projector put into the outbox. `schedule` holds its intervals."""

    def __init__(self, database: Database, log: EventLog, schedule: ErasureSchedule) -> None:
        self._database = database
        self._log = log
        self._schedule = schedule
        self._ticked: dict[int, float] = {}
        self._rewrite_due = False
        self._rewritten = -float("inf")

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Work the outbox off until cancelled; a lost database or log is waited for."""
        task_status.started()
        while True:
            try:
                await self.work_once()
            except Unavailable as error:
                _log.warning("erasure_delayed", reason=str(error))
                await anyio.sleep(RETRY_S)
            await anyio.sleep(self._schedule.interval_s)

    async def work_once(self) -> None:
        """One round: publish, tick, verify, receipts, rewrite."""
        while await self._publish():
            pass
        await self._tick()
        await self._verify()
        await self._write_receipts()
        await self._rewrite()

    async def _publish(self) -> bool:
        async with self._database.connection() as connection:
            queued = await erasure_outbox.unpublished(connection, BATCH)
        for partition, rows in _by_partition(queued):
            await self._log.erase(partition, [(row.offset, row.key) for row in rows])
            async with self._database.connection() as connection:
                await erasure_outbox.mark_published(connection, partition, [row.offset for row in rows])
        return len(queued) == BATCH

    async def _tick(self) -> None:
        """A segment is compacted only once it is closed, and an idle one closes only on an append."""
        async with self._database.connection() as connection:
            partitions = await erasure_outbox.open_partitions(connection)
        now = anyio.current_time()
        for partition in partitions:
            if now - self._ticked.get(partition, -float("inf")) < self._schedule.tick_s:
                continue
            await self._log.append_to(partition, new_event(EventType.TICK, "tick", "tick", Tick()))
            self._ticked[partition] = now
        for partition in set(self._ticked) - set(partitions):
            del self._ticked[partition]

    async def _verify(self) -> None:
        async with self._database.connection() as connection:
            queued = await erasure_outbox.unverified(connection, BATCH, self._schedule.verify_after_ms)
        for partition, rows in _by_partition(queued):
            left = set(await self._log.unerased(partition, [(row.offset, row.key) for row in rows]))
            gone = [row.offset for row in rows if row.key not in left]
            if gone:
                async with self._database.connection() as connection:
                    await erasure_outbox.mark_erased(connection, partition, gone)
                self._rewrite_due = True

    async def _write_receipts(self) -> None:
        async with self._database.connection() as connection:
            finished = await erasures.without_receipt(connection, BATCH)
        for erasure in finished:
            await self._write_receipt(erasure)

    async def _write_receipt(self, erasure: Finished) -> None:
        batch = await self._log.read(
            erasure.partition, erasure.last_delete, limit=1, wait_ms=FIRST_RECORD_WAIT_MS
        )
        if not batch.records or batch.records[0].event is None:
            raise Unavailable(f"the delete at {erasure.partition}-{erasure.last_delete} can't be read back")
        session_key = batch.records[0].event.subject
        data = ErasureCompleted(
            session_hash=hashlib.sha256(session_key.encode()).hexdigest(),
            counts={"log": erasure.records},
            positions=[str(batch.records[0].position)],
        )
        receipt = new_event(EventType.ERASURE_COMPLETED, batch.records[0].event.stream, f"erasure:{data.session_hash}", data)
        await self._log.append(receipt)
        async with self._database.connection() as connection:
            await erasures.record(connection, erasure)

    async def _rewrite(self) -> None:
        """Dead row versions keep their bytes until their table is rewritten."""
        now = anyio.current_time()
        if not self._rewrite_due or now - self._rewritten < self._schedule.rewrite_s:
            return
        async with self._database.connection() as connection:
            await storage.rewrite(connection, lock_timeout_ms=self._schedule.lock_timeout_ms)
        self._rewritten = now
        self._rewrite_due = False


def _by_partition(queued: Iterable[Queued]) -> Iterator[tuple[int, list[Queued]]]:
    for partition, rows in groupby(queued, key=lambda row: row.partition):
        yield partition, list(rows)
