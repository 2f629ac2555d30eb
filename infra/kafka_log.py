"""The event log on a Kafka topic: acks=all, idempotent producers, compaction that only erases, offsets kept by readers.

No transactions and no consumer groups: one event is one record, and whoever reads says from where.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import anyio
import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, TopicAuthorizationFailedError

from turnlog.domain.errors import Misconfigured, OutcomeUnknown, Unavailable
from turnlog.domain.event_log import Appended, check_names
from turnlog.domain.events import NO_KEY, Batch, Event, Record, RecordKey
from turnlog.domain.partitioning import partition_of
from turnlog.domain.positions import Position
from turnlog.infra.cloud_events import decode_record, source_of
from turnlog.infra.kafka_appender import Budget, PartitionAppender, PartitionEnd
from turnlog.infra.kafka_clients import (
    KafkaSettings,
    bootstrap_of,
    bounded,
    close_consumer,
    open_admin,
    open_consumer,
    open_producer,
)
from turnlog.infra.kafka_genesis import GenesisRecords
from turnlog.infra.kafka_producers import Producers
from turnlog.infra.kafka_reader import ConsumerStuckError, Readers
from turnlog.infra.kafka_topic import check_topic, ensure_topic

ON_THEIR_WAY_BYTES = 64 * 1024 * 1024
"""Bytes of events that may wait for Kafka's answer at once."""
ENDS_S = 1.0
"""How often all ends are asked for: bounds how old a `sentafter` can be (kafka_appender.py)."""
TOPIC_CHECK_S = 30.0
OFFSETS_S = 5.0
DRAIN_S = 3.0
"""How long a closing log waits for answers to what is on its way."""
ERASE_AT_ONCE = 500
LOOK_BACK_BYTES = 64 * 1024
LOOK_BACK_RECORDS = 500
LOOK_BACK_MS = 5_000
KEEP_READERS_S = 60.0
"""How long a reader waits for whoever goes on from where it is."""

_log = structlog.get_logger(__name__)


