"""The broker is killed with SIGKILL, or is away: what was acknowledged is there once, and every wait has an end."""

import time
from dataclasses import replace
from uuid import uuid4

import anyio
import pytest

from tests.counts import Report
from tests.domain.memory_tables import MemoryTables
from tests.kafka_server import KafkaBroker
from tests.log_settings import KafkaLogSettings, read_all, turn
from tests.own_task import in_own_task
from turnlog.domain.errors import OutcomeUnknown, Unavailable
from turnlog.domain.events import Event
from turnlog.domain.partitioning import partition_of
from turnlog.infra import kafka_log, kafka_reader
from turnlog.infra.kafka_log import KafkaLog, open_kafka_log

KILLS = 3


@pytest.fixture
def settings(kafka_broker: KafkaBroker, kafka_topic_name: str) -> KafkaLogSettings:
    """A topic on the module's own broker, and little patience."""
    return KafkaLogSettings(kafka_broker.bootstrap, kafka_topic_name, append_timeout_ms=2_000)


async def entries_of(log: KafkaLog) -> list[str]:
    """The event ids behind all entries that the fold makes of the whole log."""
    found: list[str] = []
    for partition in range(log.partitions):
        tables = MemoryTables()
        records = await read_all(log, partition)
        tables.fold(records)
        at = {record.position.offset: str(record.key.event_id) for record in records}
        found += [at[row.row_id // 4096] for row in tables.entries.values()]
    return found


@pytest.mark.timeout(240)
async def test_every_acknowledged_event_is_there_exactly_once_after_kills(
    settings: KafkaLogSettings, kafka_broker: KafkaBroker, report: Report
) -> None:
    acknowledged: list[str] = []
    unknown: list[str] = []
    stop = anyio.Event()

    async def append(number: int) -> None:
        while not stop.is_set():
            event = turn(f"agent:a{number}:native")
            try:
                await log.append(event)
                acknowledged.append(str(event.id))
            except OutcomeUnknown:
                unknown.append(str(event.id))
            except Unavailable:
                await anyio.sleep(0.05)

    async with open_kafka_log(settings, None) as log:
        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(append, number)
            for _ in range(KILLS):
                before = len(acknowledged)
                with anyio.fail_after(60):
                    while len(acknowledged) < before + 200:
                        await anyio.sleep(0.01)
                await kafka_broker.kill()
                await kafka_broker.start()
            before = len(acknowledged)
            with anyio.fail_after(60):
                while len(acknowledged) < before + 200:
                    await anyio.sleep(0.01)
            stop.set()
        found = await entries_of(log)
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)
    assert set(found) <= set(acknowledged) | set(unknown)
    stored = len(set(found) - set(acknowledged))
    report(
        f"{KILLS} kills: {len(acknowledged)} acknowledged, all there once; {len(unknown)} unknown, "
        f"{stored} of them stored"
    )


async def test_an_append_without_a_broker_ends_as_unknown_and_is_stored_once_it_is_back(
    settings: KafkaLogSettings, kafka_broker: KafkaBroker
) -> None:
    event = turn()
    async with open_kafka_log(settings, None) as log:
        await log.append(turn())
        await kafka_broker.kill()
        started = time.monotonic()
        with pytest.raises(OutcomeUnknown, match="may still be stored"):
            await log.append(event)
        assert 1.9 < time.monotonic() - started < 4
        await kafka_broker.start()
        with anyio.fail_after(30):
            while event.id not in await _ids(log, event):
                await anyio.sleep(0.1)


async def test_what_was_never_sent_is_refused_as_not_stored(
    settings: KafkaLogSettings, kafka_broker: KafkaBroker
) -> None:
    first, second = turn(), turn()
    errors: dict[str, str] = {}

    async def append(event: Event) -> None:
        try:
            await log.append(event)
        except Unavailable as error:
            errors[str(event.id)] = str(error)

    async with open_kafka_log(settings, None) as log:
        await log.append(turn())
        await kafka_broker.kill()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(append, first)
            await anyio.sleep(0.3)
            tasks.start_soon(append, second)
        assert "may still be stored" in errors[str(first.id)]
        assert "nothing is stored" in errors[str(second.id)]
        await kafka_broker.start()
        position, _ = await log.append(turn())
        ids = {record.key.event_id for record in await read_all(log, position.partition)}
    assert first.id in ids
    assert second.id not in ids


async def test_too_much_on_its_way_is_refused_until_kafka_answers(
    settings: KafkaLogSettings, kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_log, "ON_THEIR_WAY_BYTES", 3_000)
    async with open_kafka_log(settings, None) as log:
        await log.append(turn())
        await kafka_broker.kill()
        refusals: list[str] = []

        async def append() -> None:
            with pytest.raises(Unavailable) as refused:
                await log.append(turn())
            refusals.append(str(refused.value))

        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(append)
        assert any("takes no more events right now" in refusal for refusal in refusals)
        await kafka_broker.start()
        with anyio.fail_after(30):
            while not await _accepts(log):
                await anyio.sleep(0.1)


async def test_without_a_broker_every_call_ends_and_names_its_address(
    settings: KafkaLogSettings, kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_reader, "STUCK_MS", 1_000)
    monkeypatch.setattr(kafka_log, "OFFSETS_S", 1.0)
    async with in_own_task(open_kafka_log(settings, None)) as log:
        position, _ = await log.append(turn())
        await kafka_broker.kill()
        with anyio.fail_after(30):
            for call in (
                lambda: log.end(0),
                lambda: log.read(position.partition, position.offset, limit=1, wait_ms=5_000),
                lambda: log.unerased(0, [(0, turn().key)]),
            ):
                with pytest.raises(Unavailable, match=f"Kafka at {kafka_broker.bootstrap} doesn't answer"):
                    await call()
            with pytest.raises(OutcomeUnknown):
                await log.erase(0, [(0, turn().key)])
        started = time.monotonic()
    assert time.monotonic() - started < 6  # the server has 10 s to end


async def test_a_reader_goes_on_by_itself_after_a_restart(
    settings: KafkaLogSettings, kafka_broker: KafkaBroker
) -> None:
    async with open_kafka_log(settings, None) as log:
        position, _ = await log.append(turn())
        at = position.offset + 1
        await log.read(position.partition, at, limit=10, wait_ms=50)
        await kafka_broker.kill()
        assert (await log.read(position.partition, at, limit=10, wait_ms=500)).next_offset == at
        await kafka_broker.start()
        event = turn()
        with anyio.fail_after(30):
            await log.append(event)
            batch = await log.read(position.partition, at, limit=10, wait_ms=20_000)
        assert [record.key for record in batch.records] == [event.key]


async def test_a_consumer_that_got_stuck_is_replaced(
    settings: KafkaLogSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_reader, "STUCK_MS", 500)
    async with open_kafka_log(settings, None) as log:
        position, _ = await log.append(turn())
        partition, at = position.partition, position.offset + 1
        await log.read(partition, at, limit=10, wait_ms=50)
        (reader,) = log._readers._idle[partition]
        reader._consumer._fetcher._fetch_task.cancel()  # alive, and never fetches again after what is on its way
        for event in (turn(), turn()):
            await log.append(event)
            with anyio.fail_after(20):
                batch = await log.read(partition, at, limit=10, wait_ms=15_000)
            assert [record.key for record in batch.records] == [event.key]
            at = batch.next_offset
        assert reader not in log._readers._idle[partition]


async def test_a_start_without_a_broker_names_the_address(
    settings: KafkaLogSettings, kafka_broker: KafkaBroker
) -> None:
    await kafka_broker.kill()
    with anyio.fail_after(20), pytest.raises(Unavailable, match=f"Kafka at {kafka_broker.bootstrap} doesn't answer"):
        async with open_kafka_log(replace(settings, topic=f"t-{uuid4()}"), None):
            pass


async def _ids(log: KafkaLog, event: Event) -> set[object]:
    try:
        records = await read_all(log, partition_of(event.stream, log.partitions))
    except Unavailable:
        return set()
    return {record.key.event_id for record in records}


async def _accepts(log: KafkaLog) -> bool:
    try:
        await log.append(turn())
    except Unavailable:
        return False
    return True
