"""A database that is slow, gone or not caught up: C25, C31, C33.

| case | tested now | waits for a later surface |
| - | - | - |
| C25 | what isn't projected yet is "not yet" (503, Retry-After) in every read, never an empty answer | - |
| C31 | reads that wait for the database wait side by side, and hold up nothing else | - |
| C33 | after every connection was ended while idle, each operation works at once, and once | - |
"""

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
import asyncpg
import pytest

from tests.api import PATH, RESUME, Api, agent_key, entry, fresh, numbered, target, together
from tests.plain_client import Answer
from tests.postgres_server import Database, cloned
from tests.served import execute
from tests.turnlog_process import TurnlogProcess
from turnlog.projections.tables import generation_schema


@pytest.fixture
async def unprojected(postgres_server: Database, template_database: Database, tmp_path: Path) -> AsyncIterator[Api]:
    """Talks to a server whose projector runs elsewhere, or rather doesn't."""
    settings = {"no_projector": "1", "read_wait_ms": "200"}
    async with cloned(postgres_server, template_database) as database:
        process = TurnlogProcess({"database_url": database.dsn, **settings}, tmp_path / "unprojected.log")
        try:
            yield await answering(process, database)
        finally:
            await process.kill()


async def answering(process: TurnlogProcess, database: Database) -> Api:
    """Launch a server that needn't be ready: it is up, and its tables may be behind."""
    await process.launch()
    api = Api(process.port, process, database, "postgres")
    with anyio.fail_after(30):
        while True:
            try:
                assert (await api.ask("GET", "/healthz")).status == 200
            except ConnectionError:
                await anyio.sleep(0.05)
            else:
                return api


async def test_c25_what_is_not_projected_yet_is_never_an_empty_history(unprojected: Api, tmp_path: Path) -> None:
    name = fresh("a")
    key = f"agent:{name}:native"
    for start in range(0, 20, 5):
        saved = await unprojected.save(key, *numbered(range(start, start + 5)))
        assert saved.status == 200
    after = {"turnlog_after": saved.headers["turnlog-position"]}
    reads = [target(PATH, sessionKey=key), target(RESUME, sessionKey=key), target("/v1/sessions", prefix=key)]
    answers = [await unprojected.ask("GET", read, given=given) for read in reads for given in ({}, after)]
    writes = [
        await unprojected.reset(agent_key()),
        await unprojected.delete(agent_key()),
        await unprojected.save_resume(key, "r"),
    ]
    for answer in answers + writes:
        assert answer.status == 503
        assert answer.error()
        assert int(answer.headers["retry-after"]) >= 1
    elsewhere = {"database_url": unprojected.database.dsn, "no_projector": "1", "read_wait_ms": "200"}
    linear = TurnlogProcess(elsewhere | {"reads": "linear"}, tmp_path / "linear.log")
    projector = TurnlogProcess({"database_url": unprojected.database.dsn}, tmp_path / "project.log", command="project")
    try:
        other = await answering(linear, unprojected.database)
        for read in reads:
            assert (await other.ask("GET", read)).status == 503
        await projector.launch()
        with anyio.fail_after(30):
            while (await unprojected.page(key)).status == 503:
                await anyio.sleep(0.05)
        assert await unprojected.entries(key) == numbered(range(20))
        assert await other.entries(key) == numbered(range(20))
    finally:
        await linear.kill()
        await projector.kill()


async def test_c31_reads_wait_side_by_side(api: Api) -> None:
    key = agent_key()
    await api.save(key, entry(1))
    assert await api.ids(key) == ["e1"]
    lock = await asyncpg.connect(api.database.dsn)
    try:
        async with anyio.create_task_group() as tasks, lock.transaction():
            await lock.execute(f"LOCK TABLE {generation_schema(1)}.transcript_entries IN ACCESS EXCLUSIVE MODE")
            start = time.perf_counter()
            reads = []

            async def read() -> None:
                reads.append((await api.entries(key), time.perf_counter() - start))

            for _ in range(5):
                tasks.start_soon(read)
            while await lock.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < 5:
                assert time.perf_counter() - start < 5
                # Whoever needs no table isn't held up: this would wait as well if a read blocked the loop.
                with anyio.fail_after(1):
                    assert (await api.ask("GET", "/healthz")).status == 200
            assert (await api.ask("GET", "/openapi.json")).status == 200
            assert not reads
            released = time.perf_counter() - start
    finally:
        await lock.close()
    assert [found for found, _ in reads] == [[entry(1)]] * 5
    assert max(at for _, at in reads) - released < 1.0


async def test_c31_no_driver_that_blocks_is_imported() -> None:
    modules = "turnlog.services.serve, turnlog.services.composition, turnlog.infra.kafka_log, sys"
    script = f"import {modules}; print(*sys.modules)"
    done = await anyio.run_process([sys.executable, "-W", "error", "-c", script], stderr=subprocess.PIPE)
    loaded = {name.partition(".")[0] for name in done.stdout.decode().split()}
    assert {"asyncpg", "aiokafka"} <= loaded
    assert not loaded & {"psycopg", "psycopg2", "pg8000", "kafka", "confluent_kafka", "requests", "urllib3"}


_END_ALL = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def test_c33_each_operation_survives_connections_that_ended_while_idle(disturbed: Api) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    saves = 0

    async def save(**headers: str) -> Answer:
        nonlocal saves
        saves += 1
        return await disturbed.save(key, entry(saves), **headers)

    operations: dict[str, Callable[[], Awaitable[Answer]]] = {
        "save": save,
        "save with a key": lambda: save(idempotency_key=fresh()),
        "page": lambda: disturbed.page(key),
        "save_resume": lambda: disturbed.save_resume(key, "r"),
        "resume": lambda: disturbed.resume(key),
        "sessions": lambda: disturbed.ask("GET", "/v1/sessions"),
        "clear": lambda: disturbed.clear(fresh("t")),
        "reset": lambda: disturbed.reset(agent_key()),
        "delete": lambda: disturbed.delete(agent_key()),
    }
    for turn in range(3):
        for name, operation in operations.items():
            # Fill the pool, then take every connection away.
            assert {answer.status for answer in await together(*(disturbed.page(key) for _ in range(8)))} == {200}
            await execute(disturbed.database, _END_ALL)
            answer = await operation()
            assert answer.status == 200, (turn, name, answer)
    assert await disturbed.ids(key) == [f"e{number}" for number in range(1, saves + 1)]
