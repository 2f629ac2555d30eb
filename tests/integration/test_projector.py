"""One projector: it applies, tells, resumes, stops at what it can't fold, and refuses another log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import anyio
import pytest

from tests.integration.projecting import (
    all_records,
    assert_tables_equal_a_fold_from_zero,
    caught_up,
    fold_from_zero,
    new_projector,
    owners,
    running,
    tables_of,
    until,
)
from tests.integration.story_events import event, events, turn
from tests.integration.table_dump import expected_dump
from tests.memory_log import MemoryLog
from tests.postgres_server import Database as ServerDatabase
from turnlog.domain import event_data as d
from turnlog.domain.errors import Misconfigured, Unavailable
from turnlog.domain.fold.effects import EndingKind, SessionChange
from turnlog.domain.partitioning import partition_of
from turnlog.domain.positions import Position
from turnlog.infra.postgres import Database
from turnlog.projections import checkpoints
from turnlog.projections.checkpoints import CHANNEL, Checkpoint
from turnlog.projections.statement import Connection
from turnlog.projections.tables import PROJECTION_TABLES
from turnlog.services.applied import AppliedPositions
from turnlog.services.applied_hints import PAUSE_S

K = "agent:a:native"


async def filled_log(count: int = 200, partitions: int = 1, seed: int = 1) -> MemoryLog:
    log = MemoryLog(partitions)
    for item in events(seed, count):
        await log.append(item)
    return log


async def checkpoint(database: Database, partition: int = 0) -> Checkpoint:
    async with database.connection() as connection:
        return (await checkpoints.read(connection, database.generation))[partition]


async def stopped_with(database: Database, partition: int = 0) -> str:
    async def condition() -> bool:
        return (await checkpoint(database, partition)).stopped is not None

    await until(condition)
    return (await checkpoint(database, partition)).stopped or ""


async def project(database: Database, log: MemoryLog) -> None:
    """Run a projector until everything is applied."""
    async with running(new_projector(database, log)):
        await caught_up(database, log)


async def test_what_is_in_the_log_gets_into_the_tables_and_is_told(tables: Database) -> None:
    log = await filled_log(1200)
    applied = AppliedPositions(1)
    told: list[SessionChange] = []
    projector = new_projector(tables, log, applied, on_changes=lambda _, changes: told.extend(changes))
    async with running(projector):
        await applied.reach(Position(0, 1200), timeout_ms=20_000)
        position = (await log.append(turn(Random(2), K, "late"))).position
        await applied.reach(position, timeout_ms=20_000)
        await assert_tables_equal_a_fold_from_zero(tables, log)
    assert told[-1] == SessionChange(K, position.offset, None)
    assert {change.what for change in told} == {None, *EndingKind}
    assert await owners(tables) == {0: None}


async def test_row_ids_and_rows_are_the_same_after_a_re_projection(tables: Database) -> None:
    log = await filled_log()
    await project(tables, log)
    before = await tables_of(tables)
    async with tables.connection() as connection:
        await connection.execute(f"TRUNCATE {', '.join(table.name for table in PROJECTION_TABLES)}")
        await connection.execute("UPDATE checkpoints SET next_offset = 0, last_offset = NULL, last_event_id = NULL")
    await project(tables, log)
    assert await tables_of(tables) == before
    assert len(before["transcript_entries"]) > 100


async def test_the_checkpoint_moves_on_over_compacted_ranges_and_erased_values(tables: Database) -> None:
    log = await filled_log(60)
    deleted = event(Random(3), d.SessionDeleted(K), K)
    await log.append(deleted)
    await project(tables, log)
    async with tables.connection() as connection:
        erasable = [row["position"] for row in await connection.fetch("SELECT position FROM erasure_outbox")]
    assert len(erasable) > 8
    before = await tables_of(tables)
    await log.erase(
        0,
        [
            (record.position.offset, record.key)
            for record in await all_records(log, 0)
            if record.position.offset in erasable[::2]
        ],
    )
    log.remove(0, *erasable[1::2])
    async with tables.connection() as connection:
        await connection.execute(f"TRUNCATE {', '.join(table.name for table in PROJECTION_TABLES)}")
        await connection.execute("UPDATE checkpoints SET next_offset = 0, last_offset = NULL, last_event_id = NULL")
    await project(tables, log)
    assert await tables_of(tables) == before
    log.remove(0, 61)
    extra = [(await log.append(turn(Random(4), K, f"x{n}"))).position for n in range(3)]
    log.remove(0, *(position.offset for position in extra))
    assert (await log.read(0, 61, limit=10, wait_ms=0)).records == ()


async def test_other_processes_are_told_by_coalesced_hints_after_the_commit(tables: Database) -> None:
    log = MemoryLog()
    applied = AppliedPositions(1)
    hints: list[object] = []
    told = anyio.Event()

    def hinted(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        hints.append(payload)
        if payload == "0-61":
            told.set()

    async with tables.connection() as connection:
        await connection.add_listener(CHANNEL, hinted)
        async with running(new_projector(tables, log, applied)):
            began = anyio.current_time()
            for number in range(60):
                appended = await log.append(turn(Random(number), K, f"e{number}"))
                await applied.reach(appended.position, timeout_ms=10_000)
            with anyio.fail_after(10):
                await told.wait()
            most = (anyio.current_time() - began) / PAUSE_S + 2
            assert (await checkpoint(tables)).next_offset == 61
        await connection.remove_listener(CHANNEL, hinted)
    assert len(hints) <= most, "one every 20 ms"


async def test_a_record_that_cannot_be_folded_stops_its_partition_alone_and_by_name(tables: Database) -> None:
    log = await filled_log(200, partitions=3)
    sick = partition_of("agent:a", 3)
    bad = replace(turn(Random(5), K, "x"), type="dev.turnlog.from.the.future.v1")
    at = (await log.append(bad)).position
    await log.append(turn(Random(6), K, "after"))
    async with running(new_projector(tables, log)):
        cause = await stopped_with(tables, sick)
        assert cause.startswith(f"record {at} (dev.turnlog.from.the.future.v1) can't be folded: unknown event type")
        others = [partition for partition in range(3) if partition != sick]

        async def others_done() -> bool:
            return all([(await checkpoint(tables, p)).next_offset == await log.end(p) for p in others])

        await until(others_done)
        assert (await checkpoint(tables, sick)).next_offset == at.offset, "what stands before it is applied"
        assert set(await owners(tables)) == {0, 1, 2}
        assert None not in (await owners(tables)).values(), "nobody else runs into the same record"
    log.records[sick] = [
        replace(record, event=replace(bad, ignorable=True)) if record.position == at else record
        for record in log.records[sick]
    ]
    await project(tables, log)
    assert (await checkpoint(tables, sick)).stopped is None
    await assert_tables_equal_a_fold_from_zero(tables, log)


async def test_a_row_the_database_refuses_stops_its_partition_without_quoting_it(tables: Database) -> None:
    log = MemoryLog()
    async with tables.connection() as connection:
        await connection.execute(
            "ALTER TABLE transcript_entries ADD CONSTRAINT no_poison CHECK (entry NOT LIKE '%poison%')"
        )
    for number in range(20):
        await log.append(turn(Random(number), K, "poison" if number == 12 else f"e{number}"))
    async with running(new_projector(tables, log)):
        cause = await stopped_with(tables)
    assert cause == (
        "record 0-13 (dev.turnlog.turn.appended.v1) can't be folded: the database refused a statement: "
        "SQLSTATE 23514 (CheckViolationError) on no_poison"
    )
    assert (await checkpoint(tables)).next_offset == 13
    assert len((await tables_of(tables))["transcript_entries"]) == 12


async def test_a_lost_database_is_waited_for(tables: Database) -> None:
    log = MemoryLog()
    story = list(events(7, 300))
    lost = 0
    async with running(new_projector(tables, log)), tables.patient_connection() as killer:
        for start in range(0, len(story), 25):
            for item in story[start : start + 25]:
                await log.append(item)
            lost += await killer.fetchval(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            await caught_up(tables, log)
    assert lost >= 12
    await assert_tables_equal_a_fold_from_zero(tables, log)


class LosingAnswers(Database):
    """A database that does what it is told and then doesn't answer, `left` times."""

    left = 0

    @asynccontextmanager
    async def connection(self, generation: int | None = None) -> AsyncIterator[Connection]:
        """See Database.connection."""
        async with super().connection(generation) as connection:
            yield connection
        if self.left > 0:
            self.left -= 1
            raise Unavailable("the answer got lost")


