"""One behaviour suite, every adapter: `bench` is a fresh log that other processes may open too."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import anyio
import pytest

from tests.log_settings import KafkaLogSettings
from tests.memory_log import MemoryLog
from tests.own_task import in_own_task
from tests.postgres_server import Database as ServerDatabase
from turnlog.domain.event_log import EventLog
from turnlog.infra.event_ids import now_ms
from turnlog.infra.kafka_log import open_kafka_log
from turnlog.infra.postgres import Database
from turnlog.infra.postgres_log import PostgresLog, ensure_genesis

OpenLog = Callable[[], AbstractAsyncContextManager[EventLog]]


@dataclass(frozen=True, slots=True)
class Bench:
    """`log` is one process's log; each `open()` is another process's on the same storage."""

    log: EventLog
    open: OpenLog


REAL_LOGS = ("postgres", pytest.param("kafka", marks=pytest.mark.needs_kafka))
on_real_logs = pytest.mark.parametrize("open_log", REAL_LOGS, indirect=True)
"""For what the double in memory doesn't have: limits, names that tables can't hold, an end of its own."""


@pytest.fixture(params=[*REAL_LOGS, "memory"])
def open_log(request: pytest.FixtureRequest) -> OpenLog:
    """Opens a process's log on storage of this test's own."""
    if request.param == "postgres":
        return _on_postgres(request.getfixturevalue("database"))
    if request.param == "kafka":
        return _on_kafka(request.getfixturevalue("kafka_bootstrap"), request.getfixturevalue("kafka_topic_name"))
    return _in_memory(MemoryLog(partitions=3))


@pytest.fixture
async def bench(open_log: OpenLog) -> AsyncIterator[Bench]:
    """A fresh log, opened once."""
    async with in_own_task(open_log()) as log:
        yield Bench(log, open_log)


def _on_postgres(database: ServerDatabase) -> OpenLog:
    @asynccontextmanager
    async def opened() -> AsyncIterator[EventLog]:
        async with Database(database.dsn, pool_size=4) as connections:
            log = PostgresLog(connections, await ensure_genesis(connections, uuid4(), now_ms()))
            async with anyio.create_task_group() as tasks:
                await tasks.start(log.run)
                yield log
                tasks.cancel_scope.cancel()

    return opened


def _on_kafka(bootstrap: str, topic: str) -> OpenLog:
    return lambda: open_kafka_log(KafkaLogSettings(bootstrap, topic), None)


def _in_memory(log: MemoryLog) -> OpenLog:
    @asynccontextmanager
    async def opened() -> AsyncIterator[EventLog]:
        yield log

    return opened
