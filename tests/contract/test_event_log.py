"""What every event log promises (domain/event_log.py)."""

import asyncio
import itertools
from dataclasses import replace

import anyio
import pytest

from tests.contract.conftest import Bench, on_real_logs
from tests.domain.memory_tables import MemoryTables
from tests.log_settings import append_all, raw_event, read_all, turn
from turnlog.domain.errors import BadInput, Misconfigured, TooLarge, Unavailable
from turnlog.domain.event_data import Genesis, Tick
from turnlog.domain.event_json import decode_data, encode_data
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import MAX_RECORD_BYTES, Event, EventType, RecordKey
from turnlog.domain.partitioning import partition_of
from turnlog.infra.event_ids import new_event_id

ROOM_FOR_HEADERS = 4096


async def test_every_partition_begins_with_a_genesis_record_that_names_the_log(bench: Bench) -> None:
    for partition in range(bench.log.partitions):
        (record,) = (await bench.log.read(partition, 0, limit=1, wait_ms=5_000)).records
        assert record.event is not None
        assert record.position == (partition, 0)
        assert decode_data(record.event) == Genesis(str(bench.log.log_id), partition, bench.log.partitions)


async def test_another_process_opens_the_same_log(bench: Bench) -> None:
    appended = await bench.log.append(turn())
    async with bench.open() as other:
        assert other.log_id == bench.log.log_id
        assert other.partitions == bench.log.partitions
        assert (await read_all(other, appended.position.partition))[-1].position == appended.position


async def test_an_event_comes_back_as_it_was_appended(bench: Bench) -> None:
    event = turn(
        "team:näme 😀",
        actor="Ärzte 'n' \"quotes\"",
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        sent_after=123_456_789_012,
        idempotency_key=bytes(range(32)),
        request_hash=bytes(range(32, 64)),
        ignorable=True,
        time_ms=1_767_225_599_007,
        attempt=3,
    )
    position, resent = await bench.log.append(event)
    (record,) = (await bench.log.read(position.partition, position.offset, limit=1, wait_ms=5_000)).records
    assert record.event is not None
    assert record.event == _with_producer(event, record.event)
    assert record.key == event.key
    assert record.position == position
    assert not resent
    assert record.undecodable is None


async def test_an_event_with_nothing_optional_comes_back_as_it_was_appended(bench: Bench) -> None:
    event = turn()
    position, _ = await bench.log.append(event)
    (record,) = (await bench.log.read(position.partition, position.offset, limit=1, wait_ms=5_000)).records
    assert record.event is not None
    assert record.event == _with_producer(event, record.event)


@pytest.mark.parametrize(
    "data",
    [
        b'{"entries":[{"entryId":"e","text":"\\u0000 \\ud800 \\udfff"}]}',
        b'{"a":1,"a":2 , "big":1' + b"0" * 400 + b"}",
        b"[" * 5_000 + b"]" * 5_000,
        "{}\n\u2028\u00e9\U0001f600".encode(),
        b"\x00\xff\xfe not even JSON",
        b"{",
    ],
    ids=["escapes", "duplicate-names", "deep", "unicode", "binary", "broken"],
)
async def test_the_value_is_kept_byte_for_byte(bench: Bench, data: bytes) -> None:
    position, _ = await bench.log.append(raw_event(data))
    (record,) = (await bench.log.read(position.partition, position.offset, limit=1, wait_ms=5_000)).records
    assert record.event is not None
    assert record.event.data == data


async def test_positions_of_a_stream_strictly_increase_and_stay_in_its_partition(bench: Bench) -> None:
    keys = [f"agent:a{number}:native" for number in range(6)]
    seen: dict[str, list[int]] = {}
    for key in keys * 5:
        event = turn(key)
        position, _ = await bench.log.append(event)
        assert position.partition == partition_of(event.stream, bench.log.partitions)
        seen.setdefault(key, []).append(position.offset)
    for offsets in seen.values():
        assert all(before < after for before, after in itertools.pairwise(offsets))


async def test_reading_resumes_anywhere(bench: Bench) -> None:
    events = [turn() for _ in range(10)]
    positions = await append_all(bench.log, events)
    partition = positions[0].partition
    for index, position in enumerate(positions):
        records = await read_all(bench.log, partition, position.offset)
        assert [record.key for record in records] == [event.key for event in events[index:]]


