"""`turnlog rebuild`: fold the log from zero into a new generation of tables and flip the readers to it.

The server is stopped or read-only meanwhile. The old generation is kept for rollback until the next rebuild.
"""

import sys

from turnlog.domain.errors import Unavailable
from turnlog.domain.event_log import EventLog
from turnlog.infra.postgres import Database
from turnlog.infra.settings import Settings
from turnlog.projections import checkpoints, generations
from turnlog.services.composition import open_database, open_log
from turnlog.services.progress import progress
from turnlog.services.refold import Refold


async def rebuild(settings: Settings) -> None:
    """Rebuild, flip, and say what was done."""
    async with open_database(settings) as database, open_log(settings, database) as log:
        generation = await rebuild_tables(database, log)
    sys.stdout.write(f"generation {generation} is live; the one before is kept for rollback\n")


async def rebuild_tables(database: Database, log: EventLog) -> int:
    """The number of the new live generation. Raises Unavailable if the tables moved on under the rebuild."""
    async with database.connection() as connection:
        live = await generations.live_generation(connection)
    generation = live + 1
    await generations.drop_generation(database.engine, generation)
    await generations.create_generation(database.engine, generation)
    refold = Refold(database, log, generation)
    ends = [await log.end(partition) for partition in range(log.partitions)]
    with progress("rebuild", sum(ends)) as show:
        await refold.run_to(ends, show)
    async with database.connection() as connection:
        stopped_at = await checkpoints.fence_all(connection, live)
    targets = [max(stopped_at.get(p, 0), refold.next_offsets[p]) for p in range(log.partitions)]
    with progress("rebuild, the last records", sum(targets)) as show:
        await refold.run_to(targets, show)
    async with database.connection() as connection, connection.transaction():
        moved_on = await checkpoints.next_offsets(connection, live)
        if any(moved_on[partition] > targets[partition] for partition in moved_on):
            raise Unavailable("a projector went on during the flip; nothing was changed, run the rebuild again")
        for partition in range(log.partitions):
            await checkpoints.start_generation(
                connection, generation, partition, refold.next_offsets[partition], refold.last_applied[partition]
            )
        await generations.flip(connection, generation)
    if live > 1:
        await generations.drop_generation(database.engine, live - 1)
    return generation
