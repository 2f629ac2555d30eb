"""Several projectors: who takes which partition, and that no two ever apply the same record."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any
from uuid import uuid4

import anyio
import asyncpg
import pytest

from tests.integration.projecting import (
    LEASE_MS,
    assert_tables_equal_a_fold_from_zero,
    caught_up,
    new_projector,
    owners,
    running,
    until,
)
from tests.integration.story_events import events, turn
from tests.integration.table_dump import dump, expected_dump
from tests.memory_log import MemoryLog
from turnlog.domain.errors import Fenced
from turnlog.domain.events import Batch
from turnlog.domain.fold.decode import DecodedRecord, decode
from turnlog.domain.fold.judge import fold
from turnlog.domain.fold.touched import touched
from turnlog.infra.postgres import Database
from turnlog.projections import checkpoints, generations, projector_members, state_store
from turnlog.projections.checkpoints import Held
from turnlog.services.projector import Projector

AGENTS = [f"a{number}" for number in range(24)]


async def filled_log(count: int, partitions: int = 1, seed: int = 1) -> MemoryLog:
    log = MemoryLog(partitions)
    for item in events(seed, count, AGENTS):
        await log.append(item)
    return log


async def claim(tables: Database, lease_ms: int = 60_000) -> list[Held]:
    """Take every free partition over, as a projector of its own."""
    async with tables.connection() as connection:
        return await checkpoints.claim(connection, tables.generation, uuid4(), lease_ms, 100)


async def expire_leases(tables: Database) -> None:
    async with tables.connection() as connection:
        await connection.execute("UPDATE checkpoints SET lease_until = clock_timestamp() - interval '1 s'")


def moved(held: Held, batch: Batch) -> Held:
    last = batch.records[-1]
    return held.moved(batch.next_offset, (last.position.offset, last.key.event_id))


def decoded(batch: Batch) -> list[DecodedRecord]:
    return [ready for record in batch.records if (ready := decode(record)) is not None]


@asynccontextmanager
async def applying(tables: Database, held: Held, batch: Batch) -> AsyncIterator[None]:
    """A batch written and not committed yet, until the block ends. Raises Fenced."""
    async with tables.connection() as connection, state_store.transaction(connection):
        await advance(connection, held, batch)
        yield


async def advance(connection: "asyncpg.Connection[Any]", held: Held, batch: Batch) -> None:
    ready = decoded(batch)
    effects = fold(await state_store.load(connection, held.partition, touched(ready)), ready)
    await state_store.advance_and_write(connection, held, moved(held, batch), effects, lease_ms=60_000)


async def apply(tables: Database, held: Held, batch: Batch) -> Held:
    async with tables.connection() as connection:
        await advance(connection, held, batch)
    return moved(held, batch)


async def test_a_zombie_is_fenced_before_and_after_the_new_owner_moved(tables: Database) -> None:
    log = await filled_log(30)
    async with tables.connection() as connection:
        await checkpoints.ensure(connection, tables.generation, 1)
    (zombie,) = await claim(tables)
    first = await log.read(0, 0, limit=10, wait_ms=0)
    zombie = await apply(tables, zombie, first)
    await expire_leases(tables)
    (owner,) = await claim(tables)
    assert (owner.fence, owner.next_offset) == (zombie.fence + 1, 10)
    second = await log.read(0, 10, limit=10, wait_ms=0)
    with pytest.raises(Fenced):
        await apply(tables, zombie, second)
    owner = await apply(tables, owner, second)
    with pytest.raises(Fenced):
        await apply(tables, zombie, second)
    with pytest.raises(Fenced):
        await apply(tables, replace(owner, next_offset=10), second)  # redelivered
    await apply(tables, owner, await log.read(0, 20, limit=100, wait_ms=0))
    await assert_tables_equal_a_fold_from_zero(tables, log)


async def test_a_takeover_waits_for_the_batch_that_is_under_way(tables: Database) -> None:
    log = await filled_log(20)
    async with tables.connection() as connection:
        await checkpoints.ensure(connection, tables.generation, 1)
    (slow,) = await claim(tables, lease_ms=0)
    async with applying(tables, slow, await log.read(0, 0, limit=10, wait_ms=0)):
        with anyio.fail_after(5):
            assert await claim(tables) == [], "its row is locked: no takeover in the middle of a batch"
    await expire_leases(tables)
    (owner,) = await claim(tables)
    assert owner.next_offset == 10, "and what that batch applied is not applied again"
    await apply(tables, owner, await log.read(0, 10, limit=100, wait_ms=0))
    await assert_tables_equal_a_fold_from_zero(tables, log)


async def test_a_connection_that_finds_other_tables_than_its_checkpoint_is_fenced(tables: Database) -> None:
    log = await filled_log(5)
    async with tables.connection() as connection:
        await checkpoints.ensure(connection, tables.generation, 1)
    (held,) = await claim(tables)
    batch = await log.read(0, 0, limit=10, wait_ms=0)
    await generations.create_generation(tables.engine, tables.generation + 1)
    async with tables.connection(tables.generation + 1) as connection, state_store.transaction(connection):
        with pytest.raises(Fenced):
            await advance(connection, held, batch)
        assert await dump(connection) == expected_dump({})


async def test_two_projectors_of_one_partition_apply_every_record_once(tables: Database) -> None:
    log = await filled_log(50)
    first, second = new_projector(tables, log), new_projector(tables, log)
    async with running(first), running(second):
        for item in events(2, 400, AGENTS):
            await log.append(item)
        await caught_up(tables, log)
        assert sorted([len(first.partitions), len(second.partitions)]) == [0, 1]
    await assert_tables_equal_a_fold_from_zero(tables, log)


async def test_a_projector_that_ends_hands_over_at_once(tables: Database) -> None:
    log = await filled_log(20)
    second = new_projector(tables, log, lease_ms=3_000)
    async with anyio.create_task_group() as tasks:
        async with running(new_projector(tables, log, lease_ms=3_600_000)):
            await caught_up(tables, log)
            await tasks.start(second.run)
            assert second.partitions == frozenset()
        await until(lambda: _holds(second, 1), seconds=10)
        tasks.cancel_scope.cancel()


async def _holds(projector: Projector, count: int) -> bool:
    return len(projector.partitions) == count


async def test_a_dead_projectors_partitions_are_taken_over_after_its_lease(tables: Database) -> None:
    log = await filled_log(60, partitions=3)
    async with tables.connection() as connection:
        await checkpoints.ensure(connection, tables.generation, 3)
        await projector_members.seen(connection, uuid4(), LEASE_MS)
    dead = await claim(tables, LEASE_MS)
    assert len(dead) == 3
    survivor = new_projector(tables, log)
    async with running(survivor):
        assert survivor.partitions == frozenset(), "the leases still run"
        await until(lambda: _holds(survivor, 3), seconds=10)
        await caught_up(tables, log)
    await assert_tables_equal_a_fold_from_zero(tables, log)


async def test_projectors_share_the_partitions_fairly_while_events_keep_coming(tables: Database) -> None:
    log = await filled_log(100, partitions=7)
    projectors = [new_projector(tables, log) for _ in range(3)]
    source = events(3, 10_000, AGENTS)

    async def shared(*counts: int) -> bool:
        for _ in range(10):
            await log.append(next(source))
        held = [len(projector.partitions) for projector in projectors]
        return sum(held) == 7 and sorted(held) == sorted(counts)

    async with anyio.create_task_group() as tasks, running(projectors[0]):
        assert await shared(7, 0, 0)
        await tasks.start(projectors[1].run)
        await until(lambda: shared(3, 4, 0))
        async with running(projectors[2]):
            await until(lambda: shared(1, 3, 3))
        await until(lambda: shared(3, 4, 0))
        await caught_up(tables, log)
        assert len(set((await owners(tables)).values())) == 2
        tasks.cancel_scope.cancel()
    assert set((await owners(tables)).values()) == {None}
    await assert_tables_equal_a_fold_from_zero(tables, log)


async def test_a_projector_that_lost_its_lease_ends_its_task_and_takes_part_again(tables: Database) -> None:
    log = await filled_log(30)
    projector = new_projector(tables, log)
    async with running(projector):
        await caught_up(tables, log)
        async with tables.connection() as connection:
            assert await checkpoints.fence_all(connection, tables.generation) == {0: 31}
        for number in range(20):
            await log.append(turn(Random(number), "agent:a0:native", f"x{number}"))
        await caught_up(tables, log)
    await assert_tables_equal_a_fold_from_zero(tables, log)


async def test_an_idle_partition_that_was_taken_over_is_let_go(tables: Database) -> None:
    log = await filled_log(30)
    projector = new_projector(tables, log)
    async with running(projector):
        await caught_up(tables, log)
        async with tables.connection() as connection:
            await connection.execute(
                "UPDATE checkpoints SET fence = fence + 1, owner = $1, lease_until = now() + interval '1 h'", uuid4()
            )
        await until(lambda: _holds(projector, 0), seconds=10)


async def test_a_renewal_does_not_wait_for_a_batch_under_way(tables: Database) -> None:
    log = await filled_log(20, partitions=2)
    member = uuid4()
    async with tables.connection() as connection:
        await checkpoints.ensure(connection, tables.generation, 2)
        held = await checkpoints.claim(connection, tables.generation, member, 1_000, 2)
    batch = await log.read(held[0].partition, 0, limit=10, wait_ms=0)
    async with applying(tables, held[0], batch), tables.connection() as connection:
        fences = [(item.partition, item.fence) for item in held]
        with anyio.fail_after(5):
            kept = await checkpoints.renew(connection, tables.generation, member, 60_000, fences)
    assert kept == {0, 1}


async def test_a_projector_claims_what_it_forgot_and_never_what_it_still_projects(tables: Database) -> None:
    member = uuid4()
    async with tables.connection() as connection:
        await checkpoints.ensure(connection, tables.generation, 2)
        await checkpoints.claim(connection, tables.generation, member, 60_000, 2)
        await connection.execute("UPDATE checkpoints SET lease_until = clock_timestamp() - interval '1 s'")
        again = await checkpoints.claim(connection, tables.generation, member, 60_000, 2, held=[1])
        assert [(held.partition, held.fence) for held in again] == [(0, 2)]
        again = await checkpoints.claim(connection, tables.generation, member, 60_000, 2, held=[1])
        assert [(held.partition, held.fence) for held in again] == [(0, 3)]
