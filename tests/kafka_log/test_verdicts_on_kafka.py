"""The whole of turnlog on a Kafka log, where a producer dies under a request: what its caller is told."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiokafka import TopicPartition

from tests.kafka_log.topics import delete_topic, make_topic, write_event
from tests.log_settings import KafkaLogSettings, deletion
from tests.own_task import in_own_task
from tests.postgres_server import Database as ServerDatabase
from turnlog.domain.entries import Entry, usable_entries
from turnlog.domain.errors import Gone, Misconfigured
from turnlog.domain.partitioning import partition_of
from turnlog.domain.session_key import stream_of
from turnlog.infra.cloud_events import source_of
from turnlog.infra.kafka_log import KafkaLog
from turnlog.infra.kafka_producers import Producers
from turnlog.infra.settings import Settings, load_settings
from turnlog.services.composition import Turnlog, open_turnlog
from turnlog.services.event_factory import Origin

KEY = "agent:a1:native"


@pytest.fixture
def settings(kafka_bootstrap: str, kafka_topic_name: str, database: ServerDatabase) -> Settings:
    """Kafka for the log, the test's database for the tables."""
    return load_settings(
        {
            "kafka_bootstrap_servers": kafka_bootstrap,
            "topic": kafka_topic_name,
            "partitions": 3,
            "database_url": database.dsn,
        }
    )


@pytest.fixture
async def turnlog(settings: Settings) -> AsyncIterator[Turnlog]:
    """A running turnlog."""
    async with in_own_task(open_turnlog(settings)) as running:
        yield running


def entries(entry_id: str) -> list[Entry]:
    """One entry."""
    return usable_entries([msgspec.json.encode({"entryId": entry_id, "role": "user", "text": "hi"})])


async def kill_producer(turnlog: Turnlog) -> None:
    """The broker refuses whatever this producer sends to the session's partition from now on."""
    assert isinstance(turnlog.log, KafkaLog)
    producer = await turnlog.log._producers.current()
    tp = TopicPartition(turnlog.settings.topic, partition_of(stream_of(KEY), turnlog.log.partitions))
    producer.client._txn_manager.increment_sequence_number(tp, 5)


async def page(turnlog: Turnlog) -> str:
    """The session's newest entries."""
    return (await turnlog.reading.page(KEY, limit=100, before=None)).entries.decode()


async def test_a_plain_save_whose_producer_died_is_answered_by_its_verdict(turnlog: Turnlog) -> None:
    await turnlog.conversations.save_entries(KEY, entries("e1"))
    await kill_producer(turnlog)
    saved = await turnlog.conversations.save_entries(KEY, entries("e2"))
    assert saved.position is not None
    assert (await page(turnlog)).count('"entryId"') == 2


async def test_a_plain_save_whose_session_was_deleted_before_it_was_sent_again_is_gone(
    turnlog: Turnlog, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await turnlog.conversations.save_entries(KEY, entries("e1"))
    await kill_producer(turnlog)
    log_settings = KafkaLogSettings(settings.kafka_bootstrap_servers, settings.topic)

    async def open_later(producers: Producers) -> Any:  # noqa: ANN401 - aiokafka has no types
        await write_event(log_settings, deletion(KEY), source_of(turnlog.log.log_id))
        return await opened(producers)

    opened = Producers._open
    monkeypatch.setattr(Producers, "_open", open_later)
    with pytest.raises(Gone):
        await turnlog.conversations.save_entries(KEY, entries("e2"))
    assert await page(turnlog) == ""


async def test_a_keyed_save_and_an_ending_survive_their_producer(turnlog: Turnlog) -> None:
    origin = Origin(idempotency_key="k1", request_hash=b"r" * 32)
    await kill_producer(turnlog)
    first = await turnlog.conversations.save_entries(KEY, entries("e1"), origin=origin)
    again = await turnlog.conversations.save_entries(KEY, entries("e1"), origin=origin)
    assert again == first
    await kill_producer(turnlog)
    await turnlog.conversations.reset_context([KEY], KEY)
    await kill_producer(turnlog)
    await turnlog.conversations.delete_session(KEY)
    assert await page(turnlog) == ""


async def test_tables_of_one_topic_refuse_another_and_a_recreated_one(settings: Settings) -> None:
    async with open_turnlog(settings) as running:
        log_id = running.log.log_id
        await running.conversations.save_entries(KEY, entries("e1"))
    log_settings = KafkaLogSettings(settings.kafka_bootstrap_servers, settings.topic)
    await delete_topic(log_settings)
    with pytest.raises(Misconfigured, match=f"these tables belong to log {log_id}"):
        async with open_turnlog(settings):
            pass
    await make_topic(log_settings)
    with pytest.raises(Misconfigured, match=rf"these tables belong to log {log_id}, .* Was it recreated\?"):
        async with open_turnlog(settings):
            pass
