"""`turnlog rebuild`: fold the log from zero into a new generation of tables and flip the readers to it.

The new tables are brought exactly as far as the live ones are, never further: what lies beyond is projected into them
with its ledger rows (requests, outbox), which a refold doesn't write. Until the flip commits, nothing live has changed.
"""

from datetime import datetime

import anyio

from turnlog.domain.errors import Unavailable
from turnlog.domain.event_log import EventLog
from turnlog.infra.postgres import Database
from turnlog.infra.settings import Settings
from turnlog.projections import checkpoints, erasure_outbox, generations
from turnlog.services.exclusive_database import open_exclusively
from turnlog.services.failpoints import failpoint
from turnlog.services.locked import nothing_erased, only_maintenance
from turnlog.services.progress import progress
from turnlog.services.refold import Refold

ROUNDS = 20
"""How often the new tables may try to catch up with live ones that go on."""
LAST_RECORDS = 5_000
LAST_RECORDS_S = 15.0
"""What may be folded, and for how long, while projectors wait for the flip."""


class _MovedOnError(Exception):
    """The live tables are too far ahead to catch up while their projectors wait."""


async def rebuild(settings: Settings) -> list[str]:
    """Rebuild, flip, and say what was done. Raises Unavailable, Unfoldable; then the live tables are as before."""
    async with open_exclusively(settings) as (database, log):
        generation = await rebuild_tables(database, log)
    return [f"generation {generation} of the tables is live; the one before is kept until the next rebuild"]


async def rebuild_tables(database: Database, log: EventLog) -> int:
    """The number of the new live generation. Raises Unavailable, Unfoldable."""
    async with only_maintenance(database):
        async with database.connection() as connection:
            live = await generations.live_generation(connection)
            previous = await generations.previous_generation(connection)
            leftovers = await generations.abandoned_generations(connection)
            began = await erasure_outbox.now(connection)
        for leftover in leftovers:
            await generations.drop_generation(database.engine, leftover)
        generation = max(live, previous or 0) + 1
        await generations.create_generation(database.engine, generation)
        try:
            await _fill_and_flip(database, Refold(database, log, generation), live, generation, began)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await _drop_unless_live(database, generation)
            raise
        if previous is not None:
            async with nothing_erased(database):
                await generations.drop_generation(database.engine, previous)
    return generation


async def _fill_and_flip(database: Database, refold: Refold, live: int, generation: int, began: datetime) -> None:
    for _ in range(ROUNDS):
        async with database.connection() as connection:
            ends = await checkpoints.next_offsets(connection, live)
        with progress("rebuild", sum(ends.values())) as show:
            await refold.run_to(ends, show)
        try:
            await _flip(database, refold, live, generation, began)
        except _MovedOnError:
            continue
        return
    raise Unavailable("the tables move on faster than they are rebuilt; stop the server, then rebuild")


async def _flip(database: Database, refold: Refold, live: int, generation: int, began: datetime) -> None:
    """One transaction. Fencing locks the checkpoints, so projectors wait, and find themselves fenced afterwards."""
    async with (
        nothing_erased(database),
        database.patient_connection() as connection,
        connection.transaction(),
    ):
        stopped_at = await checkpoints.fence_all(connection, live)
        if refold.behind(stopped_at) > LAST_RECORDS:
            raise _MovedOnError
        with anyio.move_on_after(LAST_RECORDS_S) as last:
            await refold.run_to(stopped_at, lambda _done: None)
        if last.cancelled_caught:
            raise _MovedOnError
        for partition, next_offset in stopped_at.items():
            await checkpoints.start_generation(
                connection, generation, partition, next_offset, refold.last_applied[partition]
            )
        await erasure_outbox.mark_not_rewritten(connection, began)
        await generations.flip(connection, generation)
        failpoint("before-flip")
    failpoint("after-flip")


async def _drop_unless_live(database: Database, generation: int) -> None:
    """A flip whose answer got lost may have happened."""
    async with database.patient_connection() as connection:
        if await generations.live_generation(connection) == generation:
            return
    await generations.drop_generation(database.engine, generation)
