"""The topic's configuration is created, checked and refused with what to set."""

import socket
import time
from dataclasses import replace

import anyio
import pytest

from tests.kafka_log.topics import QUICK_COMPACTION, configuration, configure_topic, delete_topic, make_topic
from tests.log_settings import KafkaLogSettings, turn
from turnlog.domain.errors import Misconfigured, Unavailable
from turnlog.infra import kafka_log
from turnlog.infra.kafka_log import KafkaLog, open_kafka_log
from turnlog.services import topic

DAY_MS = 86_400_000


async def open_and_close(settings: KafkaLogSettings) -> None:
    """Open the log and nothing else."""
    async with open_kafka_log(settings, None):
        pass


async def test_a_missing_topic_is_created_with_the_contract(settings: KafkaLogSettings) -> None:
    await open_and_close(settings)
    found = await configuration(settings)
    expected = {
        "cleanup.policy": "compact",
        "max.compaction.lag.ms": str(DAY_MS),
        "segment.ms": str(DAY_MS),
        "delete.retention.ms": str(7 * DAY_MS),
        "max.message.bytes": str(3 * 1024 * 1024),
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "unclean.leader.election.enable": "false",
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("cleanup.policy", "delete", "set it to compact"),
        ("cleanup.policy", "compact,delete", "set it to compact"),
        ("max.compaction.lag.ms", str(DAY_MS + 1), f"set it to at most {DAY_MS}"),
        ("segment.ms", str(7 * DAY_MS), f"set it to at most {DAY_MS}"),
        ("delete.retention.ms", str(DAY_MS), f"set it to at least {7 * DAY_MS}"),
        ("max.message.bytes", "1048588", "set it to 3145728"),
        ("max.message.bytes", "10485760", "set it to 3145728"),
        ("message.timestamp.type", "CreateTime", "set it to LogAppendTime"),
        ("retention.ms", "604800000", "set it to -1"),
        ("retention.bytes", "1000000", "set it to -1"),
        ("unclean.leader.election.enable", "true", "set it to false"),
    ],
)
async def test_a_topic_that_differs_is_refused_with_what_to_set(
    settings: KafkaLogSettings, name: str, value: str, advice: str
) -> None:
    await make_topic(settings, {name: value})
    with pytest.raises(Misconfigured) as refused:
        await open_and_close(settings)
    assert str(refused.value) == (
        f"topic {settings.topic!r} at {settings.kafka_bootstrap_servers} breaks its contract: "
        f"{name} is {value}, {advice}"
    )


async def test_all_that_differs_is_listed_at_once(settings: KafkaLogSettings) -> None:
    await make_topic(settings, {"retention.ms": "1000", "segment.ms": str(9 * DAY_MS)})
    with pytest.raises(Misconfigured, match=r"segment\.ms is .*; retention\.ms is 1000, set it to -1"):
        await open_and_close(settings)


async def test_too_few_replicas_in_sync_are_refused(settings: KafkaLogSettings) -> None:
    await make_topic(settings)
    with pytest.raises(Misconfigured, match=r"min\.insync\.replicas is 1, set it to at least 2"):
        await open_and_close(replace(settings, min_insync_replicas=2))


async def test_too_few_replicas_are_refused(settings: KafkaLogSettings) -> None:
    await make_topic(settings)
    with pytest.raises(Misconfigured, match="it has 1 replicas, reassign its partitions to 3"):
        await open_and_close(replace(settings, replication_factor=3))


async def test_another_partition_count_is_refused(settings: KafkaLogSettings) -> None:
    await make_topic(settings)
    with pytest.raises(Misconfigured, match="it has 3 partitions, set TURNLOG_PARTITIONS to 3"):
        await open_and_close(replace(settings, partitions=4))


async def test_values_that_forget_sooner_or_remember_erasures_longer_keep_the_contract(
    settings: KafkaLogSettings,
) -> None:
    await make_topic(settings, {**QUICK_COMPACTION, "delete.retention.ms": str(30 * DAY_MS)})
    await open_and_close(settings)


