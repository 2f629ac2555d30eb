"""`turnlog verify`: fold the log from zero into a scratch generation and compare every table with the live ones.

May run beside a server: the live tables and how far they are come from one snapshot, and nothing is erased from the
log until it has been folded.
"""

from typing import NamedTuple

from turnlog.domain.errors import Bug
from turnlog.domain.event_log import EventLog
from turnlog.infra.postgres import Database
from turnlog.infra.settings import Settings
from turnlog.projections import checkpoints, generations, table_hashes
from turnlog.projections.statement import Connection
from turnlog.projections.table_hashes import TABLES, TableHash
from turnlog.services.exclusive_database import open_exclusively
from turnlog.services.locked import nothing_erased, only_maintenance
from turnlog.services.progress import progress
from turnlog.services.refold import Refold

SCRATCH_GENERATION = 0
"""Never live; made for one verification and dropped after it."""


class Compared(NamedTuple):
    """One table as it is, and as a fold from zero gives it."""

    table: str
    live: TableHash
    refolded: TableHash

    def __str__(self) -> str:
        mark = "equal" if self.live == self.refolded else "DIFFERS"
        return f"{self.table}: {mark}, {self.live.rows:,} rows, refolded {self.refolded.rows:,}"


async def verify(settings: Settings) -> list[str]:
    """A line for each table. Raises Bug if a table differs from a fold from zero, Unavailable, Unfoldable."""
    async with open_exclusively(settings) as (database, log):
        return [str(compared) for compared in await verify_tables(database, log)]


async def verify_tables(database: Database, log: EventLog) -> list[Compared]:
    """Every table, live and refolded being equal. Raises Bug naming the tables that differ."""
    async with only_maintenance(database), nothing_erased(database):
        ends, live = await _live_hashes(database)
        refolded = await _refolded_hashes(database, log, ends)
    found = [Compared(table, live[table], refolded[table]) for table in TABLES]
    differing = [str(compared) for compared in found if compared.live != compared.refolded]
    if differing:
        raise Bug("a fold of the log from zero gives other rows: " + "; ".join(differing))
    return found


async def _live_hashes(database: Database) -> tuple[dict[int, int], dict[str, TableHash]]:
    """How far the live tables are, and their hashes, in one snapshot."""
    async with (
        database.patient_connection() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        generation = await generations.live_generation(connection)
        ends = await checkpoints.next_offsets(connection, generation)
        return ends, await _hashes(connection, generation)


async def _refolded_hashes(database: Database, log: EventLog, ends: dict[int, int]) -> dict[str, TableHash]:
    await generations.drop_generation(database.engine, SCRATCH_GENERATION)
    await generations.create_generation(database.engine, SCRATCH_GENERATION, scratch=True)
    try:
        refold = Refold(database, log, SCRATCH_GENERATION)
        with progress("verify", sum(ends.values())) as show:
            await refold.run_to(ends, show)
        async with database.patient_connection() as connection:
            return await _hashes(connection, SCRATCH_GENERATION)
    finally:
        await generations.drop_generation(database.engine, SCRATCH_GENERATION)


async def _hashes(connection: Connection, generation: int) -> dict[str, TableHash]:
    return {table: await table_hashes.table_hash(connection, generation, table) for table in TABLES}
