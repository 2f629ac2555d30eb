"""A projector in a process of its own, to be killed: `python -m tests.integration.projector_process <dsn> <batch>`.

Projects the Postgres event log in batches of that many records and ends once everything is applied.
"""

import sys
from uuid import uuid4

import anyio

from turnlog.domain.events import Batch
from turnlog.domain.positions import Position
from turnlog.infra.postgres import Database
from turnlog.infra.postgres_log import PostgresLog
from turnlog.services.applied import AppliedPositions
from turnlog.services.projector import Projector

LEASE_MS = 300


class SmallReads(PostgresLog):
    """The Postgres log, read a few records at a time, so that a short log makes many batches."""

    batch_records = 500

    async def read(self, partition: int, next_offset: int, *, limit: int, wait_ms: int) -> Batch:
        """See EventLog.read."""
        return await super().read(partition, next_offset, limit=min(limit, self.batch_records), wait_ms=wait_ms)


async def main(dsn: str, batch_records: int) -> None:
    """Project to the end of the log."""
    async with Database(dsn, pool_size=4) as database, anyio.create_task_group() as tasks:
        log = SmallReads(database, uuid4())
        log.batch_records = batch_records
        applied = AppliedPositions(1)
        projector = Projector(
            database=database, log=log, applied=applied, on_changes=None, lease_ms=LEASE_MS, member=uuid4()
        )
        end = await log.end(0)
        await tasks.start(projector.run)
        await applied.reach(Position(0, end - 1), timeout_ms=60_000)
        await anyio.sleep(0.05)  # the last hint goes out, so that its failpoint can be passed
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], int(sys.argv[2]))
