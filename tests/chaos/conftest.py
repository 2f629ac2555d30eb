"""What the chaos tests run on, and the counts they print."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.installations import Installation, postgres_is_gone
from tests.postgres_server import Database, temporary_data_dir

Report = Callable[[str], None]


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Iterator[Report]:
    """Prints a line of counts at the end of the test, whatever is captured."""
    lines: list[str] = []
    yield lines.append
    with request.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        for line in lines:
            print(f"\n  {request.node.name}: {line}", flush=True)  # noqa: T201 - what the test is for


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Installation]:
    """`turnlog serve` as it comes: PostgreSQL in its own data directory, which holds the log too."""
    with temporary_data_dir() as data_dir:
        installation = Installation("embedded", {"data_dir": str(data_dir)}, tmp_path)
        try:
            yield installation
        finally:
            await installation.close()
            await postgres_is_gone(data_dir)


@pytest.fixture
async def on_postgres(database: Database, tmp_path: Path) -> AsyncIterator[Installation]:
    """Tables and log in an external database, for any number of processes."""
    installation = Installation("postgres", {"database_url": database.dsn}, tmp_path)
    try:
        yield installation
    finally:
        await installation.close()


@pytest.fixture
async def on_kafka(
    database: Database, kafka_bootstrap: str, kafka_topic_name: str, tmp_path: Path
) -> AsyncIterator[Installation]:
    """The log in a topic of four partitions, the tables in an external database, for any number of processes."""
    settings = {"database_url": database.dsn, "kafka_bootstrap_servers": kafka_bootstrap, "topic": kafka_topic_name}
    installation = Installation("kafka", settings | {"partitions": "4"}, tmp_path)
    try:
        yield installation
    finally:
        await installation.close()


@pytest.fixture
def installation(request: pytest.FixtureRequest) -> Installation:
    """One of the above, by the parameter's name."""
    found: Installation = request.getfixturevalue(request.param)
    return found
