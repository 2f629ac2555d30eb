"""What only a log with transactions can get wrong: a slow one must not be skipped."""

import anyio
import asyncpg
import pytest

from tests.contract.conftest import Bench
from tests.log_settings import read_all, turn
from tests.postgres_server import Database as ServerDatabase
from turnlog.infra import event_log_rows as rows

on_postgres = pytest.mark.parametrize("open_log", ["postgres"], indirect=True)


@on_postgres
async def test_a_slow_writer_of_another_process_is_never_skipped(bench: Bench, database: ServerDatabase) -> None:
    slow, fast = turn(text="slow"), turn(text="fast")
    connection = await asyncpg.connect(database.dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        appended = await rows.append(connection, [slow])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.log.append, fast)
            while_it_is_open = await bench.log.read(0, 1, limit=10, wait_ms=300)
            assert while_it_is_open.records == ()
            assert while_it_is_open.next_offset == 1
            await transaction.commit()
    finally:
        await connection.close()
    assert appended.base == 1
    assert [record.key for record in await read_all(bench.log, 0, 1)] == [slow.key, fast.key]


@on_postgres
async def test_a_writer_that_rolls_back_leaves_no_gap(bench: Bench, database: ServerDatabase) -> None:
    lost, kept = turn(), turn()
    connection = await asyncpg.connect(database.dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await rows.append(connection, [lost])
        await transaction.rollback()
    finally:
        await connection.close()
    assert (await bench.log.append(kept)).position.offset == 1
    assert [record.key for record in await read_all(bench.log, 0, 1)] == [kept.key]


@on_postgres
async def test_what_is_erased_reads_as_a_record_without_an_event_at_once(bench: Bench) -> None:
    first, second = turn(), turn()
    place = (await bench.log.append(first)).position
    await bench.log.append(second)
    await bench.log.erase(0, [(place.offset, first.key)])
    erased, kept = await read_all(bench.log, 0, 1)
    assert (erased.key, erased.event, erased.undecodable) == (first.key, None, None)
    assert kept.event is not None
    assert list(await bench.log.unerased(0, [(place.offset, first.key), (kept.position.offset, second.key)])) == [
        second.key
    ]
