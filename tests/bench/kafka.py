"""A Kafka for the benchmark: the one named by TURNLOG_TEST_KAFKA, or a local one of its own."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kafka_local.broker import LocalBroker
from tests.kafka_local.installation import prepare


@asynccontextmanager
async def kafka_running() -> AsyncIterator[str]:
    """Bootstrap servers of a running Kafka."""
    named = os.environ.get("TURNLOG_TEST_KAFKA")
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory() as home:
        broker = LocalBroker(prepare(lambda text: print(text, file=sys.stderr)), Path(home))  # noqa: T201 - progress
        broker.launch()
        broker.wait_until_serving()
        try:
            yield broker.bootstrap
        finally:
            broker.terminate()
