"""An event log in memory with several partitions: a test double for what needs more than one, leases above all.

It keeps the port's promises (tests/contract runs on it too) except durability. A test may reach into `records` to play
compaction, erasure or another log.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID, uuid4

import anyio
import anyio.lowlevel

from turnlog.domain.errors import Misconfigured, Unavailable
from turnlog.domain.event_data import Genesis
from turnlog.domain.event_json import encode_data
from turnlog.domain.event_log import Appended
from turnlog.domain.events import Batch, Event, EventType, Record, RecordKey
from turnlog.domain.partitioning import partition_of
from turnlog.domain.positions import Position

FIRST_APPEND_MS = 1_700_000_000_000


class MemoryLog:
    """The EventLog port on lists. `reachable` set to False makes every call raise Unavailable,
    and counts them.
    """

    def __init__(self, partitions: int = 1) -> None:
        self.log_id = uuid4()
        self.partitions = partitions
        self.records: list[list[Record]] = [[] for _ in range(partitions)]
        self.reachable = True
        self.refusals = 0
        self._ends = [0] * partitions
        self._appended_ms = FIRST_APPEND_MS
        self._appended = anyio.Event()
        for partition in range(partitions):
            data = encode_data(Genesis(log_id=str(self.log_id), partition=partition, partitions=partitions))
            self._put(partition, Event(uuid4(), EventType.GENESIS.wire_name, "genesis", "genesis", 0, data))

    async def append(self, event: Event) -> Appended:
        """See EventLog.append."""
        return await self.append_to(partition_of(event.stream, self.partitions), event)

    async def append_to(self, partition: int, event: Event) -> Appended:
        """See EventLog.append_to."""
        await self._reach()
        return Appended(self._put(partition, event))

    async def read(self, partition: int, next_offset: int, *, limit: int, wait_ms: int) -> Batch:
        """See EventLog.read."""
        await self._reach()
        if next_offset > self._ends[partition]:
            raise Misconfigured(f"offset {next_offset} is outside the log")
        with anyio.move_on_after(wait_ms / 1000):
            while next_offset == self._ends[partition]:
                await self._appended.wait()
        await self._reach()
        found = self.records[partition]
        start = bisect_left(found, next_offset, key=lambda record: record.position.offset)
        page = tuple(found[start : start + limit])
        more = start + limit < len(found)
        return Batch(page, page[-1].position.offset + 1 if more else self._ends[partition])

    async def end(self, partition: int) -> int:
        """See EventLog.end."""
        await self._reach()
        return self._ends[partition]

    async def erase(self, partition: int, records: Sequence[tuple[int, RecordKey]]) -> None:
        """See EventLog.erase."""
        await self._reach()
        keys = {key for _, key in records}
        self.records[partition] = [
            replace(record, event=None) if record.key in keys else record for record in self.records[partition]
        ]

    async def unerased(self, partition: int, records: Sequence[tuple[int, RecordKey]]) -> Sequence[RecordKey]:
        """See EventLog.unerased."""
        await self._reach()
        keys = {key for _, key in records}
        return [record.key for record in self.records[partition] if record.event is not None and record.key in keys]

    def remove(self, partition: int, *offsets: int) -> None:
        """Compaction removed these records."""
        self.records[partition] = [r for r in self.records[partition] if r.position.offset not in offsets]

    def event_id(self, partition: int, offset: int) -> UUID:
        """The id of the event whose record is at this offset."""
        return next(r.key.event_id for r in self.records[partition] if r.position.offset == offset)

    async def _reach(self) -> None:
        await anyio.lowlevel.checkpoint()
        if not self.reachable:
            self.refusals += 1
            raise Unavailable("the log is out of reach")

    def _put(self, partition: int, event: Event) -> Position:
        position = Position(partition, self._ends[partition])
        self._appended_ms += 1
        self.records[partition].append(Record(position, self._appended_ms, event.key, event))
        self._ends[partition] += 1
        self._appended.set()
        self._appended = anyio.Event()
        return position
