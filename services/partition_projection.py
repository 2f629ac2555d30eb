"""One partition's way from the log into the tables: read, decode, load, fold, write, commit, tell.

Each batch is one transaction that first moves the checkpoint on under this projector's fence. Whatever happens in
between, a lost connection, a kill, another projector, either all of the batch is in the tables or nothing of it is.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import anyio
import structlog

from turnlog.domain.errors import RETRIABLE, Bug, Fenced, Misconfigured, TurnlogError
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import Batch
from turnlog.domain.fold.effects import SessionChange
from turnlog.domain.fold.touched import touched
from turnlog.infra.postgres import Database
from turnlog.projections import checkpoints, state_store
from turnlog.projections.checkpoints import Held
from turnlog.services.failpoints import failpoint
from turnlog.services.folding import cannot_be_folded, decoded, folded
from turnlog.services.last_applied import check_last_applied

BATCH_RECORDS = 500
READ_WAIT_MS = 1_000
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 1.0

OnApplied = Callable[[int, int, Sequence[SessionChange]], None]

Gather = Callable[[int], Awaitable[None]]

_log = structlog.get_logger(__name__)


class PartitionProjection:
    """Projects one partition, as long as its fence holds. `on_applied(partition, next offset, changes)` runs after
    each commit; `gather(partition)` is awaited before the next batch, while nobody waits for it.
    """

    def __init__(
        self,
        database: Database,
        log: EventLog,
        held: Held,
        *,
        lease_ms: int,
        on_applied: OnApplied,
        gather: Gather,
    ) -> None:
        self.held = held
        self._checked = False
        self._database = database
        self._log = log
        self._lease_ms = lease_ms
        self._on_applied = on_applied
        self._gather = gather

    async def run(self) -> None:
        """Project until cancelled; return when fenced. A record that can't be folded stops it, without an end.

        Raises Misconfigured if the log isn't the one that these tables were made from.
        """
        pause = FIRST_RETRY_S
        while True:
            before = self.held.next_offset
            try:
                if not self._checked:
                    await check_last_applied(self._database, self._log, self.held)
                    self._checked = True
                self._tell(())
                await self._project()
            except Fenced as error:
                _log.warning("partition_lost", partition=self.held.partition, reason=str(error))
                return
            except Misconfigured:
                raise
            except TurnlogError as error:
                if error.category not in RETRIABLE:
                    raise
                pause = FIRST_RETRY_S if self.held.next_offset > before else min(pause * 2, LAST_RETRY_S)
                _log.warning("projection_retried", partition=self.held.partition, reason=str(error), pause_s=pause)
                await anyio.sleep(pause)
                if not await self._resume():
                    return

    async def _project(self) -> NoReturn:
        while True:
            batch = await self._log.read(
                self.held.partition, self.held.next_offset, limit=BATCH_RECORDS, wait_ms=READ_WAIT_MS
            )
            if batch.next_offset == self.held.next_offset:
                continue
            try:
                await self._apply(batch)
            except Bug:
                if not batch.records:
                    raise
                await self._apply_singly(batch)
            await self._gather(self.held.partition)

    async def _apply_singly(self, batch: Batch) -> None:
        """Something in the batch can't be folded: apply what stands before it, then stop there."""
        ends = [record.position.offset for record in batch.records[1:]]
        for record, end in zip(batch.records, [*ends, batch.next_offset], strict=True):
            try:
                await self._apply(Batch((record,), end))
            except Bug as error:
                await self._stop(cannot_be_folded(record, error))

    async def _apply(self, batch: Batch) -> None:
        ready = await decoded(batch.records)
        wanted = touched(ready)
        valued = [(record.position.offset, record.key.event_id) for record in batch.records if record.event is not None]
        before, after = self.held, self.held.moved(batch.next_offset, valued[-1] if valued else None)
        failpoint("before-load")
        async with self._database.connection() as connection:
            loaded = await state_store.load(connection, before.partition, wanted)
            failpoint("after-load")
            effects = await folded(loaded, ready)
            failpoint("after-fold")
            await state_store.advance_and_write(
                connection, before, after, effects, lease_ms=self._lease_ms, passing=failpoint
            )
            failpoint("after-commit")
            # Before the connection is given back: that takes turns of the loop.
            self.held = after
            self._tell(effects.changes)

    def _tell(self, changes: Sequence[SessionChange]) -> None:
        self._on_applied(self.held.partition, self.held.next_offset, changes)

    async def _resume(self) -> bool:
        """After a lost answer: go on from what is stored, committed or not. False if the partition was taken over."""
        pause = FIRST_RETRY_S
        while True:
            try:
                async with self._database.connection() as connection:
                    stored = await checkpoints.reread(connection, self.held)
            except TurnlogError as error:
                if error.category not in RETRIABLE:
                    raise
                await anyio.sleep(pause)
                pause = min(pause * 2, LAST_RETRY_S)
                continue
            if stored is None:
                _log.warning("partition_lost", partition=self.held.partition, reason="its fence moved")
                return False
            self.held = stored
            return True

    async def _stop(self, cause: str) -> NoReturn:
        """Write the cause down and keep the partition, so that nobody else runs into the same record.

        Raises Fenced if somebody else has it: then what went wrong may be no fault of the record.
        """
        async with self._database.connection() as connection:
            if await checkpoints.reread(connection, self.held) != self.held:
                raise Fenced(f"partition {self.held.partition} has another projector")
        _log.error("partition_stopped", partition=self.held.partition, cause=cause)
        async with self._database.connection() as connection:
            await checkpoints.stop(connection, self.held, cause)
        await anyio.sleep_forever()
        raise AssertionError("unreachable")
