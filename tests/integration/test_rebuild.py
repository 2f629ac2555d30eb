"""`rebuild` puts fresh tables in place of the live ones: the same rows, ledgers untouched, readers never cut off."""

from random import Random
from typing import Any
from uuid import uuid4

import anyio
import anyio.lowlevel
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
from tests.integration.projecting import caught_up, new_projector, running, tables_of, until
from tests.integration.story_events import events, turn
from tests.postgres_server import Database as ServerDatabase
from turnlog.domain.errors import Unavailable, Unfoldable
from turnlog.domain.event_log import EventLog
from turnlog.domain.positions import Position
from turnlog.domain.stream_selection import StreamSelection
from turnlog.infra.postgres import Database
from turnlog.projections import checkpoints
from turnlog.projections.advisory_locks import Lock
from turnlog.services.applied import AppliedPositions
from turnlog.services.checkpoint_follower import CheckpointFollower
from turnlog.services.eraser import Eraser
from turnlog.services.locked import locked
from turnlog.services.reading import Reading
from turnlog.services.rebuild import rebuild_tables
from turnlog.services.verify import verify_tables

LEDGERS = ("requests", "erasure_outbox", "erasures", "log_identity")


async def ledgers(database: Database) -> dict[str, list[Any]]:
    async with database.connection() as connection:
        return {
            name: sorted(map(repr, await connection.fetch(f"SELECT * FROM turnlog.{name}")))  # noqa: S608
            for name in LEDGERS
        }


async def generations_of(database: Database) -> tuple[int, int | None, list[str]]:
    async with database.connection() as connection:
        live, previous = await connection.fetchrow("SELECT live, previous FROM generations")  # type: ignore[misc]  # a row
        schemas = await connection.fetch("SELECT nspname FROM pg_namespace WHERE nspname ~ '^turnlog_g' ORDER BY 1")
    return live, previous, [row[0] for row in schemas]