async def test_a_replication_factor_that_the_cluster_can_not_give_is_refused(settings: KafkaLogSettings) -> None:
    with pytest.raises(Misconfigured, match=r"can't be created .*replication factor"):
        await open_and_close(replace(settings, replication_factor=3))


async def test_the_command_creates_once_and_checks(settings: KafkaLogSettings) -> None:
    with pytest.raises(Misconfigured, match=r"doesn't exist at .*: run `turnlog topic create`"):
        await topic.check(settings)
    assert (await topic.create(settings))[0] == f"topic {settings.topic} created"
    assert (await topic.create(settings))[0] == f"topic {settings.topic} exists and keeps its contract"
    assert "max.compaction.lag.ms at most 86400000" in await topic.check(settings)
    await configure_topic(settings, {"retention.ms": "1000"})
    for command in (topic.check, topic.create):
        with pytest.raises(Misconfigured, match=r"retention\.ms is 1000, set it to -1"):
            await command(settings)


async def test_without_a_broker_the_error_names_the_address(settings: KafkaLogSettings) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(Unavailable, match=f"Kafka at {address} doesn't answer"):
            await open_and_close(replace(settings, kafka_bootstrap_servers=address))
        assert time.monotonic() - started < 5


async def test_a_broker_that_accepts_and_never_answers_is_given_up_in_time(
    settings: KafkaLogSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnlog.infra.kafka_clients.START_S", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with anyio.fail_after(10), pytest.raises(Unavailable, match=f"Kafka at {address} doesn't answer in time"):
            await open_and_close(replace(settings, kafka_bootstrap_servers=address))


@pytest.mark.parametrize("address", [None, "", "kafka", "kafka:", ":9092", "kafka:port", "kafka:9092,", "kafka:0"])
async def test_an_address_that_can_not_be_one_is_refused(settings: KafkaLogSettings, address: str | None) -> None:
    with pytest.raises(Misconfigured, match="TURNLOG_KAFKA_BOOTSTRAP_SERVERS must"):
        await open_and_close(replace(settings, kafka_bootstrap_servers=address))


async def test_a_contract_broken_while_running_stops_appends_until_it_is_repaired(
    settings: KafkaLogSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_log, "TOPIC_CHECK_S", 0.05)
    async with open_kafka_log(settings, None) as log:
        position, _ = await log.append(turn())
        await configure_topic(settings, {"retention.ms": "600000"})
        with anyio.fail_after(20):
            refusal = await _refusal(log)
        assert "retention.ms is 600000, set it to -1" in refusal
        assert (await log.read(position.partition, position.offset, limit=1, wait_ms=5_000)).records
        await configure_topic(settings, {})
        with anyio.fail_after(20):
            while not await _accepts(log):
                await anyio.sleep(0.05)


async def test_a_topic_that_disappears_is_named_and_stops_everything(
    settings: KafkaLogSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_log, "TOPIC_CHECK_S", 0.05)
    settings = replace(settings, append_timeout_ms=1_000)
    async with open_kafka_log(settings, None) as log:
        await log.append(turn())
        await delete_topic(settings)
        with anyio.fail_after(20):
            refusal = await _refusal(log)
        assert "is gone from" in refusal
        with pytest.raises(Misconfigured, match="is gone from"):
            await log.read(0, 1, limit=1, wait_ms=100)
        with pytest.raises(Misconfigured, match="is gone from"):
            await log.end(0)


async def _refusal(log: KafkaLog) -> str:
    """Append until it is refused by name."""
    while True:
        try:
            await log.append(turn())
        except Misconfigured as error:
            return str(error)
        except Unavailable:
            pass
        await anyio.sleep(0.05)


async def _accepts(log: KafkaLog) -> bool:
    try:
        await log.append(turn())
    except Misconfigured:
        return False
    return True
