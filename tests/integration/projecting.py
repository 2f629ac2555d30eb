"""Projectors for tests: run some, wait for what they applied, compare their tables with a fold from zero."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio

from tests.domain.memory_tables import MemoryTables
from tests.integration.table_dump import Dump, dump, expected_dump, expected_outbox, outbox
from turnlog.domain.errors import Unavailable
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import Batch, Record
from turnlog.domain.fold.effects import SessionChange
from turnlog.infra.postgres import Database
from turnlog.projections import checkpoints
from turnlog.services.applied import AppliedPositions
from turnlog.services.projector import Projector

LEASE_MS = 1_500
"""Long enough for a slow machine, short enough to wait for."""


def new_projector(
    database: Database,
    log: EventLog,
    applied: AppliedPositions | None = None,
    *,
    lease_ms: int = LEASE_MS,
    on_changes: Callable[[int, Sequence[SessionChange]], None] | None = None,
) -> Projector:
    """A projector with a member id of its own."""
    return Projector(
        database=database,
        log=log,
        applied=AppliedPositions(log.partitions) if applied is None else applied,
        on_changes=on_changes,
        lease_ms=lease_ms,
        member=uuid4(),
    )


@asynccontextmanager
async def running(projector: Projector) -> AsyncIterator[anyio.CancelScope]:
    """The projector, started, until the block ends or its scope is cancelled."""
    async with anyio.create_task_group() as tasks:
        await tasks.start(projector.run)
        yield tasks.cancel_scope
        tasks.cancel_scope.cancel()


async def until(condition: Callable[[], Awaitable[Any]], *, seconds: float = 20) -> None:
    """Wait until the condition holds. Raises TimeoutError."""
    with anyio.fail_after(seconds):
        while True:
            if await condition():
                return
            await anyio.sleep(0.01)


async def caught_up(database: Database, log: EventLog, *, seconds: float = 30) -> None:
    """Wait until every partition is applied to its end."""

    async def condition() -> bool:
        try:
            async with database.connection() as connection:
                stored = await checkpoints.next_offsets(connection, database.generation)
        except Unavailable:
            return False
        return all([stored.get(partition) == await log.end(partition) for partition in range(log.partitions)])

    await until(condition, seconds=seconds)


async def owners(database: Database) -> dict[int, Any]:
    """Partition → the member that holds it."""
    async with database.connection() as connection:
        return dict(await connection.fetch("SELECT partition, owner FROM checkpoints"))


async def tables_of(database: Database) -> Dump:
    """The projection tables as they are stored."""
    async with database.connection() as connection:
        return await dump(connection)


async def fold_from_zero(log: EventLog) -> dict[int, MemoryTables]:
    """What every partition of the log folds into, in memory."""
    folded: dict[int, MemoryTables] = {}
    for partition in range(log.partitions):
        folded[partition] = MemoryTables()
        folded[partition].fold(await all_records(log, partition))
    return folded


async def all_records(log: EventLog, partition: int) -> list[Record]:
    """Every record of the partition."""
    records: list[Record] = []
    at, end = 0, await log.end(partition)
    while at < end:
        batch: Batch = await log.read(partition, at, limit=1000, wait_ms=1000)
        records += batch.records
        at = batch.next_offset
    return records


async def assert_tables_equal_a_fold_from_zero(database: Database, log: EventLog) -> None:
    """Then: whatever happened on the way, the tables are what the whole log folds into."""
    folded = await fold_from_zero(log)
    assert await tables_of(database) == expected_dump(folded)
    async with database.connection() as connection:
        queued = await outbox(connection)
    assert queued == set().union(*(expected_outbox(partition, tables) for partition, tables in folded.items()))
