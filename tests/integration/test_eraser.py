"""The eraser on Postgres: out of every query at once, receipts once, polite beside a live load, any number of them."""

import dataclasses
from random import Random

import anyio

from tests.integration.erasing import (
    CANARY,
    KEPT,
    QUICK,
    K,
    append_all,
    canaries,
    deletion,
    late,
    postgres_log,
    project_all,
    write_and_delete,
)
from tests.integration.projecting import (
    all_records,
    caught_up,
    new_projector,
    running,
    tables_of,
    until,
)
from tests.integration.story_events import turn
from turnlog.domain.event_json import decode_data
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import Event, EventType
from turnlog.infra.postgres import Database
from turnlog.projections import erasure_outbox
from turnlog.projections.advisory_locks import Lock
from turnlog.projections.erasure_outbox import Work
from turnlog.services.eraser import Eraser
from turnlog.services.locked import locked
from turnlog.services.verify import verify_tables

RECEIPT = EventType.ERASURE_COMPLETED.wire_name


async def work(database: Database) -> Work:
    async with database.connection() as connection:
        return await erasure_outbox.work(connection)


async def receipts(log: EventLog) -> list[Event]:
    return [r.event for r in await all_records(log, 0) if r.event is not None and r.event.type == RECEIPT]


async def ledger(database: Database) -> list[tuple[int, int]]:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT last_delete, records FROM erasures ORDER BY 1")
    return [tuple(row) for row in rows]


async def whole_database(database: Database) -> str:
    """Everything any query could return, as text."""
    async with database.connection() as connection:
        tables = await connection.fetch(
            "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname LIKE 'turnlog%'"
        )
        return "".join([str(await connection.fetch(f"SELECT t::text FROM {row[0]} AS t")) for row in tables])  # noqa: S608


async def test_after_a_delete_no_query_of_the_tables_returns_it_and_after_one_round_none_of_the_log(
    tables: Database,
) -> None:
    async with postgres_log(tables) as log:
        await write_and_delete(tables, log)
        assert CANARY not in str(await tables_of(tables))
        await Eraser(tables, log, QUICK).work_once()
        as_bytes = f"\\x{CANARY.encode().hex()}"[2:]
        everything = await whole_database(tables)
        assert CANARY not in everything
        assert as_bytes not in everything
        assert "kept" in everything
        assert await work(tables) == Work(unpublished=False, unverified=False, unrewritten=False)
        await verify_tables(tables, log)


