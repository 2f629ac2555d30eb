"""Compaction on the real broker: it only erases what was erased, and reading copes with whatever is gone."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from aiokafka import TopicPartition

from tests.domain.memory_tables import MemoryTables
from tests.kafka_log.topics import QUICK_COMPACTION, configure_topic, make_topic, raw_records
from tests.kafka_server import KafkaBroker
from tests.log_settings import KafkaLogSettings, append_all, deletion, read_all, turn
from turnlog.domain.event_data import Tick
from turnlog.domain.event_json import encode_data
from turnlog.domain.events import Event, EventType, RecordKey
from turnlog.infra.event_ids import new_event_id, now_ms
from turnlog.infra.kafka_log import KafkaLog, open_kafka_log
from turnlog.infra.kafka_reader import PartitionReader

CANARY = "canary-7f3a9c51-never-to-be-seen-again"


@pytest.fixture
def settings(kafka_broker: KafkaBroker, kafka_topic_name: str) -> KafkaLogSettings:
    """One partition on the module's own broker."""
    return KafkaLogSettings(kafka_broker.bootstrap, kafka_topic_name, partitions=1)


def tick() -> Event:
    """What makes an idle segment roll."""
    return Event(new_event_id(), EventType.TICK.wire_name, "tick", "tick", now_ms(), encode_data(Tick()))


async def erase_and_compact(log: KafkaLog, records: list[tuple[int, RecordKey]]) -> None:
    """Ask for the erasure, and tick until it is done."""
    await log.erase(0, records)
    with anyio.fail_after(60):
        while await log.unerased(0, records):
            await anyio.sleep(0.35)
            await log.append_to(0, tick())


async def test_erased_bytes_leave_every_segment_file_within_the_bound(
    settings: KafkaLogSettings, kafka_broker: KafkaBroker
) -> None:
    await make_topic(settings, QUICK_COMPACTION)
    async with open_kafka_log(settings, None) as log:
        doomed, kept = turn("agent:a1:gone", CANARY), turn("agent:a1:kept", "kept-canary-1b2c")
        places = await append_all(log, [doomed, kept])
        wanted = [(places[0].offset, doomed.key)]
        assert kafka_broker.segments_holding(settings.topic, CANARY.encode())
        assert list(await log.unerased(0, wanted)) == [doomed.key]
        await log.append(deletion("agent:a1:gone"))

        await erase_and_compact(log, wanted)

        with anyio.fail_after(30):  # replaced files go a moment later
            while kafka_broker.segments_holding(settings.topic, CANARY.encode()):
                await anyio.sleep(0.1)
        assert kafka_broker.segments_holding(settings.topic, b"kept-canary-1b2c")
        records = await read_all(log, 0)
        assert {record.position.offset: record.key for record in records}[places[1].offset] == kept.key
        tables = MemoryTables()
        tables.fold(records)
        assert [entry.text for entry in tables.entries.values() if "kept-canary" in entry.text]


async def test_compaction_removes_nothing_that_was_not_erased(settings: KafkaLogSettings) -> None:
    await make_topic(settings, QUICK_COMPACTION)
    async with open_kafka_log(settings, None) as log:
        events = [turn(text=str(number)) for number in range(30)]
        twice = events[0]
        places = await append_all(log, [*events, twice])
        doomed = turn(text="doomed")
        place = (await log.append(doomed)).position
        await erase_and_compact(log, [(place.offset, doomed.key)])
        kept = {record.position: record.key for record in await read_all(log, 0) if record.event}
        # The same attempt written twice would share a key: the log never does that, callers hand in new attempts.
        assert [kept.get(place) for place in places[1:30]] == [event.key for event in events[1:]]


