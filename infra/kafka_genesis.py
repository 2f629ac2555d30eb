"""The log id of a topic: read from the genesis record at the head of every partition, written where it is missing.

Whatever genesis record stands at offset 0 of partition 0 decides. So two processes that start at once, on one database
or on two, end with one log id, and a start that died half-way is completed by the next one.
"""

from collections.abc import Sequence
from uuid import UUID, uuid4

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from turnlog.domain.errors import Misconfigured, Unfoldable
from turnlog.domain.event_data import Genesis
from turnlog.domain.event_json import decode_data, encode_data
from turnlog.domain.events import Event, EventType
from turnlog.infra.cloud_events import Message, decode_record, encode_headers, encode_key, source_of
from turnlog.infra.event_ids import new_event_id, now_ms
from turnlog.infra.kafka_clients import bounded, close_consumer, open_consumer

HEAD_BYTES = 64 * 1024
READ_S = 15.0


class GenesisRecords:
    """The heads of all partitions of `topic`, as one start looks at them."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions

    async def ensure(self, producer: AIOKafkaProducer, known: UUID | None) -> UUID:
        """The log id of the topic. `known` is the one that the tables were made from, if they are in use.

        Raises Misconfigured if the topic is another log or none, Unavailable if Kafka doesn't answer.
        """
        heads = await self.read(range(self._partitions))
        if known is not None and 0 not in heads:
            raise Misconfigured(
                f"another log: these tables belong to log {known}, topic {self._topic!r} at {self._bootstrap} is "
                "empty. Was it recreated? Use the former topic, or an empty database"
            )
        if 0 not in heads:
            await self._write(producer, 0, uuid4())
            heads |= await self.read([0])
        log_id = heads[0]
        missing = [partition for partition in range(1, self._partitions) if partition not in heads]
        for partition in missing:
            await self._write(producer, partition, log_id)
        heads |= await self.read(missing)
        for partition, found in heads.items():
            if found != log_id:
                raise Misconfigured(
                    f"topic {self._topic!r} is no single log: partition {partition} belongs to log {found}, "
                    f"partition 0 to log {log_id}"
                )
        if known is not None and log_id != known:
            raise Misconfigured(
                f"another log: these tables belong to log {known}, topic {self._topic!r} at {self._bootstrap} holds "
                f"log {log_id}. Was it recreated? Use the former topic, or an empty database"
            )
        return log_id

    async def read(self, partitions: Sequence[int]) -> dict[int, UUID]:
        """Partition → the log id in its genesis record, for those that aren't empty."""
        if not partitions:
            return {}
        consumer = await open_consumer(self._bootstrap, HEAD_BYTES)
        try:
            wanted = [TopicPartition(self._topic, partition) for partition in partitions]
            ends = await bounded(self._bootstrap, consumer.end_offsets(wanted))
            filled = [tp for tp in wanted if ends[tp]]
            messages = await bounded(self._bootstrap, self._first_messages(consumer, filled), READ_S)
        finally:
            await close_consumer(consumer)
        return {message.partition: self._log_id_in(message) for message in messages}

    async def _first_messages(self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> list[Message]:
        found: list[Message] = []
        consumer.assign(partitions)
        for tp in partitions:
            consumer.seek(tp, 0)
        left = set(partitions)
        while left:
            try:
                answer = await consumer.getmany(*left, timeout_ms=1_000)
            except OffsetOutOfRangeError:
                raise self._no_genesis() from None
            for tp, messages in answer.items():
                found.append(messages[0])
                left.discard(tp)
                consumer.pause(tp)
        return found

    def _log_id_in(self, message: Message) -> UUID:
        event = decode_record(message, self._partitions, b"").event
        try:
            data = None if event is None else decode_data(event)
            if message.offset == 0 and isinstance(data, Genesis):
                return UUID(data.log_id)
        except (Unfoldable, ValueError):
            pass
        raise self._no_genesis()

    def _no_genesis(self) -> Misconfigured:
        return Misconfigured(
            f"topic {self._topic!r} at {self._bootstrap} is no log of turnlog: a partition doesn't begin with its "
            "genesis record. Name another topic with TURNLOG_TOPIC"
        )

    async def _write(self, producer: AIOKafkaProducer, partition: int, log_id: UUID) -> None:
        data = encode_data(Genesis(log_id=str(log_id), partition=partition, partitions=self._partitions))
        # An event id of its own: two with one key would be compacted into the later one.
        event = Event(new_event_id(), EventType.GENESIS.wire_name, "genesis", "genesis", now_ms(), data)
        sending = producer.send_and_wait(
            self._topic,
            key=encode_key(event.key),
            value=data,
            partition=partition,
            headers=encode_headers(event, source_of(log_id)),
        )
        await bounded(self._bootstrap, sending)
