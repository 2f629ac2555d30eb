"""`kill -9` inside the projector, at every named place, over and over: the tables end up equal to a fold from zero."""

import os
import signal
import sys
from collections import Counter
from uuid import UUID, uuid4

import anyio
import pytest

from tests.counts import Report
from tests.integration.projecting import assert_tables_equal_a_fold_from_zero
from tests.integration.story_events import events
from tests.postgres_server import Database as ServerDatabase
from turnlog.domain.event_log import EventLog
from turnlog.infra.postgres import Database
from turnlog.infra.postgres_log import PostgresLog, ensure_genesis
from turnlog.projections import checkpoints
from turnlog.projections.tables import PROJECTION_TABLES
from turnlog.services.failpoints import NAMES, VARIABLE

BATCH_RECORDS = 9
EVENTS = 220
PASSES = (1, 3, 7)
"""At which pass of a failpoint the process dies."""


async def project(dsn: str, failpoint: str | None = None) -> int:
    """Run a projector process until it is done or killed; its exit code."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if failpoint is not None:
        environment[VARIABLE] = failpoint
    command = [sys.executable, "-m", "tests.integration.projector_process", dsn, str(BATCH_RECORDS)]
    with anyio.fail_after(60):
        done = await anyio.run_process(command, env=environment, check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        pytest.fail(f"the projector process ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return done.returncode


async def filled_log(tables: Database) -> EventLog:
    log_id: UUID = await ensure_genesis(tables, uuid4(), 0)
    log = PostgresLog(tables, log_id)
    async with anyio.create_task_group() as tasks:
        await tasks.start(log.run)
        for item in events(11, EVENTS):
            await log.append(item)
        tasks.cancel_scope.cancel()
    return PostgresLog(tables, log_id)


async def next_offset(tables: Database) -> int:
    async with tables.connection() as connection:
        return (await checkpoints.next_offsets(connection, tables.generation)).get(0, 0)


async def test_killed_at_every_failpoint_the_tables_end_up_equal_to_a_fold_from_zero(
    database: ServerDatabase, tables: Database, report: Report
) -> None:
    log = await filled_log(tables)
    killed: Counter[str] = Counter()
    went_on = [0]
    for nth in PASSES:
        for name in NAMES:
            if await project(database.dsn, f"{name}:{nth}") == -signal.SIGKILL:
                killed[name] += 1
            went_on.append(await next_offset(tables))
            assert went_on[-1] >= went_on[-2], "a checkpoint never goes back"
            if went_on[-1] == await log.end(0):
                await restart_from_zero(tables)
                went_on.append(0)
    assert await project(database.dsn) == 0
    await assert_tables_equal_a_fold_from_zero(tables, log)
    report(f"projector killed {killed.total()} times: {dict(killed)}")
    assert set(killed) == set(NAMES)
    assert killed.total() >= 15


async def restart_from_zero(tables: Database) -> None:
    """Everything is applied: empty the projection tables, so that there is something left to be killed in."""
    async with tables.connection() as connection:
        await connection.execute(f"TRUNCATE {', '.join(table.name for table in PROJECTION_TABLES)}")
        await connection.execute("UPDATE checkpoints SET next_offset = 0, last_offset = NULL, last_event_id = NULL")


async def test_an_unknown_failpoint_is_refused(database: ServerDatabase) -> None:
    with pytest.raises(pytest.fail.Exception, match="must be <name>:<nth>"):
        await project(database.dsn, "somewhere:1")
