"""Database and log for a command that goes over all of them, with advice if a server has the data directory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from turnlog.domain.errors import DataDirectoryInUse, Misconfigured
from turnlog.domain.event_log import EventLog
from turnlog.infra.postgres import Database
from turnlog.infra.running_postgres import has_cluster, running_url
from turnlog.infra.settings import Settings
from turnlog.services.composition import open_database, open_log


@asynccontextmanager
async def open_exclusively(settings: Settings) -> AsyncIterator[tuple[Database, EventLog]]:
    """The database and the log named by the settings.

    Raises DataDirectoryInUse, which says how to go on, if a running turnlog has the embedded PostgreSQL; Misconfigured
    for a data directory without data: an empty one made now would only hide a mistyped name.
    """
    if settings.database_url is None and not await anyio.to_thread.run_sync(has_cluster, settings.data_dir):
        raise Misconfigured(f"{settings.data_dir} holds no turnlog data; name the right one with --data-dir")
    opening = True
    try:
        async with open_database(settings) as database, open_log(settings, database) as log:
            opening = False
            yield database, log
    except DataDirectoryInUse as error:
        if not opening:
            raise
        url = await anyio.to_thread.run_sync(running_url, settings.data_dir)
        raise DataDirectoryInUse(
            f"{error}. To leave it running, give its database instead: --database-url '{url or 'postgresql://…'}'"
        ) from error