async def test_a_commit_whose_answer_was_lost_is_found_and_not_applied_again(
    tables: Database, database: ServerDatabase
) -> None:
    log = await filled_log(20)
    async with LosingAnswers(database.dsn, pool_size=4) as losing, running(new_projector(losing, log)):
        await caught_up(tables, log)
        for number in range(10):
            losing.left = 3
            await log.append(turn(Random(number), K, f"lost{number}"))
            await caught_up(tables, log)
        losing.left = 0
        async with tables.connection() as connection:
            assert await connection.fetchval("SELECT fence FROM checkpoints") == 1, "it never lost its partition"
    await assert_tables_equal_a_fold_from_zero(tables, log)


async def test_a_log_out_of_reach_is_waited_for(tables: Database) -> None:
    log = await filled_log(50)
    async with running(new_projector(tables, log)):
        await caught_up(tables, log)
        log.reachable = False
        await until(lambda: _refused_reads(log))
        log.reachable = True
        for item in events(8, 50):
            await log.append(item)
        await caught_up(tables, log)
    await assert_tables_equal_a_fold_from_zero(tables, log)


async def test_a_projector_that_is_cancelled_inside_its_transaction_leaves_nothing_of_it(tables: Database) -> None:
    log = await filled_log(100)
    async with tables.connection() as connection, connection.transaction():
        await connection.execute("LOCK TABLE event_index IN EXCLUSIVE MODE")
        with anyio.fail_after(8):
            async with running(new_projector(tables, log)) as scope:
                await until(lambda: _blocked(tables))
                scope.cancel()
    assert (await checkpoint(tables)).next_offset == 0
    assert await owners(tables) == {0: None}, "its lease is given back"
    assert all(rows == [] for rows in (await tables_of(tables)).values())
    await project(tables, log)
    await assert_tables_equal_a_fold_from_zero(tables, log)


