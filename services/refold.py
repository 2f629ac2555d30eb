"""Folds the log from zero into the tables of another generation: what `verify` compares with and `rebuild` flips to.

The ledgers are left alone: they are carried over (fold.md, "The law").
"""

from collections.abc import Sequence
from uuid import UUID

from turnlog.domain.errors import Unavailable
from turnlog.domain.event_log import EventLog
from turnlog.domain.fold import fold
from turnlog.domain.fold_decode import decode
from turnlog.domain.fold_touched import touched
from turnlog.infra.postgres import Database
from turnlog.projections import state_store
from turnlog.services.progress import Progress

BATCH_RECORDS = 500
READ_WAIT_MS = 5_000


class Refold:
    """A fold from zero into `generation`, which must exist and be empty."""

    def __init__(self, database: Database, log: EventLog, generation: int) -> None:
        self._database = database
        self._log = log
        self._generation = generation
        self.next_offsets = [0] * log.partitions
        self.last_applied: list[tuple[int, UUID] | None] = [None] * log.partitions

    @property
    def done(self) -> int:
        """Offsets passed so far, over all partitions."""
        return sum(self.next_offsets)

    async def run_to(self, ends: Sequence[int], show: Progress) -> None:
        """Fold every partition up to, not including, its end offset. Raises Unfoldable, Unavailable."""
        for partition, end in enumerate(ends):
            while self.next_offsets[partition] < end:
                await self._step(partition, end)
                show(self.done)

    async def _step(self, partition: int, end: int) -> None:
        start = self.next_offsets[partition]
        batch = await self._log.read(partition, start, limit=min(BATCH_RECORDS, end - start), wait_ms=READ_WAIT_MS)
        if batch.next_offset == start:
            raise Unavailable(f"the log gives nothing back from partition {partition} at offset {start}")
        records = [record for record in batch.records if record.position.offset < end]
        decoded = [ready for record in records if (ready := decode(record)) is not None]
        wanted = touched(decoded)
        async with self._database.connection(generation=self._generation) as connection:
            async with state_store.transaction(connection):
                loaded = await state_store.load(connection, partition, wanted)
                await state_store.apply(connection, partition, fold(loaded, decoded), ledgers=False)
        for record in records:
            if record.event is not None:
                self.last_applied[partition] = (record.position.offset, record.key.event_id)
        self.next_offsets[partition] = min(batch.next_offset, end)
