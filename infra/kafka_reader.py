"""Reading one partition: positions that move over compacted ranges, and a watch for consumers that got stuck.

A reader is one consumer with one partition, so that a slow or far-off reader never disturbs another one. Callers say
where to read each time; a reader whose position isn't there is moved or replaced, so nothing depends on its memory.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from aiokafka import AIOKafkaConsumer, TopicPartition

from turnlog.domain.errors import Unavailable
from turnlog.infra.cloud_events import Message
from turnlog.infra.event_ids import now_ms
from turnlog.infra.kafka_clients import close_consumer

LOOK_MS = 250
"""The longest single wait for records; between two, an emptied tail and a stuck consumer are noticed."""
STUCK_MS = 10_000
IDLE_READERS = 2


class ConsumerStuckError(Unavailable):
    """The consumer got no answer from the broker for `STUCK_MS`."""


class PartitionReader:
    """One consumer on one partition, positioned at `position`: the offset of the next record it will return."""

    def __init__(self, consumer: AIOKafkaConsumer, topic: str, partition: int, position: int) -> None:
        self.position = position
        self.highwater = 0
        self._consumer = consumer
        self._tp = TopicPartition(topic, partition)
        self._seen_empty: tuple[int, int] | None = None
        self._moved_ms = now_ms()
        self.unused_since = 0.0
        consumer.assign([self._tp])
        consumer.seek(self._tp, position)

    def seek(self, position: int) -> None:
        """Go on somewhere else."""
        self._consumer.seek(self._tp, position)
        self.position = position
        self._seen_empty = None
        self._moved_ms = now_ms()

    async def fetch(self, limit: int, wait_ms: int) -> list[Message]:
        """Up to `limit` records, waiting at most `wait_ms` for the first; `position` moves past them, and over gaps.

        Raises the client's errors, and ConsumerStuckError if the broker stopped answering.
        """
        deadline = anyio.current_time() + wait_ms / 1000
        while True:
            left_ms = max(0, round((deadline - anyio.current_time()) * 1000))
            # One call at least that gives the broker a chance to answer.
            messages = await self._look(limit, max(1, min(left_ms, LOOK_MS)))
            before, self.position = self.position, await self._consumer.position(self._tp)
            self.highwater = self._consumer.highwater(self._tp) or 0
            if messages:
                return messages
            if self.position == before:
                self._step_over_emptied_tail()
            if self.position != before or left_ms == 0:
                return []
            self._check_alive()

    async def close(self) -> None:
        """Close the consumer."""
        await close_consumer(self._consumer)

    async def _look(self, limit: int, wait_ms: int) -> list[Message]:
        found = await self._consumer.getmany(self._tp, timeout_ms=wait_ms, max_records=limit)
        messages: list[Message] = found.get(self._tp, [])
        return messages

    def _step_over_emptied_tail(self) -> None:
        """Where everything up to the end is compacted away, fetches return nothing and the client stays where it is.

        The broker takes the end before it reads, so an answer without records means there are none up to that end. The
        first such answer may have been overtaken by a seek; only a later one at the same position counts.
        """
        answered_ms = self._consumer.last_poll_timestamp(self._tp)
        if answered_ms is None or self.highwater <= self.position:
            self._seen_empty = None
            return
        seen = self._seen_empty
        if seen is not None and seen[0] == self.position and answered_ms > seen[1]:
            self.seek(self.highwater)
        elif seen is None or seen[0] != self.position:
            self._seen_empty = (self.position, answered_ms)

    def _check_alive(self) -> None:
        answered_ms = self._consumer.last_poll_timestamp(self._tp) or 0
        if now_ms() - max(answered_ms, self._moved_ms) > STUCK_MS:
            raise ConsumerStuckError(f"no answer to fetches from partition {self._tp.partition} for {STUCK_MS} ms")


class Readers:
    """The readers of one topic. Several may read one partition at once; a few wait for whoever goes on from there."""

    def __init__(self, topic: str, open_consumer: Callable[[], Awaitable[AIOKafkaConsumer]]) -> None:
        self._topic = topic
        self._open = open_consumer
        self._idle: dict[int, list[PartitionReader]] = {}
        self._closed = False

    @asynccontextmanager
    async def lease(self, partition: int, position: int) -> AsyncIterator[PartitionReader]:
        """A reader at `position`, for one task. After an error it is thrown away, for its position may have moved."""
        reader = await self._take(partition, position)
        try:
            yield reader
        except anyio.get_cancelled_exc_class():
            await self._give_back(partition, reader)
            raise
        except BaseException:
            await reader.close()
            raise
        await self._give_back(partition, reader)

    async def close(self) -> None:
        """Close all readers that nobody uses, and the others as they come back."""
        self._closed = True
        for readers in self._idle.values():
            while readers:
                await readers.pop().close()

    async def close_unused(self, seconds: float) -> None:
        """Close readers that nobody used for this long."""
        before = anyio.current_time() - seconds
        for readers in self._idle.values():
            while readers and readers[0].unused_since < before:
                await readers.pop(0).close()

    async def _take(self, partition: int, position: int) -> PartitionReader:
        idle = self._idle.setdefault(partition, [])
        for reader in idle:
            if reader.position == position:
                idle.remove(reader)
                return reader
        if len(idle) >= IDLE_READERS:
            reader = idle.pop(0)
            reader.seek(position)
            return reader
        return PartitionReader(await self._open(), self._topic, partition, position)

    async def _give_back(self, partition: int, reader: PartitionReader) -> None:
        if self._closed:
            await reader.close()
            return
        reader.unused_since = anyio.current_time()
        idle = self._idle.setdefault(partition, [])
        idle.append(reader)
        if len(idle) > IDLE_READERS:
            await idle.pop(0).close()
