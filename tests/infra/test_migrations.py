"""The migrations make what the metadata says, from any start, whoever runs them."""

import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from functools import partial

import anyio
import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, MetaData
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from tests.infra.schema_facts import schema_facts
from tests.postgres_server import Database as PlainDatabase
from turnlog.domain.errors import Bug, Misconfigured
from turnlog.infra import migrations
from turnlog.infra.log_tables import log_metadata
from turnlog.infra.postgres import Database
from turnlog.projections import generations
from turnlog.projections.tables import ledger_metadata, projection_metadata

UPGRADE = "import anyio, sys; from turnlog.infra import migrations; anyio.run(migrations.upgrade, sys.argv[1])"


@pytest.fixture
async def empty(postgres_server: PlainDatabase) -> AsyncIterator[PlainDatabase]:
    """A database with nothing in it."""
    name = f"turnlog_empty_{uuid.uuid4().hex[:12]}"
    server = await asyncpg.connect(postgres_server.dsn)
    await server.execute(f'CREATE DATABASE "{name}"')
    try:
        yield postgres_server.named(name)
    finally:
        await server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await server.close()


async def differences(dsn: str, schema: str, *metadata: MetaData) -> list[object]:
    """What Alembic would change for the metadata; tables that name no schema are looked for in `schema`."""

    def compare(connection: Connection) -> list[object]:
        options: dict[str, object] = {
            "include_schemas": bool(metadata[0].schema),
            "include_name": lambda name, kind, _parents: kind != "schema" or name == metadata[0].schema,
            "compare_type": True,
            "compare_server_default": True,
            "version_table_schema": "turnlog",
        }
        context = MigrationContext.configure(connection, opts=options)
        found: list[object] = compare_metadata(context, metadata if len(metadata) > 1 else metadata[0])  # type: ignore[arg-type]  # its stubs leave out lists
        return found

    only_schema = partial(asyncpg.connect, dsn, server_settings={"search_path": schema})
    engine = create_async_engine("postgresql+asyncpg://", async_creator=only_schema, poolclass=NullPool)
    async with engine.connect() as connection:
        return await connection.run_sync(compare)


async def test_the_migrated_ledgers_and_log_equal_the_metadata(database: PlainDatabase) -> None:
    assert await differences(database.dsn, "turnlog_g1", ledger_metadata, log_metadata) == []


async def test_the_migrated_projection_tables_equal_the_metadata(database: PlainDatabase) -> None:
    assert await differences(database.dsn, "turnlog_g1", projection_metadata) == []


async def test_a_created_generation_equals_the_metadata(database: PlainDatabase) -> None:
    async with Database(database.dsn) as opened:
        await generations.create_generation(opened.engine, 2)
    assert await differences(database.dsn, "turnlog_g2", projection_metadata) == []


async def test_alembics_comparison_would_see_a_lost_column(database: PlainDatabase) -> None:
    connection = await asyncpg.connect(database.dsn)
    await connection.execute("ALTER TABLE turnlog_g1.sessions DROP COLUMN lease")
    await connection.execute("ALTER TABLE turnlog.requests ALTER COLUMN stored TYPE bigint")
    await connection.close()
    assert len(await differences(database.dsn, "turnlog_g1", projection_metadata)) == 1
    assert len(await differences(database.dsn, "turnlog_g1", ledger_metadata, log_metadata)) == 1


async def test_checks_partial_indexes_and_storage_options_agree_too(
    database: PlainDatabase, empty: PlainDatabase
) -> None:
    """Alembic compares none of them, the catalogs do."""
    async with Database(database.dsn) as opened, opened.patient_connection() as connection:
        await generations.create_generation(opened.engine, 2)
        migrated = await schema_facts(connection, "turnlog_g1")
        created = await schema_facts(connection, "turnlog_g2")
        ledgers = await schema_facts(connection, "turnlog")
    assert migrated == created
    assert {name for name, *_ in migrated["columns"]} == set(projection_metadata.tables)
    engine = create_async_engine(empty.url, poolclass=NullPool)
    async with engine.begin() as plain:
        await plain.exec_driver_sql("CREATE SCHEMA turnlog")
        await plain.run_sync(ledger_metadata.create_all)
        await plain.run_sync(log_metadata.create_all)
    from_metadata = await asyncpg.connect(empty.dsn)
    assert await schema_facts(from_metadata, "turnlog") == ledgers
    await from_metadata.close()


async def test_an_upgrade_twice_changes_nothing(empty: PlainDatabase) -> None:
    assert await migrations.current_revision(empty.url) is None
    await migrations.upgrade(empty.dsn)
    newest = await migrations.current_revision(empty.url)
    assert newest is not None
    await migrations.upgrade(empty.url)
    assert await migrations.current_revision(empty.dsn) == newest
    async with Database(empty.dsn) as database, database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM event_log_head") == 1
        assert await connection.fetch("SELECT live, previous FROM generations") == [(1, None)]


async def test_processes_that_upgrade_at_once_are_all_content(empty: PlainDatabase) -> None:
    command = [sys.executable, "-c", UPGRADE, empty.dsn]
    ended: list[subprocess.CompletedProcess[bytes]] = []

    async def another_process() -> None:
        ended.append(await anyio.run_process(command, check=False))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(another_process)
            tasks.start_soon(another_process)
            tasks.start_soon(migrations.upgrade, empty.url)
            tasks.start_soon(migrations.upgrade, empty.url)
    assert [(process.returncode, process.stderr) for process in ended] == [(0, b""), (0, b"")]
    assert await migrations.current_revision(empty.url) is not None


async def test_a_database_of_a_newer_turnlog_is_refused(database: PlainDatabase) -> None:
    connection = await asyncpg.connect(database.dsn)
    await connection.execute("UPDATE turnlog.alembic_version SET version_num = '9999'")
    await connection.close()
    with pytest.raises(Misconfigured, match="revision 9999, which this turnlog does not know"):
        await migrations.upgrade(database.url)


async def test_a_flip_makes_another_generation_live_and_keeps_the_former(database: PlainDatabase) -> None:
    async with Database(database.dsn) as opened:
        await generations.create_generation(opened.engine, 2)
        async with opened.connection() as connection:
            with pytest.raises(Bug, match="does not exist"):
                await generations.flip(connection, 3)
            assert await generations.flip(connection, 2) == 1
            assert await generations.live_generation(connection) == 2
            with pytest.raises(Bug, match="live already"):
                await generations.flip(connection, 2)
            assert await connection.fetchval("SELECT previous FROM turnlog.generations") == 1


async def test_only_a_generation_that_is_not_live_can_be_dropped(database: PlainDatabase) -> None:
    async with Database(database.dsn) as opened:
        with pytest.raises(Bug, match="is live"):
            await generations.drop_generation(opened.engine, 1)
        await generations.create_generation(opened.engine, 2)
        with pytest.raises(Bug, match="42P06"):
            await generations.create_generation(opened.engine, 2)
        await generations.drop_generation(opened.engine, 2)
        await generations.drop_generation(opened.engine, 2)
        async with opened.connection() as connection:
            assert await connection.fetchval("SELECT to_regnamespace('turnlog_g2')") is None
            assert await connection.fetchval("SELECT count(*) FROM sessions") == 0