async def test_ranges_that_are_gone_at_the_head_in_the_middle_and_at_the_end_are_read_over(
    settings: KafkaLogSettings,
) -> None:
    await make_topic(settings, QUICK_COMPACTION)
    async with open_kafka_log(settings, None) as log:
        events = [turn(text=str(number)) for number in range(60)]
        places = await append_all(log, events)
        gone = [*range(10), *range(25, 40), *range(50, 60)]
        # Tombstones are kept for seven days by contract: here they go too, so that whole ranges vanish.
        await configure_topic(settings, {**QUICK_COMPACTION, "delete.retention.ms": "0"})
        doomed = [(places[number].offset, events[number].key) for number in gone]
        await erase_and_compact(log, doomed)
        with anyio.fail_after(60):
            while any(message.value is None for message in await raw_records(settings, 0)):
                await anyio.sleep(0.35)
                await log.append_to(0, tick())

        left = [
            record for record in await read_all(log, 0) if record.event and record.event.type.endswith("appended.v1")
        ]
        assert [record.key for record in left] == [
            event.key for number, event in enumerate(events) if number not in gone
        ]
        end = await log.end(0)
        existing = {message.offset for message in await raw_records(settings, 0)}
        assert len(existing) < end - 30
        for limit in (1, 7, 500):
            for start in range(end + 1):
                batch = await log.read(0, start, limit=limit, wait_ms=0 if start == end else 10_000)
                following = sorted(offset for offset in existing if offset >= start)[:limit]
                found = [record.position.offset for record in batch.records]
                assert found == following[: len(found)]
                assert bool(found) == bool(following)
                assert batch.next_offset > (found[-1] if found else start - 1)
                assert batch.next_offset <= min([offset for offset in existing if offset >= batch.next_offset] or [end])
        at = 0
        while at < end:
            at = (await log.read(0, at, limit=5, wait_ms=10_000)).next_offset
        assert at == end


class EmptiedTail:
    """A consumer as the client behaves where a broker has rolled and emptied the tail: every fetch is answered with an
    end beyond the position, and without a record. Apache Kafka never empties the active segment, so the real one can't
    be brought there.
    """

    def __init__(self, end: int) -> None:
        self.end = end
        self.at = 0
        self.answers = 1_000
        self.records: list[Any] = []
        self.given: list[Any] = []

    def assign(self, _: object) -> None:
        """Nothing to do."""

    def seek(self, _: object, offset: int) -> None:
        """Move."""
        self.at = offset

    async def getmany(
        self, tp: TopicPartition, *, timeout_ms: int, max_records: int
    ) -> dict[TopicPartition, list[Any]]:
        """One more answer came from the broker; what it held, if anything."""
        await anyio.lowlevel.checkpoint()
        self.answers += timeout_ms
        taken, self.records = self.records[:max_records], self.records[max_records:]
        self.at += len(taken)
        self.given += taken
        return {tp: taken} if taken else {}

    async def position(self, _: object) -> int:
        """Where it is."""
        return self.at

    def highwater(self, _: object) -> int:
        """The end, by the last answer."""
        return self.end

    def last_poll_timestamp(self, _: object) -> int:
        """When the last answer came, ms."""
        return self.answers


async def test_a_tail_without_any_record_is_stepped_over_after_a_second_empty_answer() -> None:
    consumer = EmptiedTail(end=40)
    reader = PartitionReader(consumer, "topic", 0, 25)
    assert await reader.fetch(10, 0) == []
    assert reader.position == 25
    assert await reader.fetch(10, 1_000) == []
    assert reader.position == consumer.at == 40


async def test_an_empty_answer_that_a_seek_overtook_skips_nothing() -> None:
    consumer = EmptiedTail(end=40)
    reader = PartitionReader(consumer, "topic", 0, 25)
    await reader.fetch(10, 0)
    reader.seek(5)
    assert await reader.fetch(10, 0) == []
    assert reader.position == 5
    consumer.records = [7, 8]
    assert list(await reader.fetch(10, 1_000)) == consumer.given == [7, 8]
    assert reader.position == 7


async def test_records_appended_while_the_tail_is_empty_are_not_skipped() -> None:
    consumer = EmptiedTail(end=25)
    reader = PartitionReader(consumer, "topic", 0, 25)
    await reader.fetch(10, 0)
    consumer.end, consumer.records = 26, [7]
    assert list(await reader.fetch(10, 1_000)) == consumer.given == [7]
    assert reader.position == 26
