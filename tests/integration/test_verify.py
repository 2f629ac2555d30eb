"""`verify` tells whether the tables are what the log folds into, whatever row was changed, beside a server or alone."""

from dataclasses import replace
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
    postgres_log,
    project_all,
    write_and_delete,
)
from tests.integration.projecting import caught_up, new_projector, running
from tests.integration.story_events import event, events, turn
from turnlog.domain import event_data as d
from turnlog.domain.errors import Bug, Unavailable, Unfoldable
from turnlog.infra.postgres import Database
from turnlog.projections.advisory_locks import Lock
from turnlog.projections.table_hashes import TABLES
from turnlog.services.eraser import Eraser
from turnlog.services.locked import locked
from turnlog.services.verify import verify_tables

SWAP = """
UPDATE {} AS t SET entry = o.entry FROM {} AS o, (SELECT min(row_id) AS low, max(row_id) AS high FROM {}) AS m
WHERE (t.row_id = m.low AND o.row_id = m.high) OR (t.row_id = m.high AND o.row_id = m.low)
"""
CHANGES = {
    "a changed entry": ("transcript_entries", "UPDATE {} SET entry = replace(entry, 'text', 'texx')"),
    "a missing row": ("transcript_entries", "DELETE FROM {} WHERE row_id = (SELECT max(row_id) FROM {})"),
    "an extra row": (
        "agent_messages",
        "INSERT INTO {} ({columns}, row_id) SELECT {columns}, row_id + 1 FROM {} LIMIT 1".replace(
            "{columns}",
            "session_id, placement, message_count, messages, user_messages, appended_ms, restores, valid",
        ),
    ),
    "a changed floor": ("sessions", "UPDATE {} SET cleared_floor = cleared_floor + 1"),
    "a changed placement": ("transcript_entries", "UPDATE {} SET placement = 1 - placement"),
    "a lost resume point": ("resume_points", "DELETE FROM {}"),
    "a lost verdict": ("event_index", "DELETE FROM {} WHERE position = (SELECT max(position) FROM {})"),
    "a lost fence": ("fences", "DELETE FROM {}"),
    "a lost ending": ("endings", "DELETE FROM {} WHERE position = (SELECT max(position) FROM {})"),
    "swapped texts": ("transcript_entries", SWAP),
}


async def write_story(database: Database, log: object) -> None:
    random = Random(4)
    items = [
        *events(4, 120),
        turn(random, "agent:z:native", "e1", "e2"),
        event(random, d.ResumePointSaved("agent:z:native", "codex", "r1"), "agent:z:native"),
        turn(random, K, "gone"),
        deletion(random, K),
    ]
    await append_all(log, items)  # type: ignore[arg-type]  # a log
    await project_all(database, log)  # type: ignore[arg-type]  # a log


@pytest.mark.parametrize("change", CHANGES)
async def test_a_changed_row_is_found_and_its_table_named(tables: Database, change: str) -> None:
    table, sql = CHANGES[change]
    async with postgres_log(tables) as log:
        await write_story(tables, log)
        found = await verify_tables(tables, log)
        assert [compared.table for compared in found] == list(TABLES)
        assert all(compared.live.rows for compared in found if compared.table in {table, "sessions", "event_index"})
        async with tables.patient_connection() as connection:
            assert await connection.execute(sql.replace("{}", f"turnlog_g1.{table}")) not in {"UPDATE 0", "DELETE 0"}
        with pytest.raises(Bug) as refused:
            await verify_tables(tables, log)
        assert f"{table}: DIFFERS" in str(refused.value)
        assert str(refused.value).count("DIFFERS") == 1
        async with tables.patient_connection() as connection:
            assert await connection.fetchval("SELECT to_regnamespace('turnlog_g0')") is None


async def test_erased_records_change_nothing(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await write_and_delete(tables, log)
        before = await verify_tables(tables, log)
        await Eraser(tables, log, QUICK).work_once()
        assert await verify_tables(tables, log) == before
        await project_all(tables, log)
        await verify_tables(tables, log)


async def test_while_a_server_writes_deletes_and_erases_verify_finds_no_difference(tables: Database) -> None:
    random = Random(3)
    rounds = 0

    async def traffic() -> None:
        nonlocal rounds
        while True:
            await append_all(log, canaries(random, K, CANARY))
            await append_all(log, [deletion(random, K), *events(rounds, 5)])
            rounds += 1

    async with postgres_log(tables) as log, running(new_projector(tables, log)):
        await append_all(log, list(events(99, 300)))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(traffic)
            await tasks.start(Eraser(tables, log, replace(QUICK, rewrite_s=0)).run)
            for _ in range(3):
                before = rounds
                await verify_tables(tables, log)
                with anyio.fail_after(30):
                    while rounds == before:
                        await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        await caught_up(tables, log)
        async with tables.connection() as connection:
            assert await connection.fetchval("SELECT count(*) FROM erasure_outbox WHERE published_at IS NOT NULL")
        await verify_tables(tables, log)


async def test_a_second_verify_at_once_is_refused(tables: Database) -> None:
    async with postgres_log(tables) as log:
        async with locked(tables, Lock.MAINTENANCE) as held:
            assert held is not None
            with pytest.raises(Unavailable, match="another verify or rebuild"):
                await verify_tables(tables, log)
        await verify_tables(tables, log)


async def test_a_record_that_cannot_be_folded_is_named(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await write_story(tables, log)
        async with tables.connection() as connection:
            await connection.execute(
                "UPDATE turnlog.event_log SET value = '{\"sessionKey\": 5}' WHERE position = "
                "(SELECT min(position) FROM turnlog.event_log WHERE type LIKE '%turn.appended%')"
            )
            position = await connection.fetchval(
                "SELECT min(position) FROM turnlog.event_log WHERE type LIKE '%turn.appended%'"
            )
        with pytest.raises(Unfoldable, match=rf"record 0-{position} \(dev.turnlog.turn.appended.v1\) can't be folded"):
            await verify_tables(tables, log)
