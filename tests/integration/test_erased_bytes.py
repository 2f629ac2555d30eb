"""After an erasure no file of the database's directory holds it: heaps, indexes, TOAST, WAL, statistics, logs."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import anyio
import pytest

from tests.integration.erasing import (
    CANARY,
    QUICK,
    K,
    append_all,
    canaries,
    deletion,
    files_holding,
    postgres_log,
    project_all,
    write_and_delete,
)
from tests.postgres_server import temporary_data_dir
from turnlog.infra import migrations
from turnlog.infra.embedded_postgres import embedded_postgres
from turnlog.infra.postgres import Database
from turnlog.services.eraser import Eraser
from turnlog.services.rebuild import rebuild_tables
from turnlog.services.verify import verify_tables


@pytest.fixture
async def place() -> AsyncIterator[tuple[Database, Path]]:
    """A database on an embedded server of the test's own, with the settings that users get, and its directory."""
    with temporary_data_dir() as data_dir:
        async with embedded_postgres(data_dir) as server:
            await migrations.upgrade(server.dsn)
            async with Database(server.dsn, pool_size=6) as database:
                yield database, data_dir / "postgres" / "data"


async def holding(directory: Path, content: str = CANARY) -> list[str]:
    return await anyio.to_thread.run_sync(files_holding, directory, content.encode())


async def analyze(database: Database) -> None:
    async with database.patient_connection() as connection:
        await connection.execute("ANALYZE")
        await connection.execute("CHECKPOINT")


async def previous_rows(database: Database) -> str:
    async with database.connection() as connection:
        return str(await connection.fetch("SELECT * FROM turnlog_g1.transcript_entries"))


async def test_after_an_erasure_no_file_of_the_database_holds_the_canary(place: tuple[Database, Path]) -> None:
    database, directory = place
    async with postgres_log(database) as log:
        await write_and_delete(database, log)
        await analyze(database)
        assert await holding(directory)
        assert await Eraser(database, log, QUICK).work_once()
        assert await holding(directory) == []
        assert await holding(directory, "kept")
        await project_all(database, log)
        await verify_tables(database, log)


async def test_statistics_of_the_planner_hold_no_content(place: tuple[Database, Path]) -> None:
    database, _ = place
    async with postgres_log(database) as log:
        for seed in range(3):
            await write_and_delete(database, log, seed=seed)
        await analyze(database)
        async with database.connection() as connection:
            rows = await connection.fetch("SELECT most_common_vals::text, histogram_bounds::text FROM pg_stats")
        assert rows
        assert not [row for row in rows if CANARY in str(tuple(row))]


async def test_the_generation_kept_for_rollback_and_what_a_rebuild_wrote_forget_too(
    place: tuple[Database, Path],
) -> None:
    database, directory = place
    async with postgres_log(database) as log:
        random = Random(1)
        await append_all(log, canaries(random, K, CANARY))
        await project_all(database, log)
        await rebuild_tables(database, log)
        await database.refresh_generation()
        await append_all(log, [deletion(random, K)])
        await project_all(database, log)
        assert CANARY in await previous_rows(database)
        eraser = Eraser(database, log, QUICK)
        assert await eraser.work_once()
        assert await holding(directory) == []
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT previous FROM generations") == 1
        await verify_tables(database, log)


async def test_a_rebuild_of_a_log_that_is_not_erased_yet_leaves_nothing_behind_after_the_next_rewrite(
    place: tuple[Database, Path],
) -> None:
    database, directory = place
    async with postgres_log(database) as log:
        await write_and_delete(database, log)
        await rebuild_tables(database, log)
        await database.refresh_generation()
        assert await holding(directory)
        assert await Eraser(database, log, QUICK).work_once()
        assert await holding(directory) == []


async def test_the_scratch_tables_of_a_killed_verify_are_dropped_by_the_eraser(place: tuple[Database, Path]) -> None:
    database, directory = place
    async with postgres_log(database) as log:
        await write_and_delete(database, log)
        async with database.patient_connection() as connection:
            await connection.execute("CREATE SCHEMA turnlog_g0")
            await connection.execute("CREATE TABLE turnlog_g0.transcript_entries AS VALUES ($$" + CANARY + "$$)")
        assert await Eraser(database, log, QUICK).work_once()
        async with database.patient_connection() as connection:
            assert await connection.fetchval("SELECT to_regnamespace('turnlog_g0')") is None
            await connection.execute("SELECT pg_switch_wal()")
            await connection.execute("CHECKPOINT")
        assert await holding(directory) == []
