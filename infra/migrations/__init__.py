"""Brings a database's schema up to date. One upgrade at a time per database, by an advisory lock, however many ask."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from turnlog.domain.errors import Misconfigured, Unavailable
from turnlog.infra.postgres_connection import LEDGER_SCHEMA, check_server, connect, driver_dsn
from turnlog.infra.postgres_connection import Connection as DriverConnection
from turnlog.infra.postgres_errors import translate_errors_of, translated

LOCK = 0x7475726E6C6F67
"""The advisory lock's number: "turnlog" in ASCII."""
LOCK_WAIT_S = 300.0
_LOCK_POLL_S = 0.1
_SCRIPTS = Path(__file__).parent

_log = structlog.get_logger(__name__)

# Alembic keeps the migration that runs in module globals.
_one_at_a_time = anyio.Lock()


async def upgrade(url: str) -> None:
    """Upgrade the database at `url` to the newest revision; wait for an upgrade that is under way elsewhere.

    Each revision is one transaction. Raises Unavailable if the database can't be reached or another upgrade takes more
    than `LOCK_WAIT_S`, Misconfigured if the server is refused or a newer turnlog has upgraded the database.
    """
    async with _one_at_a_time, _connected(url) as connection:
        raw = (await connection.get_raw_connection()).driver_connection
        await check_server(cast(DriverConnection, raw))
        await _lock(connection)
        await connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {LEDGER_SCHEMA}"))
        await connection.commit()
        before = await connection.run_sync(_revision)
        await connection.run_sync(_upgrade)
        await connection.commit()
        after = await connection.run_sync(_revision)
    if after != before:
        _log.info("schema_upgraded", revision=after)


async def current_revision(url: str) -> str | None:
    """The revision the database is at, None before the first upgrade. Raises Unavailable."""
    async with _connected(url) as connection:
        return await connection.run_sync(_revision)


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[AsyncConnection]:
    """A connection whose end also frees the advisory lock."""
    creator = partial(connect, driver_dsn(url), patient=True)
    engine = create_async_engine("postgresql+asyncpg://", async_creator=creator, poolclass=NullPool)
    translate_errors_of(engine)
    with translated():
        async with engine.connect() as connection:
            yield connection


async def _lock(connection: AsyncConnection) -> None:
    """Asks again and again: a statement that waits holds a snapshot, and CREATE INDEX CONCURRENTLY waits for those."""
    give_up = anyio.current_time() + LOCK_WAIT_S
    while not await connection.scalar(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": LOCK}):
        await connection.commit()
        if anyio.current_time() > give_up:
            raise Unavailable(f"another process has been upgrading the database for {LOCK_WAIT_S:.0f} s")
        await anyio.sleep(_LOCK_POLL_S)
    await connection.commit()


def _upgrade(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise Misconfigured(
            f"the database is at schema revision {_revision(connection)}, which this turnlog does not know: "
            "it was upgraded by a newer one, so run that"
        ) from error


def _revision(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table_schema": LEDGER_SCHEMA})
    return context.get_current_revision()
