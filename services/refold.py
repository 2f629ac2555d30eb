"""Folds the log from zero into the tables of another generation: what `verify` compares with and `rebuild` flips to.

The ledgers are left alone: they are carried over (fold.md, "The law").
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from turnlog.domain.errors import Bug, Unavailable, Unfoldable
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import Record
from turnlog.domain.fold.touched import touched
from turnlog.infra.postgres import Database
from turnlog.projections import state_store
from turnlog.services.failpoints import failpoint
from turnlog.services.folding import cannot_be_folded, decoded, folded
from turnlog.services.progress import Progress

BATCH_RECORDS = 2_000
READ_WAIT_MS = 5_000
LOOKS = 3
"""How often the log may give nothing back before it counts as out of reach."""


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

    def behind(self, ends: Mapping[int, int]) -> int:
        """How many offsets are missing to these ends (partition → offset)."""
        return sum(max(0, end - self.next_offsets[partition]) for partition, end in ends.items())

    async def run_to(self, ends: Mapping[int, int], show: Progress) -> None:
        """Fold every partition up to, not including, its end offset. Raises Unfoldable, Unavailable."""
        for partition, end in ends.items():
            looks = 0
            while self.next_offsets[partition] < end:
                before = self.next_offsets[partition]
                await self._step(partition, end)
                looks = 0 if self.next_offsets[partition] > before else looks + 1
                if looks == LOOKS:
                    raise Unavailable(f"the log gives nothing back from partition {partition} at offset {before}")
                show(self.done)

    async def _step(self, partition: int, end: int) -> None:
        start = self.next_offsets[partition]
        batch = await self._log.read(partition, start, limit=min(BATCH_RECORDS, end - start), wait_ms=READ_WAIT_MS)
        records = [record for record in batch.records if record.position.offset < end]
        if records:
            await self._fold(partition, records)
        for record in records:
            if record.event is not None:
                self.last_applied[partition] = (record.position.offset, record.key.event_id)
        self.next_offsets[partition] = min(batch.next_offset, end)
        failpoint("after-refold")

    async def _fold(self, partition: int, records: Sequence[Record]) -> None:
        try:
            await self._fold_together(partition, records)
        except Bug:
            for record in records:
                try:
                    await self._fold_together(partition, [record])
                except Bug as error:
                    raise Unfoldable(cannot_be_folded(record, error)) from error
            raise

    async def _fold_together(self, partition: int, records: Sequence[Record]) -> None:
        ready = await decoded(records)
        # Not durable: whatever makes these tables live commits for good, and with it everything before it.
        async with (
            self._database.connection(generation=self._generation) as connection,
            state_store.transaction(connection, durable=False),
        ):
            loaded = await state_store.load(connection, partition, touched(ready))
            effects = await folded(loaded, ready)
            await state_store.apply(connection, partition, effects, ledgers=False)