class KafkaLog:
    """The EventLog port on a Kafka topic. Made by `open_kafka_log`."""

    def __init__(
        self,
        settings: KafkaSettings,
        log_id: UUID,
        *,
        producers: Producers,
        offsets: AIOKafkaConsumer,
        ends: Sequence[int],
    ) -> None:
        self.log_id = log_id
        self.partitions = settings.partitions
        self._settings = settings
        self._bootstrap = bootstrap_of(settings)
        self._topic = settings.topic
        self._source = source_of(log_id)
        self._timeout_s = settings.append_timeout_ms / 1000
        self._offsets = offsets
        self._readers = Readers(self._topic, lambda: open_consumer(self._bootstrap))
        self._ends = [PartitionEnd(end) for end in ends]
        self._refused: Misconfigured | None = None
        self._broken: Misconfigured | None = None
        self._found_broken = anyio.Event()
        self._closed = False
        self._producers = producers
        budget = Budget(ON_THEIR_WAY_BYTES)
        self._appenders = [
            PartitionAppender(
                topic=self._topic,
                partition=partition,
                source=self._source,
                producers=producers,
                budget=budget,
                end=self._ends[partition],
                on_broken=self._break,
            )
            for partition in range(self.partitions)
        ]

    async def append(self, event: Event) -> Appended:
        """See EventLog.append."""
        return await self.append_to(partition_of(event.stream, self.partitions), event)

    async def append_to(self, partition: int, event: Event) -> Appended:
        """See EventLog.append_to."""
        self._check_usable()
        check_names(event)
        appender = self._appenders[partition]
        pending = appender.submit(event)
        # A timer, not a cancel scope: those cost a quarter of an append (measured).
        timer = asyncio.get_running_loop().call_later(self._timeout_s, appender.expire, pending)
        try:
            return await pending.answer
        finally:
            timer.cancel()

    async def read(self, partition: int, next_offset: int, *, limit: int, wait_ms: int) -> Batch:
        """See EventLog.read."""
        return await self._read(self._readers, partition, next_offset, limit, wait_ms)

    async def end(self, partition: int) -> int:
        """See EventLog.end."""
        self._check_not_broken()
        tp = TopicPartition(self._topic, partition)
        found = await bounded(self._bootstrap, self._offsets.end_offsets([tp]), OFFSETS_S)
        end: int = found[tp]
        self._ends[partition].note(end)
        return end

    async def erase(self, partition: int, records: Sequence[tuple[int, RecordKey]]) -> None:
        """See EventLog.erase."""
        self._check_usable()
        appender = self._appenders[partition]
        for start in range(0, len(records), ERASE_AT_ONCE):
            waiting = [appender.submit_tombstone(key) for _, key in records[start : start + ERASE_AT_ONCE]]
            try:
                with anyio.fail_after(self._timeout_s):
                    for pending in waiting:
                        await pending.answer
            except TimeoutError:
                raise OutcomeUnknown("Kafka did not answer in time; the records may still get erased") from None
            finally:
                for pending in waiting:
                    pending.answer.cancel()

    async def unerased(self, partition: int, records: Sequence[tuple[int, RecordKey]]) -> Sequence[RecordKey]:
        """See EventLog.unerased."""
        end = await self.end(partition)
        left = sorted((offset, key) for offset, key in records if offset < end)
        found: list[RecordKey] = []
        at = 0
        # Small fetches: what is looked for may lie far apart.
        readers = Readers(self._topic, lambda: open_consumer(self._bootstrap, LOOK_BACK_BYTES))
        try:
            while left:
                at = max(at, left[0][0])
                batch = await self._read(readers, partition, at, LOOK_BACK_RECORDS, LOOK_BACK_MS)
                if batch.next_offset == at:
                    raise Unavailable(f"Kafka at {self._bootstrap} gives nothing back from {partition}-{at}")
                holding = {record.position.offset for record in batch.records if record.event or record.undecodable}
                at = batch.next_offset
                found += [key for offset, key in left if offset < at and offset in holding]
                left = [item for item in left if item[0] >= at]
        finally:
            await readers.close()
        return found

    async def run(self) -> None:
        """Append, and keep watching the topic, until cancelled or broken."""
        async with anyio.create_task_group() as tasks:
            for appender in self._appenders:
                tasks.start_soon(appender.run)
            tasks.start_soon(self._watch_ends)
            tasks.start_soon(self._watch_topic)
            await self._found_broken.wait()
            tasks.cancel_scope.cancel()
        # Clients of a topic that is gone ask for it without a pause.
        await self._producers.close()
        await self._readers.close()

    async def close(self) -> None:
        """Take nothing more, and give what is on its way a little time."""
        self._closed = True
        if self._broken is None:
            with anyio.move_on_after(DRAIN_S, shield=True):
                for appender in self._appenders:
                    await appender.drained()
        await self._readers.close()

    async def _read(self, readers: Readers, partition: int, next_offset: int, limit: int, wait_ms: int) -> Batch:
        self._check_not_broken()
        deadline = anyio.current_time() + wait_ms / 1000
        while True:
            left_ms = max(0, round((deadline - anyio.current_time()) * 1000))
            try:
                async with readers.lease(partition, next_offset) as reader:
                    messages = await reader.fetch(limit, left_ms)
                    self._ends[partition].note(reader.highwater)
                    records = tuple(decode_record(message, self.partitions, self._source) for message in messages)
                    return Batch(records, reader.position)
            except ConsumerStuckError as error:
                await self.end(partition)  # raises if it is Kafka that doesn't answer
                _log.warning("consumer_replaced", partition=partition, reason=str(error))
            except OffsetOutOfRangeError:
                raise await self._outside(partition, next_offset) from None
            except TopicAuthorizationFailedError as error:
                raise Misconfigured(f"topic {self._topic!r} may not be read with these credentials") from error
            except KafkaError as error:
                raise Unavailable(f"partition {partition} can't be read at {next_offset}: {error!r}") from error
            except UnicodeDecodeError:
                # The client decodes header names itself, and breaks off in the middle of what it fetched.
                if limit == 1:
                    cause = "the name of a header isn't UTF-8"
                    position = Position(partition, next_offset)
                    return Batch((Record(position, 0, NO_KEY, None, undecodable=cause),), next_offset + 1)
                limit = 1

    async def _outside(self, partition: int, offset: int) -> Misconfigured:
        end = await self.end(partition)
        return Misconfigured(
            f"offset {offset} of partition {partition} is outside the log in topic {self._topic!r}, which ends at "
            f"{end}: was it truncated or recreated? Restore the former log, or use an empty database"
        )

    async def _watch_ends(self) -> None:
        """Keep the ends of all partitions no older than about a second."""
        while True:
            await anyio.sleep(ENDS_S)
            await self._readers.close_unused(KEEP_READERS_S)
            wanted = [TopicPartition(self._topic, partition) for partition in range(self.partitions)]
            before = [end.seen for end in self._ends]
            try:
                found = await bounded(self._bootstrap, self._offsets.end_offsets(wanted), OFFSETS_S)
                if any(end < before[tp.partition] for tp, end in found.items()):
                    await self._check_same_log()  # after a change of leader ends may lag for a moment
            except Unavailable:
                continue
            for tp, end in found.items():
                self._ends[tp.partition].note(end)

    async def _watch_topic(self) -> None:
        """Refuse work while the topic breaks its contract, and for good once it is another log."""
        while True:
            await anyio.sleep(TOPIC_CHECK_S)
            try:
                async with open_admin(self._bootstrap) as admin:
                    if not await check_topic(admin, self._settings):
                        self._break(Misconfigured(f"topic {self._topic!r} is gone from {self._bootstrap}"))
                await self._check_same_log()
                self._refused = None
            except Misconfigured as error:
                if self._refused is None:
                    _log.error("topic_refused", reason=str(error))
                self._refused = error
            except Unavailable as error:
                _log.warning("topic_unchecked", reason=str(error))

    async def _check_same_log(self) -> None:
        try:
            heads = await GenesisRecords(self._bootstrap, self._topic, self.partitions).read([0])
        except Misconfigured as error:
            self._break(error)
            return
        if heads.get(0) != self.log_id:
            found = f"holds log {heads[0]}" if 0 in heads else "is empty"
            self._break(
                Misconfigured(
                    f"another log: this is log {self.log_id}, topic {self._topic!r} now {found}. Was it recreated? "
                    "Stop turnlog and restore the former log"
                )
            )

    def _break(self, error: Misconfigured) -> None:
        if self._broken is None:
            _log.error("log_broken", reason=str(error))
            self._broken = error
            self._found_broken.set()

    def _check_not_broken(self) -> None:
        if self._broken is not None:
            raise Misconfigured(str(self._broken))

    def _check_usable(self) -> None:
        self._check_not_broken()
        if self._refused is not None:
            raise Misconfigured(str(self._refused))
        if self._closed:
            raise Unavailable("the log is closing; nothing is stored")