async def _blocked(tables: Database) -> bool:
    async with tables.connection() as connection:
        waiting: bool = await connection.fetchval(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'event_index'::regclass)"
        )
        return waiting


async def refused(tables: Database, log: MemoryLog) -> str:
    """Why a projector refuses to start on this log."""
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            try:
                await tasks.start(new_projector(tables, log).run)
            except Misconfigured as error:
                return str(error)
            tasks.cancel_scope.cancel()
    pytest.fail("it was not refused")


async def test_another_log_is_refused_by_name(tables: Database) -> None:
    log = await filled_log(40, seed=1)
    await project(tables, log)
    before = await tables_of(tables)
    other = await filled_log(60, seed=2)
    assert "another log: partition 0" in await refused(tables, other)
    shorter = await filled_log(10, seed=1)
    assert "it ends at offset 11, the tables are at 41" in await refused(tables, shorter)
    empty = MemoryLog()
    empty.remove(0, 0)
    for _ in range(50):
        await empty.append(turn(Random(0), K, "x"))
    empty.remove(0, *range(51))
    assert "is missing and was not erased by turnlog" in await refused(tables, empty)
    assert await tables_of(tables) == before


@pytest.mark.parametrize("how", ["nulled", "gone"])
async def test_a_last_applied_record_that_turnlog_erased_is_no_other_log(tables: Database, how: str) -> None:
    log = MemoryLog()
    await log.append(turn(Random(1), K, "e1"))
    await log.append(event(Random(2), d.SessionDeleted(K), K))
    late = replace(turn(Random(3), K, "e2"), sent_after=0, attempt=2)
    position = (await log.append(late)).position
    await project(tables, log)
    if how == "nulled":
        await log.erase(0, [(position.offset, late.key)])
    else:
        log.remove(0, position.offset)
    await project(tables, log)
    for item in events(9, 20):
        await log.append(item)
    await project(tables, log)
    await assert_rows(tables, log)


async def assert_rows(tables: Database, log: MemoryLog) -> None:
    """The tables alone: the outbox still names what the log no longer shows."""
    assert await tables_of(tables) == expected_dump(await fold_from_zero(log))


async def _refused_reads(log: MemoryLog) -> bool:
    return log.refusals > 3
