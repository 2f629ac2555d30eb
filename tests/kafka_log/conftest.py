"""A topic of the test's own on the session's broker, and the log in it."""

from collections.abc import AsyncIterator

import pytest

from tests.log_settings import KafkaLogSettings
from tests.own_task import in_own_task
from turnlog.infra.kafka_log import KafkaLog, open_kafka_log


@pytest.fixture
def settings(kafka_bootstrap: str, kafka_topic_name: str) -> KafkaLogSettings:
    """Settings with a topic that doesn't exist yet."""
    return KafkaLogSettings(kafka_bootstrap, kafka_topic_name)


@pytest.fixture
async def log(settings: KafkaLogSettings) -> AsyncIterator[KafkaLog]:
    """A fresh log in that topic."""
    async with in_own_task(open_kafka_log(settings, None)) as opened:
        yield opened
