"""A producer that died is replaced; what it left is sent again behind a fence, and counts once.

The producers die for real: their sequence numbers are pushed ahead, and the broker refuses everything from then on.
"""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import anyio
import pytest
from aiokafka import TopicPartition

from tests.domain.memory_tables import MemoryTables
from tests.kafka_log.topics import configure_topic, write_event
from tests.log_settings import KafkaLogSettings, append_all, deletion, raw_event, read_all, turn
from turnlog.domain.errors import TooLarge
from turnlog.domain.event_data import ProducerFenced
from turnlog.domain.event_json import decode_data
from turnlog.domain.events import Event, EventType, Record
from turnlog.domain.partitioning import partition_of
from turnlog.infra.cloud_events import source_of
from turnlog.infra.kafka_log import KafkaLog, open_kafka_log
from turnlog.infra.kafka_producers import Producer, Producers

KEY = "agent:a1:native"


async def kill_producer(log: KafkaLog, *partitions: int) -> Producer:
    """From now on the broker answers OUT_OF_ORDER_SEQUENCE_NUMBER to this producer in these partitions."""
    producer = await log._producers.current()
    for partition in partitions:
        tp = TopicPartition(log._topic, partition)
        producer.client._txn_manager.increment_sequence_number(tp, 5)
    return producer


def wire_names(records: list[Record]) -> list[str]:
    """The types of these records."""
    return [record.event.type if record.event else "-" for record in records]


async def test_what_a_dead_producer_left_is_sent_again_behind_its_fence(log: KafkaLog) -> None:
    first, left = turn(), turn()
    place = (await log.append(first)).position
    dead = await kill_producer(log, place.partition)
    appended = await log.append(left)
    assert appended.resent

    _, before, fence, again = await read_all(log, place.partition)
    assert before.event is not None
    assert fence.event is not None
    assert again.event is not None
    assert before.event.producer == dead.id
    assert fence.event.type == EventType.PRODUCER_FENCED.wire_name
    assert fence.event.subject == f"producer:{dead.id}"
    assert decode_data(fence.event) == ProducerFenced(str(dead.id))
    successor = fence.event.producer
    assert successor is not None
    assert successor != dead.id
    assert again.position == appended.position
    assert again.event == replace(left, attempt=2, sent_after=place.offset + 1, producer=successor)


