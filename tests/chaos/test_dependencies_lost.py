"""The database stands still or dies, the broker dies, under load: nothing acknowledged is lost, and all recovers."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest

from tests.chaos.api import api, entry
from tests.chaos.form import LONG, timeout_s
from tests.chaos.installations import Installation
from tests.chaos.load import Load
from tests.chaos.own_postgres import OwnPostgres, own_postgres
from tests.chaos.racing import race
from tests.chaos.waiting import eventually
from tests.counts import Report
from tests.kafka_server import KafkaBroker
from tests.postgres_server import Database
from tests.turnlog_process import TurnlogProcess
from turnlog.infra.postgres import CLOSE_S, READ_S

APPEND_TIMEOUT_MS = 2_000
READ_WAIT_MS = 2_000
STANDSTILL_S = 60.0 if LONG else 3.0
DEAD_S = 3.0
END_S = 10.0
LOOK_S = READ_S + CLOSE_S
LONGEST_ANSWER_S = 2 * LOOK_S + (APPEND_TIMEOUT_MS + READ_WAIT_MS) / 1000 + 5
"""A write with a key looks it up, is appended, waits until it is applied, and looks its verdict up."""
ROUNDS = 6 if LONG else 1
WAITS = {"append_timeout_ms": str(APPEND_TIMEOUT_MS), "read_wait_ms": str(READ_WAIT_MS), "partitions": "4"}


@pytest.fixture
async def postgres() -> AsyncIterator[OwnPostgres]:
    """A PostgreSQL that the test may break."""
    async with own_postgres() as server:
        yield server


@pytest.fixture
async def installation(
    request: pytest.FixtureRequest, postgres: OwnPostgres, tmp_path: Path
) -> AsyncIterator[Installation]:
    """Tables in `postgres`; the log there too, or in Kafka (by the parameter)."""
    kafka: dict[str, str] = {}
    if request.param == "kafka":
        kafka = {"kafka_bootstrap_servers": request.getfixturevalue("kafka_bootstrap")}
        kafka |= {"topic": request.getfixturevalue("kafka_topic_name")}
    installation = Installation(request.param, WAITS | kafka | {"database_url": postgres.dsn}, tmp_path)
    try:
        yield installation
    finally:
        await installation.close()


@pytest.fixture
async def on_own_broker(
    database: Database, kafka_broker: KafkaBroker, kafka_topic_name: str, tmp_path: Path
) -> AsyncIterator[Installation]:
    """Like `on_kafka`, on a broker that the test may kill."""
    kafka = {"kafka_bootstrap_servers": kafka_broker.bootstrap, "topic": kafka_topic_name}
    installation = Installation("kafka", WAITS | kafka | {"database_url": database.dsn}, tmp_path)
    try:
        yield installation
    finally:
        await installation.close()


BOTH = [pytest.param("postgres"), pytest.param("kafka", marks=pytest.mark.needs_kafka)]


@pytest.mark.timeout(timeout_s(240))
@pytest.mark.parametrize("installation", BOTH, indirect=True)
async def test_a_database_that_stands_still_or_dies_loses_nothing_and_needs_no_restart(
    installation: Installation, postgres: OwnPostgres, report: Report
) -> None:
    server = installation.process()
    await server.start()
    load = Load([server.url], streams=2)
    async with load.running():
        for _ in range(ROUNDS):
            await load.more(20)
            postgres.freeze()
            await eventually(lambda: _readiness(server, 503), "the server says that it isn't ready")
            await anyio.sleep(STANDSTILL_S)
            postgres.thaw()
            await eventually(lambda: _readiness(server, 200), "the server is ready again")
            await load.more(20)
            await postgres.kill()
            await eventually(lambda: _readiness(server, 503), "the server says that it isn't ready")
            await anyio.sleep(DEAD_S)
            await postgres.start()
            await eventually(lambda: _readiness(server, 200), "the server is ready again")
            await load.more(20)
    assert server.is_running
    await load.check()
    assert load.slowest_s < LONGEST_ANSWER_S
    assert await server.stop() == 0
    await installation.verify()
    report(f"{ROUNDS} standstills and kills of the database, slowest answer {load.slowest_s:.1f} s; {load.counts()}")


@pytest.mark.timeout(timeout_s(240))
async def test_a_broker_that_dies_loses_nothing_and_needs_no_restart(
    on_own_broker: Installation, kafka_broker: KafkaBroker, report: Report
) -> None:
    server = on_own_broker.process()
    await server.start()
    load = Load([server.url], streams=4)
    async with load.running():
        for _ in range(ROUNDS):
            await load.more(20)
            await kafka_broker.kill()
            await eventually(lambda: _readiness(server, 503), "the server says that it isn't ready")
            await anyio.sleep(DEAD_S)
            await kafka_broker.start()
            await eventually(lambda: _readiness(server, 200), "the server is ready again", within_s=60)
            await load.more(20)
    assert server.is_running
    await load.check()
    assert load.slowest_s < (APPEND_TIMEOUT_MS + READ_WAIT_MS) / 1000 + 5
    assert await server.stop() == 0
    await on_own_broker.verify()
    report(f"{ROUNDS} kills of the broker, slowest answer {load.slowest_s:.1f} s; {load.counts()}")


@pytest.mark.parametrize("installation", [pytest.param("postgres")], indirect=True)
async def test_while_the_database_stands_still_requests_are_answered_and_sigterm_ends_in_time(
    installation: Installation, postgres: OwnPostgres
) -> None:
    server = installation.process()
    await server.start()
    key = "agent:a1:native"
    async with api(server.url) as client:
        assert (await client.save(key, entry("e1"))).status == 200
        assert await client.entry_ids(key) == ["e1"]
        postgres.freeze()
        answers = await race(
            client.save(key, entry("e2")), client.save(key, entry("e3"), Idempotency_Key="k3"), client.page(key)
        )
        assert [answer.status for answer in answers] == [503, 500, 500], answers
        assert max(answer.took_s for answer in answers) < LOOK_S + 3
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.save, key, entry("e4"))
            tasks.start_soon(client.page, key)
            await anyio.sleep(0.5)
            started = anyio.current_time()
            assert await server.stop() == 0, server.output()[-2000:]
            assert anyio.current_time() - started < END_S
        postgres.thaw()
        await server.start()
        shown = await client.entry_ids(key)
        assert shown is not None
        assert shown[0] == "e1"
        assert set(shown) <= {"e1", "e2", "e4"}


async def _readiness(server: TurnlogProcess, status: int) -> bool:
    """Whether `/readyz` answers with this status, and in JSON whatever it says."""
    async with httpx.AsyncClient(timeout=10) as client:
        answer = await client.get(f"{server.url}/readyz")
    assert answer.status_code in (200, 503)
    assert isinstance(answer.json(), dict)
    return answer.status_code == status