async def test_a_read_returns_at_most_its_limit_and_says_where_to_go_on(bench: Bench) -> None:
    events = [turn() for _ in range(10)]
    partition = (await append_all(bench.log, events))[0].partition
    at = 1
    keys: list[RecordKey] = []
    while len(keys) < len(events):
        batch = await bench.log.read(partition, at, limit=3, wait_ms=5_000)
        assert 0 < len(batch.records) <= 3
        assert batch.next_offset == batch.records[-1].position.offset + 1
        keys += [record.key for record in batch.records]
        at = batch.next_offset
    assert keys == [event.key for event in events]


async def test_a_read_at_the_end_waits_for_the_next_record(bench: Bench) -> None:
    position, _ = await bench.log.append(turn())
    event = turn()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.log.append, event)
        batch = await bench.log.read(position.partition, position.offset + 1, limit=10, wait_ms=20_000)
    assert [record.key for record in batch.records] == [event.key]


async def test_a_read_at_the_end_comes_back_empty_after_its_wait(bench: Bench) -> None:
    position, _ = await bench.log.append(turn())
    batch = await bench.log.read(position.partition, position.offset + 1, limit=10, wait_ms=50)
    assert batch.records == ()
    assert batch.next_offset == position.offset + 1


async def test_the_end_is_the_offset_of_the_next_record(bench: Bench) -> None:
    position, _ = await bench.log.append(turn())
    end = await bench.log.end(position.partition)
    assert end == position.offset + 1
    assert (await bench.log.append(turn())).position.offset == end


async def test_independent_readers_do_not_disturb_each_other(bench: Bench) -> None:
    events = [turn() for _ in range(60)]
    partition = (await append_all(bench.log, events))[0].partition
    found: list[list[str]] = []

    async def read_from_the_start(limit: int) -> None:
        at = 1
        keys: list[str] = []
        while len(keys) < len(events):
            batch = await bench.log.read(partition, at, limit=limit, wait_ms=5_000)
            keys += [str(record.key) for record in batch.records]
            at = batch.next_offset
        found.append(keys)

    async with anyio.create_task_group() as tasks:
        for limit in (1, 3, 7, 60):
            tasks.start_soon(read_from_the_start, limit)
    assert found == [[str(event.key) for event in events]] * 4


async def test_concurrent_appenders_of_several_processes_leave_every_event_once_and_in_their_order(
    bench: Bench,
) -> None:
    per_appender, appenders = 40, 6
    sent: dict[str, list[str]] = {}

    async def append(log: EventLog, name: str) -> None:
        key = f"agent:shared:{name}"
        for _ in range(per_appender):
            event = turn(key)
            await log.append(event)
            sent.setdefault(name, []).append(str(event.key))

    async with bench.open() as other, anyio.create_task_group() as tasks:
        for number in range(appenders):
            tasks.start_soon(append, bench.log if number % 2 else other, str(number))
    partition = partition_of("agent:shared", bench.log.partitions)
    records = await read_all(bench.log, partition)
    offsets = [record.position.offset for record in records]
    assert offsets == list(range(len(records)))
    assert len(records) == 1 + per_appender * appenders
    for name, keys in sent.items():
        assert [str(r.key) for r in records if r.event and r.event.subject == f"agent:shared:{name}"] == keys


async def test_append_times_never_go_back_inside_a_partition(bench: Bench) -> None:
    positions = await append_all(bench.log, (turn() for _ in range(20)))
    times = [record.appended_ms for record in await read_all(bench.log, positions[0].partition)]
    assert times == sorted(times)