@asynccontextmanager
async def open_kafka_log(settings: KafkaSettings, known_log_id: UUID | None) -> AsyncIterator[KafkaLog]:
    """The log in the settings' topic, running until the context ends; a missing topic is created.

    `known_log_id` is the log that the tables were made from, if they are in use. Raises Misconfigured if the topic
    breaks its contract or is another log, Unavailable if Kafka doesn't answer.
    """
    bootstrap = bootstrap_of(settings)
    await ensure_topic(settings, known_log_id)
    producer = await open_producer(bootstrap)
    producers = Producers(bootstrap, producer)
    failure: Exception | None = None
    try:
        log_id = await GenesisRecords(bootstrap, settings.topic, settings.partitions).ensure(producer, known_log_id)
        offsets = await open_consumer(bootstrap)
        try:
            wanted = [TopicPartition(settings.topic, partition) for partition in range(settings.partitions)]
            found = await bounded(bootstrap, offsets.end_offsets(wanted))
            log = KafkaLog(settings, log_id, producers=producers, offsets=offsets, ends=[found[tp] for tp in wanted])
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(log.run)
                try:
                    yield log
                except Exception as error:  # noqa: BLE001 - raised below, outside the task group, which would wrap it
                    failure = error
                finally:
                    await log.close()
                    tasks.cancel_scope.cancel()
        finally:
            await close_consumer(offsets)
    finally:
        await producers.close()
    if failure is not None:
        raise failure
