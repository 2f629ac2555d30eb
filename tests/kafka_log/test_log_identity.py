"""The log id: made once, however starts race or die; it alone tells a recreated topic from the former one."""

import asyncio
from dataclasses import replace
from uuid import UUID, uuid4

import anyio
import pytest

from tests.kafka_log.topics import delete_topic, make_topic, raw_records, write_raw
from tests.log_settings import KafkaLogSettings, read_all, turn
from tests.own_task import in_own_task
from turnlog.domain.errors import Misconfigured, OutcomeUnknown
from turnlog.domain.event_data import Genesis
from turnlog.domain.event_json import decode_data, encode_data
from turnlog.domain.events import Event, EventType
from turnlog.infra.cloud_events import decode_record, encode_headers, encode_key, source_of
from turnlog.infra.event_ids import new_event_id
from turnlog.infra.kafka_log import KafkaLog, open_kafka_log


async def write_genesis(settings: KafkaLogSettings, partition: int, log_id: UUID) -> None:
    """What a start writes to one partition."""
    data = encode_data(Genesis(log_id=str(log_id), partition=partition, partitions=settings.partitions))
    event = Event(new_event_id(), EventType.GENESIS.wire_name, "genesis", "genesis", 0, data)
    await write_raw(settings, partition, encode_key(event.key), data, encode_headers(event, source_of(log_id)))


async def genesis_ids(settings: KafkaLogSettings) -> list[list[str]]:
    """For every partition the log ids in its records, which must all be genesis records."""
    found = []
    for partition in range(settings.partitions):
        ids = []
        for message in await raw_records(settings, partition):
            event = decode_record(message, settings.partitions, b"").event
            assert event is not None
            data = decode_data(event)
            assert isinstance(data, Genesis)
            assert (data.partition, data.partitions) == (partition, settings.partitions)
            ids.append(data.log_id)
        found.append(ids)
    return found


async def test_a_start_that_died_half_way_is_completed_with_its_id(settings: KafkaLogSettings) -> None:
    await make_topic(settings)
    log_id = uuid4()
    await write_genesis(settings, 0, log_id)
    async with open_kafka_log(settings, None) as log:
        assert log.log_id == log_id
        await log.append(turn())
    async with open_kafka_log(settings, log_id) as log:
        assert log.log_id == log_id
    heads = [(await raw_records(settings, partition))[0] for partition in range(settings.partitions)]
    events = [decode_record(head, settings.partitions, b"").event for head in heads]
    assert [event and decode_data(event) for event in events] == [
        Genesis(str(log_id), partition, settings.partitions) for partition in range(settings.partitions)
    ]


async def test_starts_that_race_end_with_one_id_and_every_head_carries_it(settings: KafkaLogSettings) -> None:
    async def start() -> UUID:
        async with open_kafka_log(settings, None) as log:
            return log.log_id

    ids = set(await asyncio.gather(*(start() for _ in range(5))))
    assert len(ids) == 1
    assert {heads[0] for heads in await genesis_ids(settings)} == {str(ids.pop())}


async def test_what_losers_of_that_race_left_can_be_folded_over(settings: KafkaLogSettings) -> None:
    await make_topic(settings)
    await write_genesis(settings, 0, winner := uuid4())
    await write_genesis(settings, 0, uuid4())
    async with open_kafka_log(settings, None) as log:
        assert log.log_id == winner
        records = await read_all(log, 0)
    assert [record.undecodable for record in records] == [None, None]


async def test_no_two_genesis_records_share_a_key_that_compaction_could_merge(settings: KafkaLogSettings) -> None:
    async with open_kafka_log(settings, None):
        pass
    keys = [message.key for partition in range(3) for message in await raw_records(settings, partition)]
    assert len(set(keys)) == 3


async def test_a_recreated_topic_is_refused_by_name(settings: KafkaLogSettings) -> None:
    async with open_kafka_log(settings, None) as log:
        known = log.log_id
    await delete_topic(settings)
    with pytest.raises(Misconfigured, match=rf"these tables belong to log {known}, and topic .* doesn't exist"):
        async with open_kafka_log(settings, known):
            pass
    await make_topic(settings)
    with pytest.raises(Misconfigured, match=rf"tables belong to log {known}, topic .* is empty. Was it recreated\?"):
        async with open_kafka_log(settings, known):
            pass
    async with open_kafka_log(settings, None) as other:
        assert other.log_id != known
    with pytest.raises(Misconfigured, match=rf"tables belong to log {known}, .* holds log {other.log_id}"):
        async with open_kafka_log(settings, known):
            pass


async def test_a_refused_recreated_topic_is_left_as_it_was(settings: KafkaLogSettings) -> None:
    await make_topic(settings)
    with pytest.raises(Misconfigured, match="is empty"):
        async with open_kafka_log(settings, uuid4()):
            pass
    assert await genesis_ids(settings) == [[], [], []]


async def test_a_topic_with_other_records_is_no_log(settings: KafkaLogSettings) -> None:
    await make_topic(settings)
    await write_raw(settings, 1, b"key", b"value")
    with pytest.raises(Misconfigured, match="is no log of turnlog"):
        async with open_kafka_log(settings, None):
            pass


async def test_partitions_of_two_logs_are_no_log(settings: KafkaLogSettings) -> None:
    await make_topic(settings)
    await write_genesis(settings, 0, uuid4())
    await write_genesis(settings, 2, other := uuid4())
    with pytest.raises(Misconfigured, match=f"partition 2 belongs to log {other}"):
        async with open_kafka_log(settings, None):
            pass


async def test_an_append_into_a_topic_recreated_meanwhile_is_noticed_and_refused(settings: KafkaLogSettings) -> None:
    async with in_own_task(open_kafka_log(replace(settings, append_timeout_ms=8_000), None)) as log:
        for _ in range(5):
            position, _ = await log.append(turn())
        await delete_topic(settings)
        await make_topic(settings)
        with anyio.fail_after(60):
            refusal = await _first_refusal(log)
        assert "Was it recreated" in refusal
        with pytest.raises(Misconfigured, match="Was it recreated"):
            await log.read(position.partition, 0, limit=1, wait_ms=500)


async def test_an_event_of_another_log_stops_its_partition_by_name(settings: KafkaLogSettings) -> None:
    event = turn()
    async with open_kafka_log(settings, None) as log:
        data = encode_headers(event, source_of(uuid4()))
        partition = (await log.append(turn())).position.partition
        await write_raw(settings, partition, encode_key(event.key), event.data, data)
        stray = (await read_all(log, partition))[-1]
    assert stray.event is None
    assert stray.undecodable == "header ce_source names another log"


async def _first_refusal(log: KafkaLog) -> str:
    while True:
        try:
            await log.append(turn())
        except Misconfigured as error:
            return str(error)
        except OutcomeUnknown:
            await anyio.sleep(0.1)
