"""What holds when the database is out of reach, the server is started again, or several of them serve one store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.api import Api, agent_key, entry, fresh, team_stream, together
from tests.plain_client import Answer
from tests.postgres_server import Database
from tests.served import execute
from tests.turnlog_process import TurnlogProcess


@asynccontextmanager
async def database_out_of_reach(server: Database, database: Database) -> AsyncIterator[None]:
    """Nobody can connect to this database, and who is connected is thrown out."""
    name = make_url(database.dsn).database
    await execute(server, f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
    await execute(server, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608 - our own name
    try:
        yield
    finally:
        await execute(server, f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS true')


@asynccontextmanager
async def second_process(api: Api, directory: Path, **settings: str) -> AsyncIterator[Api]:
    """Another server on the same store."""
    process = TurnlogProcess({**api.process.settings, **settings}, directory / "second.log")
    try:
        await process.start()
        yield Api(process.port, process, api.database, api.log)
    finally:
        await process.kill()


async def test_a_database_out_of_reach_is_500_and_comes_back(disturbed: Api, postgres_server: Database) -> None:
    key, ended, saved = agent_key(), agent_key(), agent_key()
    await disturbed.save(key, entry(1))
    assert await disturbed.entries(key) == [entry(1)]  # applied: what is missing from here on is the database
    async with database_out_of_reach(postgres_server, disturbed.database):
        page = await disturbed.page(key)
        assert page.status == 500
        assert page.error()
        for answer in (await disturbed.resume(key), await disturbed.ask("GET", "/v1/sessions")):
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer.error()
        unready = await disturbed.ask("GET", "/readyz")
        assert (unready.status, unready.json()["ok"], unready.json()["database"]) == (503, False, "unreachable")
        assert (await disturbed.ask("GET", "/healthz")).status == 200
        save, *endings = await together(
            disturbed.save(saved, entry(2)), disturbed.delete(ended), disturbed.reset(ended)
        )
        # A log out of reach can't say whether it has the event; one in reach has it.
        assert save.status == (200 if disturbed.log == "kafka" else 503)
        for answer in endings:
            assert answer.status in (500, 503)
            assert answer.error()
    await disturbed.process.ready()
    assert await disturbed.entries(key) == [entry(1)]
    await disturbed.save(saved, entry(2))
    assert await disturbed.entries(saved) == [entry(2)]


async def test_pages_resume_points_and_idempotency_keys_outlive_a_kill(disturbed: Api) -> None:
    key, team, again = agent_key(), fresh("t"), fresh("again-")
    member = f"agent:a:team:{team}"
    for number in range(20):
        await disturbed.save(key, entry(number))
    await disturbed.save_resume(key, "r")
    await disturbed.reset(f"{key}x")

    async def pages() -> list[bytes]:
        return [(await disturbed.page(key, limit=7)).body, (await disturbed.resume(key)).body]

    async def write() -> list[Answer]:
        return [
            await disturbed.save(member, entry(1), idempotency_key=again),
            await disturbed.reset(member, idempotency_key=again),
            await disturbed.save_resume(member, "r", idempotency_key=again),
            await disturbed.clear(team, idempotency_key=again),
        ]

    shown, first = await pages(), await write()
    await disturbed.process.kill()
    await disturbed.process.start()
    assert await pages() == shown
    for before, after in zip(first, await write(), strict=True):
        assert (after.status, after.body) == (200, before.body)
        assert after.headers["turnlog-position"] == before.headers["turnlog-position"]
    assert await disturbed.entries(member) == []


async def test_what_one_process_writes_another_shows(disturbed: Api, tmp_path: Path) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    async with second_process(disturbed, tmp_path, no_projector="true") as other:
        position = (await other.save(key, entry(1))).headers["turnlog-position"]
        assert (await disturbed.page(key, {"turnlog-after": position})).json()["entries"] == [entry(1)]
        async with other.stream(team_stream(team)) as reader:
            assert (await reader.rows(1))[0].data == entry(1)
            position = (await disturbed.save(key, entry(2))).headers["turnlog-position"]
            assert (await reader.rows(1))[0].data == entry(2)
        assert (await other.page(key, {"turnlog-after": position})).json()["entries"] == [entry(1), entry(2)]
        assert (await other.reset(key, idempotency_key=fresh())).status == 200
        # An ending is answered once no query on any process shows what it ended.
        await disturbed.delete(key)
        assert await other.entries(key) == []
        await other.save(key, entry(3))
        await other.clear(team)
        assert await disturbed.entries(key) == []
