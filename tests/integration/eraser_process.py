"""An eraser or a rebuild as a process, to be killed: `python -m tests.integration.eraser_process <dsn> <what>`.

`erase` works until nothing is left to do, `rebuild` rebuilds once.
"""

import sys

import anyio

from tests.integration.erasing import QUICK, postgres_log
from turnlog.infra.postgres import Database
from turnlog.projections import erasure_outbox
from turnlog.services.eraser import Eraser
from turnlog.services.rebuild import rebuild_tables


async def main(dsn: str, what: str) -> None:
    """Do it."""
    async with Database(dsn, pool_size=4) as database, postgres_log(database) as log:
        if what == "rebuild":
            await rebuild_tables(database, log)
            return
        eraser = Eraser(database, log, QUICK)
        while True:
            done = await eraser.work_once()
            async with database.connection() as connection:
                if done and not any(await erasure_outbox.work(connection)):
                    return


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
