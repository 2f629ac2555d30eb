"""A pytest plugin: running servers to talk to over a socket, each on both logs.

`api` talks to a server with default settings, shared by the whole run: tests use session keys of their own. `guarded`
talks to one with an access token, the default rate limit and quick keepalives. `disturbed` talks to one that a
test may kill, cut off from its database or join by other processes, and leaves running.
"""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy.engine import make_url

from tests.api import Api, fresh
from tests.postgres_server import Database
from tests.turnlog_process import TurnlogProcess
from turnlog.projections.tables import LEDGER_SCHEMA, generation_schema

TOKEN = "tok-en_1.~"
GUARDED = {"access_token": TOKEN, "rate_limit": "3000", "keepalive_s": "1", "read_wait_ms": "2000"}
IMPATIENT = {"append_timeout_ms": "4000", "read_wait_ms": "3000"}
PARTITIONS = "3"


@pytest.fixture(scope="session", params=["postgres", pytest.param("kafka", marks=pytest.mark.needs_kafka)])
def log_settings(request: pytest.FixtureRequest) -> dict[str, str]:
    """Where the events are: the settings that say so. Empty for the log in Postgres."""
    if request.param == "postgres":
        return {}
    return {"kafka_bootstrap_servers": request.getfixturevalue("kafka_bootstrap"), "partitions": PARTITIONS}


@asynccontextmanager
async def serving(
    server: Database, template: Database, log_settings: dict[str, str], directory: Path, **settings: str
) -> AsyncIterator[Api]:
    """A server on a store of its own."""
    async with own_store(server, template, log_settings) as (database, store):
        process = TurnlogProcess({"lease_ms": "1000", **store, **settings}, directory / "serve.log")
        try:
            await process.start()
            yield Api(process.port, process, database, "kafka" if log_settings else "postgres")
        finally:
            await process.kill()


@asynccontextmanager
async def own_store(
    server: Database, template: Database, log_settings: dict[str, str]
) -> AsyncIterator[tuple[Database, dict[str, str]]]:
    """A database with turnlog's tables, and the settings that name it, and a topic if the log is in Kafka."""
    name, filled = f"turnlog_served_{uuid.uuid4().hex[:12]}", make_url(template.dsn).database
    await execute(server, f'CREATE DATABASE "{name}" TEMPLATE "{filled}"')
    database = server.named(name)
    topic = {"topic": fresh("turnlog-served-")} if log_settings else {}
    try:
        yield database, {"database_url": database.dsn, **log_settings, **topic}
    finally:
        await execute(server, f'DROP DATABASE "{name}" WITH (FORCE)')


async def execute(database: Database, statement: str) -> None:
    """One statement on a connection of its own."""
    await fetch(database, statement)


async def fetch(database: Database, statement: str, *arguments: object) -> list[asyncpg.Record]:
    """A statement's rows, by a connection of its own that finds the tables of the first generation by their names."""
    path = f"{generation_schema(1)}, {LEDGER_SCHEMA}"
    connection = await asyncpg.connect(database.dsn, server_settings={"search_path": path})
    try:
        return await connection.fetch(statement, *arguments)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
async def api(
    postgres_server: Database,
    template_database: Database,
    log_settings: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Api]:
    """Talks to the run's server."""
    directory = tmp_path_factory.mktemp("served")
    async with serving(postgres_server, template_database, log_settings, directory) as found:
        yield found


@pytest.fixture(scope="session")
async def guarded(
    postgres_server: Database,
    template_database: Database,
    log_settings: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Api]:
    """Talks to the run's server that asks for a token. What is counted per client needs an address of its own."""
    directory = tmp_path_factory.mktemp("guarded")
    async with serving(postgres_server, template_database, log_settings, directory, **GUARDED) as found:
        yield found


@pytest.fixture(scope="session")
async def disturbed(
    postgres_server: Database,
    template_database: Database,
    log_settings: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Api]:
    """Talks to the run's server that tests disturb, which gives up waiting sooner than others."""
    directory = tmp_path_factory.mktemp("disturbed")
    async with serving(postgres_server, template_database, log_settings, directory, append_timeout_ms="5000") as found:
        yield found