async def test_a_finished_erasure_gets_one_receipt_that_names_the_delete_and_not_the_session(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await write_and_delete(tables, log)
        for _ in range(3):
            await Eraser(tables, log, QUICK).work_once()
            await project_all(tables, log)
        (receipt,) = await receipts(log)
        data = decode_data(receipt)
        ((last_delete, records),) = await ledger(tables)
        assert K not in receipt.subject
        assert data == type(data)(  # type: ignore[misc, call-arg]  # ErasureCompleted, compared by value
            session_hash=receipt.subject.removeprefix("erasure:"),
            counts={"log": records},
            positions=[f"0-{last_delete}"],
        )
        assert records == len(canaries(Random(5), K, CANARY)) + 1


async def test_a_receipt_appended_twice_counts_once(tables: Database) -> None:
    """Killed between appending and noting it, before it was projected: the fold calls the second a duplicate."""
    async with postgres_log(tables) as log:
        await write_and_delete(tables, log)
        await Eraser(tables, log, QUICK).work_once()
        async with tables.connection() as connection:
            await connection.execute("DELETE FROM erasures")
        await Eraser(tables, log, QUICK).work_once()
        assert len(await receipts(log)) == 2
        await project_all(tables, log)
        async with tables.connection() as connection:
            keyed = await connection.fetchval(
                "SELECT count(*) FROM event_index WHERE type = $1 AND key_hash IS NOT NULL",
                int(EventType.ERASURE_COMPLETED),
            )
            await connection.execute("DELETE FROM erasures")
        assert keyed == 1
        await Eraser(tables, log, QUICK).work_once()
        assert len(await receipts(log)) == 2, "one that is known to be in the log isn't appended again"
        assert len(await ledger(tables)) == 1


async def test_each_delete_of_a_session_that_lived_again_gets_its_receipt(tables: Database) -> None:
    random = Random(2)
    async with postgres_log(tables) as log:
        for life in range(3):
            await append_all(log, [turn(random, K, f"life{life}"), deletion(random, K)])
            await project_all(tables, log)
            await Eraser(tables, log, QUICK).work_once()
        await project_all(tables, log)
        assert len(await receipts(log)) == len(await ledger(tables)) == 3
        await verify_tables(tables, log)


async def test_a_resend_that_lands_after_the_receipt_is_erased_too(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await write_and_delete(tables, log)
        await Eraser(tables, log, QUICK).work_once()
        await append_all(log, [late(Random(77), K, CANARY, 1)])
        await project_all(tables, log)
        await Eraser(tables, log, QUICK).work_once()
        assert CANARY.encode().hex() not in await whole_database(tables)
        await verify_tables(tables, log)


async def test_two_erasers_at_once_do_the_work_once(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await write_and_delete(tables, log)
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                await tasks.start(Eraser(tables, log, QUICK).run)
            await until(lambda: _is_done(tables))
            tasks.cancel_scope.cancel()
        assert len(await receipts(log)) == 1
        await project_all(tables, log)
        await verify_tables(tables, log)


async def _is_done(tables: Database) -> bool:
    return not any(await work(tables)) and bool(await ledger(tables))


async def test_a_round_is_left_out_while_a_verify_holds_erasing_off(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await write_and_delete(tables, log)
        eraser = Eraser(tables, log, QUICK)
        async with locked(tables, Lock.ERASING) as held:
            assert held is not None
            assert not await eraser.work_once()
            assert (await work(tables)).unpublished
        assert await eraser.work_once()
        assert not (await work(tables)).unpublished


async def test_a_rewrite_gives_up_on_a_table_in_use_and_comes_back(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await write_and_delete(tables, log)
        impatient = Eraser(tables, log, dataclasses.replace(QUICK, lock_timeout_ms=50))
        async with tables.connection() as reader, reader.transaction():
            await reader.fetch("SELECT count(*) FROM transcript_entries")
            assert await impatient.work_once()
            assert (await work(tables)).unrewritten
            assert await ledger(tables) == []
        assert await impatient.work_once()
        assert not (await work(tables)).unrewritten
        assert len(await ledger(tables)) == 1


async def test_a_rewrite_counts_only_once_no_snapshot_sees_the_erased_rows(tables: Database) -> None:
    async with postgres_log(tables) as log:
        random = Random(1)
        await append_all(log, canaries(random, K, CANARY))
        await project_all(tables, log)
        async with tables.connection() as reader, reader.transaction(isolation="repeatable_read"):
            await reader.fetchval("SELECT 1 FROM turnlog.log_identity")  # a snapshot, and no lock on content
            await append_all(log, [deletion(random, K)])
            await project_all(tables, log)
            eraser = Eraser(tables, log, QUICK)
            assert await eraser.work_once()
            assert (await work(tables)).unrewritten, "dead rows that a snapshot needs are still in the file"
        assert await eraser.work_once()
        assert not (await work(tables)).unrewritten


async def test_a_table_above_the_limit_is_left_to_the_operator(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await write_and_delete(tables, log)
        careful = Eraser(tables, log, dataclasses.replace(QUICK, rewrite_max_bytes=0))
        assert await careful.work_once()
        found = await work(tables)
        assert found.unrewritten
        assert not found.unverified
        assert await ledger(tables) == []


async def test_without_rewrites_the_log_alone_decides_when_an_erasure_is_finished(tables: Database) -> None:
    async with postgres_log(tables) as log:
        await write_and_delete(tables, log)
        await Eraser(tables, log, dataclasses.replace(QUICK, rewrite_s=0)).work_once()
        assert (await work(tables)).unrewritten
        assert len(await ledger(tables)) == 1


async def test_after_a_start_the_next_rewrite_keeps_its_distance_from_the_last(tables: Database) -> None:
    hourly = dataclasses.replace(QUICK, rewrite_s=3600.0)
    async with postgres_log(tables) as log:
        await write_and_delete(tables, log)
        await Eraser(tables, log, hourly).work_once()
        assert not (await work(tables)).unrewritten
        await append_all(log, [late(Random(3), K, CANARY, 1)])
        await project_all(tables, log)
        await Eraser(tables, log, hourly).work_once()
        assert (await work(tables)).unrewritten


async def test_under_a_live_load_and_autovacuum_erasures_finish_and_every_append_is_kept(tables: Database) -> None:
    random = Random(9)
    appended: list[str] = []

    async def load(log: EventLog, writer: int) -> None:
        while True:
            entry = f"w{writer}-{len(appended)}"
            await log.append(turn(random, KEPT, entry))
            appended.append(entry)

    async def vacuum() -> None:
        async with tables.patient_connection() as connection:
            while True:
                await connection.execute("VACUUM (ANALYZE) transcript_entries")
                await anyio.sleep(0.01)

    async with postgres_log(tables) as log, running(new_projector(tables, log)):
        await append_all(log, canaries(random, K, CANARY))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(vacuum)
            for writer in range(4):
                tasks.start_soon(load, log, writer)
            await append_all(log, [deletion(random, K)])
            await until(lambda: _has_outbox(tables))
            before = len(appended)
            await tasks.start(Eraser(tables, log, QUICK).run)
            await until(lambda: _is_done(tables), seconds=60)
            assert len(appended) > before
            tasks.cancel_scope.cancel()
        await caught_up(tables, log)
        await verify_tables(tables, log)
        stored = str((await tables_of(tables))["transcript_entries"])
        assert not [entry for entry in appended if f'"{entry}"' not in stored]


async def _has_outbox(tables: Database) -> bool:
    return (await work(tables)).unpublished
