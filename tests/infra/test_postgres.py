"""Connections: what they find, how they fail, and that a lost one is replaced."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import asyncpg
import pytest
from sqlalchemy import text

from tests.postgres_server import Database as PlainDatabase
from tests.postgres_server import temporary_data_dir
from turnlog.domain.errors import Bug, Misconfigured, Unavailable
from turnlog.infra import migrations, postgres, postgres_connection
from turnlog.infra.embedded_postgres import embedded_postgres
from turnlog.infra.postgres import Database
from turnlog.projections import generations

SECRET = "what somebody wrote"


@pytest.fixture
async def opened(database: PlainDatabase) -> AsyncIterator[Database]:
    async with Database(database.dsn, pool_size=4) as opened:
        yield opened


async def backend(database: Database) -> int:
    """The process id of the connection that is used next."""
    async with database.connection() as connection:
        found: int = await connection.fetchval("SELECT pg_backend_pid()")
        return found


async def terminate_others(dsn: str) -> int:
    """End every other connection to this database, as an operator or a failover does; how many."""
    connection = await asyncpg.connect(dsn)
    ended = await connection.fetch(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    await connection.close()
    return len(ended)


async def test_a_connection_finds_the_tables_of_the_live_generation_and_waits_for_the_disk(opened: Database) -> None:
    async with opened.connection() as connection:
        assert await connection.fetchval("SELECT 'sessions'::regclass::oid = 'turnlog_g1.sessions'::regclass::oid")
        assert await connection.fetchval("SELECT 'requests'::regclass::oid = 'turnlog.requests'::regclass::oid")
        settings = ("synchronous_commit", "jit", "statement_timeout", "application_name", "TimeZone")
        values = [await connection.fetchval("SELECT current_setting($1)", name) for name in settings]
    assert values == ["on", "off", "30s", "turnlog", "UTC"]
    async with opened.patient_connection() as connection:
        assert await connection.fetchval("SELECT current_setting('statement_timeout')") == "0"
    assert opened.generation == 1


async def test_a_connection_is_used_again_and_carries_no_open_transaction(opened: Database) -> None:
    first = await backend(opened)
    with pytest.raises(RuntimeError):
        async with opened.transaction() as connection:
            await connection.execute("CREATE TABLE never (n int)")
            raise RuntimeError
    async with opened.connection() as connection:
        assert await connection.fetchval("SELECT pg_backend_pid()") == first
        assert await connection.fetchval("SELECT to_regclass('never')") is None
        assert not connection.is_in_transaction()


async def test_idle_connections_that_the_server_ended_are_replaced(opened: Database, database: PlainDatabase) -> None:
    before = await backend(opened)
    for _ in range(20):
        assert await terminate_others(database.dsn) == 1
        read = await opened.read(lambda connection: connection.fetchval("SELECT pg_backend_pid()"))
        assert read != before
        before = read


async def test_a_read_whose_connection_is_ended_under_it_is_tried_once_more(opened: Database) -> None:
    tries = 0

    async def query(connection: "asyncpg.Connection[Any]") -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        answer: str = await connection.fetchval("SELECT 'answer'")
        return answer

    assert await opened.read(query) == "answer"
    assert tries == 2


async def test_a_read_that_takes_too_long_is_not_tried_again(opened: Database) -> None:
    tries = 0

    async def query(connection: "asyncpg.Connection[Any]") -> None:
        nonlocal tries
        tries += 1
        await connection.execute("SET statement_timeout = 50")
        try:
            await connection.execute("SELECT pg_sleep(10)")
        finally:
            await connection.execute("RESET statement_timeout")

    with pytest.raises(Unavailable, match="did not finish a statement in time"):
        await opened.read(query)
    assert tries == 1


async def test_a_connection_lost_inside_the_context_is_unavailable_and_the_next_one_works(opened: Database) -> None:
    with pytest.raises(Unavailable):
        async with opened.connection() as connection:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert await backend(opened) > 0


async def test_when_all_connections_are_in_use_the_wait_is_bounded(
    opened: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "ACQUIRE_S", 0.1)
    async with opened.connection(), opened.connection(), opened.connection(), opened.connection():
        with pytest.raises(Unavailable, match="did not answer in time"):
            await backend(opened)
    assert await backend(opened) > 0


async def test_a_cancelled_query_gives_its_connection_back(opened: Database) -> None:
    async def long_query() -> None:
        async with opened.connection() as connection:
            await connection.execute("SELECT pg_sleep(60)")

    for _ in range(8):
        with anyio.move_on_after(0.05):
            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(long_query)
    async with opened.connection() as a, opened.connection() as b, opened.connection() as c, opened.connection() as d:
        assert [await each.fetchval("SELECT 1") for each in (a, b, c, d)] == [1] * 4


async def test_what_the_database_refuses_is_a_bug_and_quotes_no_value(opened: Database) -> None:
    insert = "INSERT INTO clears VALUES ($1, 'general', 0, 1)"
    with pytest.raises(Bug) as duplicate:
        async with opened.connection() as connection:
            await connection.execute(insert, SECRET)
            await connection.execute(insert, SECRET)
    assert str(duplicate.value) == (
        "the database refused a statement: SQLSTATE 23505 (UniqueViolationError) on clears_pkey"
    )
    with pytest.raises(Bug) as unencodable:
        async with opened.connection() as connection:
            await connection.fetchval("SELECT $1::int", SECRET)
    assert SECRET not in str(unencodable.value)
    with pytest.raises(Bug) as nul:
        async with opened.connection() as connection:
            await connection.fetchval("SELECT $1::text", SECRET + "\x00")
    assert SECRET not in str(nul.value)


async def test_errors_through_the_engine_are_of_the_tree_too(opened: Database) -> None:
    with pytest.raises(Bug, match="42P01"):
        async with opened.engine.connect() as connection:
            await connection.execute(text("SELECT * FROM nothing"))
    with pytest.raises(Unavailable):
        async with opened.engine.connect() as connection:
            await connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))


async def test_a_lost_race_is_unavailable(opened: Database) -> None:
    async with opened.connection() as connection:
        await connection.execute("INSERT INTO clears VALUES ('t', 'general', 0, 1)")
    update = "UPDATE clears SET last_clear = last_clear + 1"
    with pytest.raises(Unavailable, match="40001"):
        async with opened.transaction(isolation="repeatable_read") as slow:
            await slow.fetch("SELECT * FROM clears")
            async with opened.connection() as quick:
                await quick.execute(update)
            await slow.execute(update)


async def test_after_a_flip_new_connections_are_of_the_new_generation(opened: Database) -> None:
    await generations.create_generation(opened.engine, 2)
    live = "SELECT current_schema()"
    async with opened.connection() as early:
        async with opened.connection(generation=2) as other:
            assert await other.fetchval(live) == "turnlog_g2"
            await generations.flip(other, 2)
        async with opened.connection() as connection:
            assert await connection.fetchval(live) == "turnlog_g1"
        assert await opened.refresh_generation() == 2
        async with opened.connection() as connection:
            assert await connection.fetchval(live) == "turnlog_g2"
        assert await early.fetchval(live) == "turnlog_g1"
    async with opened.connection() as a, opened.connection() as b:
        assert [await each.fetchval(live) for each in (a, b)] == ["turnlog_g2"] * 2
    assert await opened.refresh_generation() == opened.generation == 2
    async with opened.connection(generation=1) as former:
        assert await former.fetchval(live) == "turnlog_g1"


async def test_a_read_of_a_generation_that_was_dropped_unnoticed_goes_to_the_live_one(opened: Database) -> None:
    async def schema(connection: "asyncpg.Connection[Any]") -> str:
        await connection.fetch("SELECT * FROM sessions")
        found: str = await connection.fetchval("SELECT current_schema()")
        return found

    assert await opened.read(schema) == "turnlog_g1"
    await generations.create_generation(opened.engine, 2)
    async with opened.patient_connection() as connection:
        await generations.flip(connection, 2)
    assert await opened.read(schema) == "turnlog_g1", "nobody has looked yet"
    await generations.drop_generation(opened.engine, 1)
    async with opened.connection(generation=1) as stale:
        with pytest.raises(asyncpg.UndefinedTableError):
            await schema(stale)
    assert [await opened.read(schema) for _ in range(3)] == ["turnlog_g2"] * 3
    with pytest.raises(Bug, match="42P01"):
        await opened.read(lambda connection: connection.fetch("SELECT * FROM nothing"))


async def test_closing_cuts_off_a_connection_that_stays_in_use(
    database: PlainDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CLOSE_S", 0.1)
    opened = Database(database.dsn)
    async with opened, opened.connection() as connection:
        with anyio.fail_after(5):
            await opened.__aexit__(None, None, None)
        with pytest.raises(asyncpg.InterfaceError):
            await connection.fetchval("SELECT 1")
        with pytest.raises(Unavailable, match="closed"):
            await backend(opened)


async def test_a_database_that_is_not_there_or_not_turnlogs_is_refused_with_what_to_do(
    database: PlainDatabase, postgres_server: PlainDatabase
) -> None:
    for url, kind, message in (
        (database.named("turnlog_nowhere").dsn, Misconfigured, "does not exist: create it"),
        (postgres_server.dsn, Misconfigured, "never migrated"),
        ("postgresql://turnlog@127.0.0.1:1/turnlog", Unavailable, "can't be reached"),
    ):
        with pytest.raises(kind, match=message):
            async with Database(url):
                pass


@pytest.mark.parametrize("url", ["mysql://u:hunter2@h/d", "no url hunter2", "postgresql+psycopg://u:hunter2@h/d"])
def test_a_url_that_is_not_postgres_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(Misconfigured, match="TURNLOG_DATABASE_URL") as refused:
        Database(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
async def test_a_server_that_could_lose_commits_is_refused(setting: str) -> None:
    with temporary_data_dir() as data_dir:
        async with embedded_postgres(data_dir, settings={setting: "off"}) as server:
            with pytest.raises(Misconfigured, match=f"{setting} = on in its postgresql.conf"):
                await migrations.upgrade(server.url)
            with pytest.raises(Misconfigured, match=f"{setting} = on in its postgresql.conf"):
                async with Database(server.dsn):
                    pass


async def test_a_server_that_is_too_old_is_refused(database: PlainDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connection, "OLDEST_SERVER", 99)
    with pytest.raises(Misconfigured, match="is too old: turnlog needs 99 or newer"):
        async with Database(database.dsn):
            pass
