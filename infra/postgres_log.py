"""The event log in Postgres: one partition, micro-batches, any number of appending processes.

One writer task per process takes whatever is queued and appends it as one transaction; while that commits, the next
batch gathers. There is no linger time: the commit is the window.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskStatus

from turnlog.domain.errors import Misconfigured, OutcomeUnknown, TooLarge, TurnlogError, Unavailable
from turnlog.domain.event_data import Genesis
from turnlog.domain.event_json import decode_data, encode_data
from turnlog.domain.event_log import Appended, check_names
from turnlog.domain.events import MAX_RECORD_BYTES, Batch, Event, EventType, Record, RecordKey
from turnlog.domain.positions import Position
from turnlog.infra import event_log_rows as rows

MAX_BATCH_EVENTS = 512
MAX_BATCH_BYTES = 4 * 1024 * 1024
TAIL_RECORDS = 2048
TAIL_BYTES = 4 * 1024 * 1024
EXPIRY_CHECK_S = 0.1
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 1.0
POLL_FIRST_S = 0.01
POLL_LAST_S = 0.1

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Connections(Protocol):
    """Where the log gets its connections from; errors of the driver come out as errors of the tree."""

    def connection(self) -> AbstractAsyncContextManager[rows.Connection]:
        """One connection for one task."""
        ...

    async def read(self, query: Callable[[rows.Connection], Awaitable[T]]) -> T:
        """What an idempotent query finds, also if the first connection for it turns out to be gone."""
        ...


@dataclass(slots=True, eq=False)
class _Pending:
    event: Event
    answer: asyncio.Future[Position]
    deadline: float


@dataclass(slots=True)
class _Tail:
    """The newest records that this process itself appended, contiguous: what the local projector reads next."""

    records: deque[Record] = field(default_factory=deque)
    size: int = 0

    def extend(self, events: Sequence[Event], base: int, appended_ms: int) -> None:
        if self.records and self.records[-1].position.offset + 1 != base:
            self.clear()
        for index, event in enumerate(events):
            self.records.append(Record(Position(0, base + index), appended_ms, event.key, event))
            self.size += len(event.data)
        while len(self.records) > TAIL_RECORDS or self.size > TAIL_BYTES:
            dropped = self.records.popleft()
            self.size -= len(dropped.event.data) if dropped.event is not None else 0

    def clear(self) -> None:
        self.records.clear()
        self.size = 0

    def since(self, offset: int, limit: int) -> tuple[Record, ...]:
        if not self.records or offset < self.records[0].position.offset:
            return ()
        skip = offset - self.records[0].position.offset
        return tuple(self.records[index] for index in range(skip, min(skip + limit, len(self.records))))


class PostgresLog:
    """The EventLog port on the `turnlog.event_log` table. `run` must be running for appends to be answered."""

    partitions = 1

    def __init__(
        self, database: Connections, log_id: UUID, *, append_timeout_ms: int = 10_000, queue_limit: int = 10_000
    ) -> None:
        self.log_id = log_id
        self._database = database
        self._timeout_s = append_timeout_ms / 1000
        self._queue: deque[_Pending] = deque()
        self._queue_limit = queue_limit
        self._sent: list[_Pending] = []
        self._arrived = asyncio.Event()
        self._appended = asyncio.Event()
        self._tail = _Tail()
        self._known_end = 0
        self._closed = False

    async def append(self, event: Event) -> Appended:
        """See EventLog.append."""
        _check(event)
        if self._closed or len(self._queue) >= self._queue_limit:
            raise Unavailable("the log takes no more events right now")
        loop = asyncio.get_running_loop()
        pending = _Pending(event, loop.create_future(), loop.time() + self._timeout_s)
        self._queue.append(pending)
        self._arrived.set()
        return Appended(await pending.answer)

    async def append_to(self, partition: int, event: Event) -> Appended:
        """See EventLog.append_to."""
        return await self.append(event)

    async def read(self, partition: int, next_offset: int, *, limit: int, wait_ms: int) -> Batch:
        """See EventLog.read."""
        deadline = anyio.current_time() + wait_ms / 1000
        pause = POLL_FIRST_S
        while True:
            self._appended.clear()
            records = self._tail.since(next_offset, limit)
            if not records:
                async with self._database.connection() as connection:
                    records = tuple(await rows.read(connection, next_offset, limit))
            if records:
                return Batch(records, records[-1].position.offset + 1)
            left = deadline - anyio.current_time()
            if left <= 0:
                end = await self.end(partition)
                if next_offset > end:
                    raise Misconfigured(
                        f"offset {next_offset} is outside the Postgres event log, which ends at {end}: was it restored "
                        "from an older backup than the tables?"
                    )
                return Batch((), next_offset)
            with anyio.move_on_after(min(pause, left)):
                await self._appended.wait()
            pause = min(pause * 2, POLL_LAST_S)

    async def end(self, partition: int) -> int:
        """See EventLog.end."""
        return await self._database.read(rows.end)

    async def erase(self, partition: int, records: Sequence[tuple[int, RecordKey]]) -> None:
        """See EventLog.erase."""
        self._tail.clear()
        async with self._database.connection() as connection:
            await rows.erase(connection, [offset for offset, _ in records])

    async def unerased(self, partition: int, records: Sequence[tuple[int, RecordKey]]) -> Sequence[RecordKey]:
        """See EventLog.unerased."""
        async with self._database.connection() as connection:
            return await rows.unerased(connection, [offset for offset, _ in records])

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Append what callers queue, until cancelled; then refuse what was never sent."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._expire)
                task_status.started()
                while True:
                    await self._arrived.wait()
                    self._arrived.clear()
                    while self._queue:
                        self._sent = self._take()
                        await self._write(self._sent)
        finally:
            self._closed = True
            for pending in self._queue:
                _answer(pending, Unavailable("the log is closing; nothing is stored"))
            self._queue.clear()

    async def _expire(self) -> None:
        """Answer callers whose deadline has passed; one look for all of them costs less than a timer for each."""
        while True:
            await anyio.sleep(EXPIRY_CHECK_S)
            now = asyncio.get_running_loop().time()
            while self._queue and self._queue[0].deadline <= now:
                _answer(self._queue.popleft(), Unavailable("the log did not take the event in time; nothing is stored"))
            for pending in self._sent:
                if pending.deadline <= now:
                    _answer(pending, OutcomeUnknown("the log did not answer in time; the event may still be stored"))

    def _take(self) -> list[_Pending]:
        batch: list[_Pending] = []
        size = 0
        while self._queue and len(batch) < MAX_BATCH_EVENTS:
            size += len(self._queue[0].event.data)
            if batch and size > MAX_BATCH_BYTES:
                break
            batch.append(self._queue.popleft())
        return batch

    async def _write(self, batch: list[_Pending]) -> None:
        stored = False
        try:
            async with self._database.connection() as connection:
                base, appended_ms = await rows.append(connection, [pending.event for pending in batch])
                # Before the connection is given back: that takes turns of the loop.
                stored = True
                self._stored(batch, base, appended_ms)
        except Unavailable:
            if not stored:
                await self._resolve(batch)
        except TurnlogError as error:
            if stored:
                raise
            await self._isolate(batch, error)
        except asyncio.CancelledError:
            for pending in batch:
                _answer(pending, OutcomeUnknown("the log is closing; the event may be stored"))
            raise

    def _stored(self, batch: list[_Pending], base: int, appended_ms: int) -> None:
        self._tail.extend([pending.event for pending in batch], base, appended_ms)
        self._known_end = base + len(batch)
        for index, pending in enumerate(batch):
            if not pending.answer.done():
                pending.answer.set_result(Position(0, base + index))
        self._appended.set()

    async def _resolve(self, batch: list[_Pending]) -> None:
        """The answer got lost: find out what is stored, append the rest, for as long as it takes."""
        pause = FIRST_RETRY_S
        events = [pending.event for pending in batch]
        while True:
            try:
                async with self._database.connection() as connection:
                    placed = await rows.append_missing(connection, events, self._known_end)
                break
            except Unavailable as error:
                _log.warning("append_retried", events=len(events), reason=str(error))
                await anyio.sleep(pause)
                pause = min(pause * 2, LAST_RETRY_S)
            except asyncio.CancelledError:
                for pending in batch:
                    _answer(pending, OutcomeUnknown("the log is closing; the event may be stored"))
                raise
        self._tail.clear()
        for pending in batch:
            offset = placed[pending.event.key].base
            self._known_end = max(self._known_end, offset + 1)
            if not pending.answer.done():
                pending.answer.set_result(Position(0, offset))
        self._appended.set()

    async def _isolate(self, batch: list[_Pending], error: TurnlogError) -> None:
        """One event the database refuses must not fail its neighbours: halve until it stands alone."""
        if len(batch) == 1:
            _answer(batch[0], error)
            return
        middle = len(batch) // 2
        await self._write(batch[:middle])
        await self._write(batch[middle:])


async def ensure_genesis(database: Connections, log_id: UUID, time_ms: int) -> UUID:
    """Make the first record if there is none; return the log id that the first record carries.

    Raises Misconfigured if the first record isn't a genesis record.
    """
    async with database.connection() as connection, connection.transaction():
        if await rows.lock_head(connection) == 0:
            data = encode_data(Genesis(log_id=str(log_id), partition=0, partitions=1))
            genesis = Event(log_id, EventType.GENESIS.wire_name, "genesis", "genesis", time_ms, data)
            await rows.append(connection, [genesis])
        first = (await rows.read(connection, 0, 1))[0]
    found = decode_data(first.event) if first.event is not None else None
    if not isinstance(found, Genesis):
        raise Misconfigured("the first record of the Postgres event log is not a genesis record")
    return UUID(found.log_id)


def _check(event: Event) -> None:
    if len(event.data) > MAX_RECORD_BYTES:
        raise TooLarge(f"an event may hold at most {MAX_RECORD_BYTES} bytes")
    check_names(event)


def _answer(pending: _Pending, error: TurnlogError) -> None:
    if not pending.answer.done():
        pending.answer.set_exception(error)