async def test_a_rebuild_gives_the_same_rows_with_the_same_ids_and_leaves_the_ledgers_alone(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await append_all(log, list(events(8, 400)))
        await write_and_delete(tables, log)
        await Eraser(tables, log, QUICK).work_once()
        await project_all(tables, log)
        rows, kept = await tables_of(tables), await ledgers(tables)
        assert await rebuild_tables(tables, log) == 2
        await tables.refresh_generation()
        assert await tables_of(tables) == rows
        after = await ledgers(tables)
        assert {name: after[name] for name in LEDGERS if name != "erasure_outbox"} == {
            name: kept[name] for name in LEDGERS if name != "erasure_outbox"
        }
        assert len(after["erasure_outbox"]) == len(kept["erasure_outbox"])
        await verify_tables(tables, log)
        await append_all(log, list(events(9, 50)))
        await project_all(tables, log)
        await verify_tables(tables, log)


async def test_the_former_generation_is_kept_until_the_next_rebuild(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await append_all(log, list(events(8, 30)))
        await project_all(tables, log)
        await rebuild_tables(tables, log)
        assert await generations_of(tables) == (2, 1, ["turnlog_g1", "turnlog_g2"])
        await rebuild_tables(tables, log)
        assert await generations_of(tables) == (3, 2, ["turnlog_g2", "turnlog_g3"])
        async with tables.connection() as connection:
            assert {row[0] for row in await connection.fetch("SELECT generation FROM checkpoints")} == {2, 3}


async def test_records_that_the_live_tables_have_not_seen_are_left_to_the_projector_with_their_ledger_rows(
    tables: Database,
) -> None:
    random = Random(6)
    async with postgres_log(tables) as log:
        await append_all(log, canaries(random, K, CANARY))
        await project_all(tables, log)
        await append_all(log, [deletion(random, K)])
        await rebuild_tables(tables, log)
        await tables.refresh_generation()
        assert (await ledgers(tables))["erasure_outbox"] == []
        await project_all(tables, log)
        assert len((await ledgers(tables))["erasure_outbox"]) == len(canaries(random, K, CANARY))
        await verify_tables(tables, log)


async def test_an_event_that_cannot_be_folded_stops_the_rebuild_by_name_and_nothing_live_changes(
    tables: Database,
) -> None:
    async with postgres_log(tables) as log:
        await append_all(log, list(events(8, 60)))
        await project_all(tables, log)
        before = await tables_of(tables)
        async with tables.connection() as connection:
            await connection.execute("UPDATE turnlog.event_log SET type = 'dev.turnlog.strange.v1' WHERE position = 17")
        with pytest.raises(Unfoldable, match=r"record 0-17 \(dev.turnlog.strange.v1\) can't be folded"):
            await rebuild_tables(tables, log)
        assert await generations_of(tables) == (1, None, ["turnlog_g1"])
        assert await tables_of(tables) == before
        await append_all(log, list(events(10, 20)))
        await project_all(tables, log)


async def test_a_rebuild_beside_another_is_refused(tables: Database) -> None:
    async with postgres_log(tables) as log:
        async with locked(tables, Lock.MAINTENANCE):
            with pytest.raises(Unavailable, match="another verify or rebuild"):
                await rebuild_tables(tables, log)
        assert await generations_of(tables) == (1, None, ["turnlog_g1"])


async def test_what_a_killed_rebuild_left_is_dropped_by_the_next(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await append_all(log, list(events(8, 30)))
        await project_all(tables, log)
        async with tables.patient_connection() as connection:
            await connection.execute("CREATE SCHEMA turnlog_g2; CREATE TABLE turnlog_g2.sessions (half int)")
            await connection.execute("CREATE SCHEMA turnlog_g7")
        await rebuild_tables(tables, log)
        assert await generations_of(tables) == (2, 1, ["turnlog_g1", "turnlog_g2"])
        await verify_tables(tables, log)


async def test_projectors_of_all_processes_go_on_in_the_new_generation_and_positions_never_go_back(
    tables: Database, database: ServerDatabase
) -> None:
    """Two processes, one projecting, both reading; rebuilds under load; every write is applied once in the end."""
    stop = anyio.Event()

    async def write(log: EventLog, seed: int) -> None:
        number = 0
        while not stop.is_set():
            await append_all(log, list(events(seed + number, 3)))
            number += 1
            await anyio.sleep(0.005)

    async def watch(applied: AppliedPositions) -> None:
        last = 0
        while True:
            assert applied.next_offset(0) >= last
            last = applied.next_offset(0)
            await anyio.sleep(0.001)

    async with (
        Database(database.dsn, pool_size=6) as other,
        postgres_log(tables) as log,
        postgres_log(other) as other_log,
    ):
        applied, follows = AppliedPositions(1), AppliedPositions(1)
        follower = _follower(other, follows)
        await append_all(log, list(events(1, 100)))
        async with (
            running(new_projector(tables, log, applied)),
            running(new_projector(other, other_log)),
            anyio.create_task_group() as tasks,
        ):
            await tasks.start(follower.run)
            tasks.start_soon(write, log, 1_000)
            tasks.start_soon(watch, applied)
            tasks.start_soon(watch, follows)
            for generation in (2, 3, 4):
                assert await rebuild_tables(tables, log) == generation
                before = follows.next_offset(0)
                await until(lambda before=before: _passed(follows, before + 10))  # type: ignore[misc]  # mypy: defaults
            stop.set()
            await caught_up(tables, log)
            assert tables.generation == other.generation == 4
            tasks.cancel_scope.cancel()
        await verify_tables(tables, log)


async def _passed(applied: AppliedPositions, offset: int) -> bool:
    return applied.next_offset(0) >= offset


def _follower(database: Database, applied: AppliedPositions) -> CheckpointFollower:
    return CheckpointFollower(
        database,
        applied,
        on_advance=lambda _partition: None,
        is_local=lambda _partition: False,
        on_ending=lambda _partition, _change: None,
    )


async def test_streams_and_pages_go_on_over_a_flip_without_a_skip_or_a_repeat(
    tables: Database, database: ServerDatabase
) -> None:
    random = Random(12)
    written: list[str] = []
    seen: list[tuple[int, str]] = []
    key = "agent:s:native"

    stop, stopped = anyio.Event(), anyio.Event()

    async def write() -> None:
        while not stop.is_set():
            entry = f"e{len(written)}"
            await log.append(turn(random, key, entry))
            written.append(entry)
        stopped.set()

    async def stream(reading: Reading) -> None:
        cursor = 0
        while True:
            page = await reading.stream_page(StreamSelection.agent("s"), after_row=cursor, limit=7)
            seen.extend(page.rows)
            assert page.upto >= cursor
            cursor = page.upto
            await anyio.lowlevel.checkpoint()

    async with Database(database.dsn, pool_size=6) as other, postgres_log(tables) as log:
        applied = AppliedPositions(1)
        reading = Reading(other, log, applied, wait_ms=20_000)
        async with running(new_projector(tables, log)), anyio.create_task_group() as tasks:
            await tasks.start(_follower(other, applied).run)
            tasks.start_soon(stream, reading)
            tasks.start_soon(write)
            for _ in range(3):
                before = len(written)
                await until(lambda before=before: _longer(written, before + 20))  # type: ignore[misc]  # mypy: defaults
                position = (await log.append(turn(random, key, f"mark{before}"))).position
                await rebuild_tables(tables, log)
                page = await reading.page(key, limit=100_000, after=[position])
                assert f"mark{before}".encode() in page.entries
            stop.set()
            await stopped.wait()
            end = await log.end(0)
            await applied.reach(Position(0, end - 1), timeout_ms=20_000)
            await until(lambda: _saw(seen, end))
            tasks.cancel_scope.cancel()
    rows = [row for row, _ in seen]
    assert rows == sorted(set(rows)), "no repeat, in order"
    texts = "".join(text for _, text in seen)
    assert not [entry for entry in written if f'"{entry}"' not in texts], "no skip"
    assert len(written) > 60


async def _longer(items: list[str], length: int) -> bool:
    return len(items) >= length


async def _saw(seen: list[tuple[int, str]], end: int) -> bool:
    return bool(seen) and seen[-1][0] >= (end - 1) * 4096


async def test_the_projector_of_a_fenced_generation_writes_nothing_more(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await append_all(log, list(events(8, 30)))
        await project_all(tables, log)
        async with tables.connection() as connection:
            (held,) = await checkpoints.claim(connection, 1, uuid4(), 10_000, 1)
            await rebuild_tables(tables, log)
            assert await checkpoints.reread(connection, held) is None
