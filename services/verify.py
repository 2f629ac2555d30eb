"""`turnlog verify`: fold the log from zero into a scratch generation and compare every table with the live ones."""

import sys

from turnlog.domain.errors import Bug
from turnlog.domain.event_log import EventLog
from turnlog.infra.postgres import Database
from turnlog.infra.settings import Settings
from turnlog.projections import checkpoints, generations, table_hashes
from turnlog.projections.table_hashes import TABLES, TableHash
from turnlog.services.composition import open_database, open_log
from turnlog.services.progress import progress
from turnlog.services.refold import Refold

SCRATCH_GENERATION = 0
"""Never live; made for one verification and dropped after it."""


async def verify(settings: Settings) -> None:
    """Print one line a table. Raises Bug if a table differs from a fold from zero."""
    async with open_database(settings) as database, open_log(settings, database) as log:
        await verify_tables(database, log)


async def verify_tables(database: Database, log: EventLog) -> dict[str, TableHash]:
    """The hashes of all tables, live and refolded being equal. Raises Bug naming the tables that differ."""
    ends, live = await _live_hashes(database)
    await generations.drop_generation(database.engine, SCRATCH_GENERATION)
    await generations.create_generation(database.engine, SCRATCH_GENERATION)
    try:
        refold = Refold(database, log, SCRATCH_GENERATION)
        targets = [ends.get(partition, 0) for partition in range(log.partitions)]
        with progress("verify", sum(targets)) as show:
            await refold.run_to(targets, show)
        async with database.connection() as connection:
            folded = {
                table: await table_hashes.table_hash(connection, SCRATCH_GENERATION, table) for table in TABLES
            }
    finally:
        await generations.drop_generation(database.engine, SCRATCH_GENERATION)
    differing = [table for table in TABLES if live[table] != folded[table]]
    for table in TABLES:
        mark = "DIFFERS" if table in differing else "equal"
        sys.stdout.write(f"{mark:8}{table:20}{live[table].rows:>12,} rows, refolded {folded[table].rows:,}\n")
    if differing:
        raise Bug(f"a fold from zero gives other rows in: {', '.join(differing)}")
    return live


async def _live_hashes(database: Database) -> tuple[dict[int, int], dict[str, TableHash]]:
    """The live tables and how far they are, in one snapshot."""
    async with database.connection() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        generation = await generations.live_generation(connection)
        ends = await checkpoints.next_offsets(connection, generation)
        return ends, {table: await table_hashes.table_hash(connection, generation, table) for table in TABLES}
