"""Topics as an operator, another producer or an accident leaves them: straight on the broker, past turnlog."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.log_settings import KafkaLogSettings
from turnlog.domain.events import Event
from turnlog.domain.partitioning import partition_of
from turnlog.infra.cloud_events import encode_headers, encode_key
from turnlog.infra.kafka_clients import open_admin
from turnlog.infra.kafka_topic import contract

QUICK_COMPACTION = {"segment.ms": "300", "max.compaction.lag.ms": "300"}
"""Keeps the contract, and lets the cleaner work within a second."""


async def make_topic(settings: KafkaLogSettings, overrides: Mapping[str, str] | None = None) -> None:
    """A topic with the contract's configuration, except for `overrides`."""
    configs = {rule.name: rule.value for rule in contract(settings)} | dict(overrides or {})
    async with open_admin(str(settings.kafka_bootstrap_servers)) as admin:
        new = NewTopic(settings.topic, settings.partitions, settings.replication_factor, topic_configs=configs)
        with anyio.fail_after(20):
            while True:
                answer = await admin.create_topics([new])
                if answer.topic_errors[0][1] == 0:
                    break
                await anyio.sleep(0.1)  # one that was just deleted may still be there
            while not _led(await admin.describe_topics([settings.topic]), settings.partitions):
                await anyio.sleep(0.05)


async def delete_topic(settings: KafkaLogSettings) -> None:
    """Delete the topic."""
    async with open_admin(str(settings.kafka_bootstrap_servers)) as admin:
        await admin.delete_topics([settings.topic])
        with anyio.fail_after(20):
            while await _exists(admin, settings.topic):
                await anyio.sleep(0.05)


async def configure_topic(settings: KafkaLogSettings, overrides: Mapping[str, str]) -> None:
    """Set the topic's configuration to the contract's, except for `overrides`."""
    configs = {rule.name: rule.value for rule in contract(settings)} | dict(overrides)
    async with open_admin(str(settings.kafka_bootstrap_servers)) as admin:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, settings.topic, configs=configs)])
    with anyio.fail_after(20):
        while not configs.items() <= (await configuration(settings)).items():
            await anyio.sleep(0.05)


async def configuration(settings: KafkaLogSettings) -> dict[str, str]:
    """The topic's configuration as the broker tells it."""
    async with open_admin(str(settings.kafka_bootstrap_servers)) as admin:
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, settings.topic)])
        return {entry[0]: entry[1] for entry in answer.resources[0][4]}


async def write_raw(
    settings: KafkaLogSettings,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes]] = (),
) -> int:
    """Another producer's record; its offset."""
    producer = AIOKafkaProducer(bootstrap_servers=settings.kafka_bootstrap_servers, acks="all")
    await producer.start()
    try:
        sent = await producer.send_and_wait(settings.topic, value, key=key, partition=partition, headers=list(headers))
        return int(sent.offset)
    finally:
        await producer.stop()


async def write_event(settings: KafkaLogSettings, event: Event, source: bytes) -> int:
    """The event as a producer of the log with `source` writes it; its offset."""
    partition = partition_of(event.stream, settings.partitions)
    return await write_raw(settings, partition, encode_key(event.key), event.data, encode_headers(event, source))


async def raw_records(settings: KafkaLogSettings, partition: int) -> list[Any]:
    """Every record of the partition as the client returns it."""
    tp = TopicPartition(settings.topic, partition)
    consumer = AIOKafkaConsumer(bootstrap_servers=settings.kafka_bootstrap_servers, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([tp])
        consumer.seek(tp, 0)
        end = (await consumer.end_offsets([tp]))[tp]
        found: list[Any] = []
        with anyio.fail_after(20):
            while await consumer.position(tp) < end:
                found += (await consumer.getmany(tp, timeout_ms=200)).get(tp, [])
        return found
    finally:
        await consumer.stop()


def _led(topics: Sequence[dict[str, Any]], partitions: int) -> bool:
    found = topics[0]["partitions"]
    return len(found) == partitions and all(partition["leader"] >= 0 for partition in found)


async def _exists(admin: AIOKafkaAdminClient, topic: str) -> bool:
    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    return bool(answer.resources[0][0] == 0)