async def test_the_event_of_a_dead_producer_that_lands_late_is_ignored_and_erased(
    log: KafkaLog, settings: KafkaLogSettings
) -> None:
    left = turn()
    partition = partition_of(left.stream, log.partitions)
    dead = await kill_producer(log, partition)
    again = (await log.append(left)).position
    late = await write_event(settings, replace(left, producer=dead.id), source_of(log.log_id))
    assert late > again.offset
    tables = MemoryTables()
    tables.fold(await read_all(log, partition))
    assert [row.row_id // 4096 for row in tables.entries.values()] == [again.offset]
    assert [row.key for row in tables.outbox.values()] == [left.key]


async def test_the_event_of_a_dead_producer_that_landed_before_its_fence_counts_and_the_resend_repeats_it(
    log: KafkaLog, settings: KafkaLogSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = turn()
    partition = partition_of(left.stream, log.partitions)
    dead = await kill_producer(log, partition)
    landed: list[int] = []

    async def open_later(producers: Producers) -> Any:  # noqa: ANN401 - aiokafka has no types
        landed.append(await write_event(settings, replace(left, producer=dead.id), source_of(log.log_id)))
        return await opened(producers)

    opened = Producers._open
    monkeypatch.setattr(Producers, "_open", open_later)
    again = await log.append(left)
    assert again.position.offset > landed[0]
    tables = MemoryTables()
    tables.fold(await read_all(log, partition))
    assert [row.row_id // 4096 for row in tables.entries.values()] == landed
    (verdict,) = tables.requests.values()
    assert (verdict.status, verdict.offset) == (200, landed[0])


async def test_a_delete_between_first_sending_and_the_resend_refuses_the_resend(
    log: KafkaLog, settings: KafkaLogSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = turn(KEY)
    partition = partition_of(left.stream, log.partitions)
    await log.append(turn(KEY))
    await kill_producer(log, partition)

    async def open_later(producers: Producers) -> Any:  # noqa: ANN401 - aiokafka has no types
        await write_event(settings, deletion(KEY), source_of(log.log_id))
        return await opened(producers)

    opened = Producers._open
    monkeypatch.setattr(Producers, "_open", open_later)
    again = await log.append(left)
    assert again.resent
    tables = MemoryTables()
    tables.fold(await read_all(log, partition))
    assert tables.entries == {}
    assert [v.status for v in tables.requests.values() if v.event_id == left.id] == [410]
    assert replace(left, attempt=2).key in {row.key for row in tables.outbox.values()}


async def test_a_delete_before_first_sending_does_not_refuse_the_resend(log: KafkaLog) -> None:
    left = turn(KEY)
    partition = partition_of(left.stream, log.partitions)
    await append_all(log, [turn(KEY), deletion(KEY)])
    await kill_producer(log, partition)
    again = await log.append(left)
    tables = MemoryTables()
    tables.fold(await read_all(log, partition))
    assert [row.row_id // 4096 for row in tables.entries.values()] == [again.position.offset]


async def test_a_delete_of_another_process_is_seen_before_a_later_event_is_first_sent(
    log: KafkaLog, settings: KafkaLogSettings
) -> None:
    left = turn(KEY)
    partition = partition_of(left.stream, log.partitions)
    async with open_kafka_log(settings, log.log_id) as other:
        await append_all(other, [turn(KEY), deletion(KEY)])
        end = await other.end(partition)
    with anyio.fail_after(10):  # all ends are asked for about once a second
        while log._ends[partition].seen < end:
            await anyio.sleep(0.05)
    await kill_producer(log, partition)
    await log.append(left)
    tables = MemoryTables()
    tables.fold(await read_all(log, partition))
    assert len(tables.entries) == 1


async def test_a_resend_of_a_keyed_request_keeps_the_checkpoint_of_its_look_up(log: KafkaLog) -> None:
    left = turn(sent_after=0, idempotency_key=b"k" * 32, request_hash=b"r" * 32)
    partition = partition_of(left.stream, log.partitions)
    await append_all(log, [turn(), turn()])
    await kill_producer(log, partition)
    await log.append(left)
    again = (await read_all(log, partition))[-1].event
    assert again is not None
    assert (again.attempt, again.sent_after, again.idempotency_key) == (2, 0, b"k" * 32)


async def test_partitions_that_lost_nothing_get_no_fence(log: KafkaLog) -> None:
    keys = _key_of_every_partition(log)
    await append_all(log, [turn(key) for key in keys])
    await kill_producer(log, 1)
    results = await asyncio.gather(*(log.append(turn(key)) for key in keys))
    assert [appended.resent for appended in results] == [False, True, False]
    fences = [
        wire_names(await read_all(log, partition)).count(EventType.PRODUCER_FENCED.wire_name) for partition in range(3)
    ]
    assert fences == [0, 1, 0]


async def test_producers_that_die_over_and_over_under_load_lose_nothing_and_double_nothing(log: KafkaLog) -> None:
    keys = _key_of_every_partition(log)
    sent: list[Event] = []

    async def append(key: str) -> None:
        for _ in range(60):
            event = turn(key)
            await log.append(event)
            sent.append(event)

    async def kill() -> None:
        for round_ in range(4):
            await anyio.sleep(0.1)
            await kill_producer(log, round_ % 3, (round_ + 1) % 3)

    async with anyio.create_task_group() as tasks:
        for key in keys * 4:
            tasks.start_soon(append, key)
        tasks.start_soon(kill)
    applied: list[UUID] = []
    for partition in range(3):
        tables = MemoryTables()
        records = await read_all(log, partition)
        tables.fold(records)
        at = {record.position.offset: record.key.event_id for record in records}
        applied += [at[row.row_id // 4096] for row in tables.entries.values()]
    assert sorted(applied) == sorted(event.id for event in sent)
    assert len(sent) == 60 * 12


async def test_a_sender_that_breaks_is_replaced(log: KafkaLog) -> None:
    await log.append(turn())
    producer = await log._producers.current()

    async def break_(*_: object) -> None:
        raise RuntimeError("broken by the test")

    producer.client._sender._send_produce_req = break_
    appended = await log.append(turn())
    assert appended.resent
    assert (await log._producers.current()).id != producer.id


async def test_a_closed_producer_is_replaced_and_its_event_is_sent_for_the_first_time(log: KafkaLog) -> None:
    await log.append(turn())
    await (await log._producers.current()).client.stop()
    assert not (await log.append(turn())).resent


async def test_an_answer_without_an_offset_is_no_answer(log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    left = turn()
    producer = await log._producers.current()
    send = producer.client.send_batch

    async def without_offset(*args: Any, **kwargs: Any) -> asyncio.Future[Any]:  # noqa: ANN401 - aiokafka has no types
        metadata = await (await send(*args, **kwargs))
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(metadata._replace(offset=-1))  # what it makes of DUPLICATE_SEQUENCE_NUMBER
        return answer

    monkeypatch.setattr(producer.client, "send_batch", without_offset)
    appended = await log.append(left)
    assert appended.resent
    records = await read_all(log, appended.position.partition)
    assert [record.key for record in records if record.key.event_id == left.id] == [
        left.key,
        replace(left, attempt=2).key,
    ]
    tables = MemoryTables()
    tables.fold(records)
    assert len(tables.entries) == 1


async def test_a_record_that_the_topic_refuses_is_too_large_and_its_neighbours_are_appended(
    log: KafkaLog, settings: KafkaLogSettings
) -> None:
    await log.append(turn())
    await configure_topic(settings, {"max.message.bytes": "20000"})
    events = [turn(KEY), raw_event(b"x" * 30_000, KEY), turn(KEY), turn(KEY)]
    results = await asyncio.gather(*(log.append(event) for event in events), return_exceptions=True)
    assert isinstance(results[1], TooLarge)
    assert "max.message.bytes" in str(results[1])
    records = await read_all(log, partition_of(events[0].stream, log.partitions))
    kept = {record.key.event_id for record in records}
    assert {event.id for event in events if event is not events[1]} <= kept
    assert events[1].id not in kept


async def test_tombstones_of_a_dead_producer_are_written_again(log: KafkaLog) -> None:
    event = turn()
    place = (await log.append(event)).position
    await kill_producer(log, place.partition)
    await log.erase(place.partition, [(place.offset, event.key)])
    last = (await read_all(log, place.partition))[-1]
    assert (last.key, last.event, last.undecodable) == (event.key, None, None)


async def test_a_cancelled_caller_does_not_stop_a_resend(log: KafkaLog) -> None:
    left = turn()
    partition = partition_of(left.stream, log.partitions)
    await kill_producer(log, partition)
    appending = asyncio.ensure_future(log.append(left))
    await asyncio.sleep(0)
    appending.cancel()
    await asyncio.wait([appending])
    position, _ = await log.append(turn())
    assert left.id in {record.key.event_id for record in await read_all(log, position.partition)}


def _key_of_every_partition(log: KafkaLog) -> list[str]:
    found: dict[int, str] = {}
    number = 0
    while len(found) < log.partitions:
        found.setdefault(partition_of(f"agent:a{number}", log.partitions), f"agent:a{number}:native")
        number += 1
    return [found[partition] for partition in range(log.partitions)]
