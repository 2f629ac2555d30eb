"""`kill -9` inside eraser and rebuild, at every named place: the next one finishes, nothing live suffers."""

import os
import signal
import sys
from random import Random

import anyio
import pytest

from tests.counts import Report
from tests.integration.erasing import (
    CANARY,
    K,
    append_all,
    canaries,
    deletion,
    postgres_log,
    project_all,
    write_and_delete,
)
from tests.integration.projecting import all_records, tables_of
from tests.integration.story_events import events
from tests.postgres_server import Database as ServerDatabase
from turnlog.domain.events import EventType
from turnlog.infra.postgres import Database
from turnlog.projections import erasure_outbox
from turnlog.projections.erasure_outbox import Work
from turnlog.services.failpoints import ERASER_NAMES, REBUILD_NAMES, VARIABLE
from turnlog.services.verify import verify_tables

pytestmark = pytest.mark.timeout(300)

DONE = Work(unpublished=False, unverified=False, unrewritten=False)


async def run(dsn: str, what: str, failpoint: str | None = None) -> int:
    """Run the process until it is done or killed; its exit code."""
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if failpoint is not None:
        environment[VARIABLE] = failpoint
    command = [sys.executable, "-m", "tests.integration.eraser_process", dsn, what]
    with anyio.fail_after(90):
        done = await anyio.run_process(command, env=environment, check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        pytest.fail(f"the process ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return done.returncode


async def test_an_erasure_is_finished_by_the_next_eraser_wherever_one_was_killed(
    database: ServerDatabase, tables: Database, report: Report
) -> None:
    killed: list[str] = []
    random = Random(1)
    for name in ERASER_NAMES:
        async with postgres_log(tables) as log:
            await append_all(log, [*canaries(random, K, CANARY), deletion(random, K)])
            await project_all(tables, log)
        if await run(database.dsn, "erase", f"{name}:1") == -signal.SIGKILL:
            killed.append(name)
        assert await run(database.dsn, "erase") == 0
        async with postgres_log(tables) as log, tables.connection() as connection:
            assert await erasure_outbox.work(connection) == DONE
            values = await connection.fetch("SELECT value FROM turnlog.event_log WHERE value IS NOT NULL")
            assert not [row for row in values if CANARY.encode() in row[0]]
            await project_all(tables, log)
            await verify_tables(tables, log)
    async with postgres_log(tables) as log, tables.connection() as connection:
        receipts = await connection.fetchval("SELECT count(*) FROM erasures")
        in_effect = await connection.fetchval(
            "SELECT count(*) FROM event_index WHERE type = $1 AND key_hash IS NOT NULL",
            int(EventType.ERASURE_COMPLETED),
        )
        appended = [r for r in await all_records(log, 0) if r.event and "erasure.completed" in r.event.type]
    assert receipts == in_effect == len(ERASER_NAMES)
    assert len(appended) <= receipts + 1, "only the one killed after appending may have appended twice"
    assert killed == list(ERASER_NAMES)
    report(f"eraser killed {len(killed)} times: {killed}")


async def test_a_killed_rebuild_leaves_the_live_tables_as_they_were_and_can_be_run_again(
    database: ServerDatabase, tables: Database, report: Report
) -> None:
    async with postgres_log(tables) as log:
        await append_all(log, list(events(3, 150)))
        await write_and_delete(tables, log)
    rows = await tables_of(tables)
    killed = 0
    for name in REBUILD_NAMES:
        live = await tables.refresh_generation()
        assert await run(database.dsn, "rebuild", f"{name}:1") == -signal.SIGKILL
        killed += 1
        assert await tables.refresh_generation() == live + (name == "after-flip")
        assert await tables_of(tables) == rows
        assert await run(database.dsn, "rebuild") == 0
        await tables.refresh_generation()
        assert await tables_of(tables) == rows
        async with postgres_log(tables) as log:
            await verify_tables(tables, log)
    async with tables.connection() as connection:
        schemas = await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname ~ '^turnlog_g'")
    assert schemas == 2, "the live one and the one before"
    report(f"rebuild killed {killed} times: {list(REBUILD_NAMES)}")