async def test_the_same_event_appended_twice_is_two_records_and_one_effect(bench: Bench) -> None:
    event = turn(text="once")
    first, _ = await bench.log.append(event)
    second, _ = await bench.log.append(event)
    assert second.offset > first.offset
    tables = MemoryTables()
    tables.fold(await read_all(bench.log, first.partition))
    assert [row.row_id // 4096 for row in tables.entries.values()] == [first.offset]


async def test_a_cancelled_caller_leaves_a_log_that_goes_on_and_an_outcome_that_a_retry_settles(bench: Bench) -> None:
    cancelled = [turn(text=str(number)) for number in range(20)]
    for number, event in enumerate(cancelled):
        appending = asyncio.ensure_future(bench.log.append(event))
        for _ in range(number % 4):
            await asyncio.sleep(0)
        appending.cancel()
        await asyncio.wait([appending])
    for event in cancelled:  # the retry, with the same event id
        await bench.log.append(event)
    position, _ = await bench.log.append(turn())
    tables = MemoryTables()
    tables.fold(await read_all(bench.log, position.partition))
    assert len(tables.entries) == len(cancelled) + 1


@on_real_logs
async def test_an_oversized_event_is_refused_and_nothing_is_appended(bench: Bench) -> None:
    partition = partition_of("agent:a1", bench.log.partitions)
    end = await bench.log.end(partition)
    for size in (MAX_RECORD_BYTES + 1, 2 * MAX_RECORD_BYTES):
        with pytest.raises(TooLarge, match=str(MAX_RECORD_BYTES)):
            await bench.log.append(raw_event(b"x" * size))
    assert await bench.log.end(partition) == end


async def test_the_largest_event_fits(bench: Bench) -> None:
    data = b"x" * (MAX_RECORD_BYTES - ROOM_FOR_HEADERS)
    position, _ = await bench.log.append(raw_event(data))
    small, _ = await bench.log.append(turn())
    first, second = await read_all(bench.log, position.partition, position.offset)
    assert first.event is not None
    assert first.event.data == data
    assert second.position == small


@on_real_logs
async def test_a_name_that_no_table_can_hold_is_refused(bench: Bench) -> None:
    for envelope in ({"subject": "a\x00b"}, {"stream": "a\x00b"}, {"actor": "a\x00b"}, {"traceparent": "\x00"}):
        with pytest.raises(BadInput, match=f"{next(iter(envelope))} must not contain U\\+0000"):
            await bench.log.append(turn(**envelope))


async def test_an_unknown_type_is_kept(bench: Bench) -> None:
    position, _ = await bench.log.append(turn(type="dev.example.else.v9", ignorable=True))
    (record,) = (await bench.log.read(position.partition, position.offset, limit=1, wait_ms=5_000)).records
    assert record.event is not None
    assert record.event.type == "dev.example.else.v9"
    assert record.event.ignorable


async def test_a_tick_goes_to_the_partition_that_is_named(bench: Bench) -> None:
    for partition in range(bench.log.partitions):
        data = encode_data(Tick())
        tick = Event(new_event_id(), EventType.TICK.wire_name, "tick", "tick", 0, data)
        position, _ = await bench.log.append_to(partition, tick)
        assert position.partition == partition
        (record,) = (await bench.log.read(partition, position.offset, limit=1, wait_ms=5_000)).records
        assert record.event is not None
        assert record.key == tick.key


async def test_erasing_is_idempotent_and_leaves_all_other_records_as_they_were(bench: Bench) -> None:
    kept, erased = [turn(text="kept") for _ in range(3)], [turn(text="erased") for _ in range(3)]
    places = {}
    for event in (*kept, *erased):
        places[event.key] = (await bench.log.append(event)).position
    partition = places[kept[0].key].partition
    wanted = [(places[event.key].offset, event.key) for event in erased]
    await bench.log.erase(partition, wanted)
    await bench.log.erase(partition, wanted)
    await bench.log.erase(partition, [])
    alive = {r.key: r.position for r in await read_all(bench.log, partition) if r.event}
    for event in kept:
        assert alive[event.key] == places[event.key]


async def test_what_is_not_erased_yet_is_named(bench: Bench) -> None:
    events = [turn() for _ in range(4)]
    places = await append_all(bench.log, events)
    partition = places[0].partition
    wanted = [(place.offset, event.key) for place, event in zip(places, events, strict=True)]
    beyond = (await bench.log.end(partition) + 100, turn().key)
    left = await bench.log.unerased(partition, [wanted[2], wanted[0], beyond])
    assert sorted(left) == sorted([wanted[2][1], wanted[0][1]])
    assert list(await bench.log.unerased(partition, [])) == []


async def test_an_offset_beyond_the_end_is_refused_by_name(bench: Bench) -> None:
    end = await bench.log.end(0)
    with pytest.raises(Misconfigured, match="is outside the"):
        await bench.log.read(0, end + 5, limit=1, wait_ms=500)


@on_real_logs
async def test_a_closed_log_takes_nothing(bench: Bench) -> None:
    async with bench.open() as other:
        pass
    with pytest.raises(Unavailable, match=r"closing|no more"):
        await other.append(turn())


def _with_producer(event: Event, found: Event) -> Event:
    """The event as it must come back: Kafka adds who wrote it."""
    return replace(event, producer=found.producer)
