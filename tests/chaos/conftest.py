"""What the chaos tests run on."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.chaos.api import api
from tests.chaos.installations import Installation, Pair, postgres_is_gone
from tests.postgres_server import Database, cloned, temporary_data_dir


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


@pytest.fixture(scope="module")
async def pair(
    request: pytest.FixtureRequest,
    postgres_server: Database,
    template_database: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Pair]:
    """Two whole servers on one external database, the log there or in Kafka (by the parameter); never killed."""
    kafka: dict[str, str] = {}
    if request.param == "kafka":
        kafka = {"kafka_bootstrap_servers": request.getfixturevalue("kafka_bootstrap"), "partitions": "4"}
        kafka |= {"topic": f"turnlog-test-{uuid4().hex}"}
    async with cloned(postgres_server, template_database) as database:
        settings = {"database_url": database.dsn, **kafka}
        installation = Installation(request.param, settings, tmp_path_factory.mktemp("pair"))
        try:
            first, second = installation.process(), installation.process()
            await first.start()
            await second.start()
            async with api(first.url) as one, api(second.url) as other:
                yield Pair(installation, one, other)
            assert await first.stop() == 0
            assert await second.stop() == 0
            await installation.verify()
        finally:
            await installation.close()
