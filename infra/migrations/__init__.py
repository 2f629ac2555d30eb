"""Alembic migrations, run in code: one upgrade at a time per database, whoever starts first."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from turnlog.infra.postgres_errors import translated

VERSION_SCHEMA = "public"
VERSION_TABLE = "turnlog_schema_version"
_LOCK = 0x7475726E6C6F67
"""Key of the advisory lock that lets one upgrade run at a time ("turnlog" in ASCII)."""


async def upgrade(url: str) -> None:
    """Bring the database at `url` to the newest schema. Safe to run from several processes at once."""
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"), poolclass=NullPool)
    try:
        with translated():
            async with engine.connect() as connection:
                await connection.run_sync(_upgrade)
    finally:
        await engine.dispose()


async def current_revision(url: str) -> str | None:
    """The revision the database is at, None before the first upgrade."""
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"), poolclass=NullPool)
    try:
        with translated():
            async with engine.connect() as connection:
                return await connection.run_sync(_revision)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection) -> None:
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK})
    connection.commit()
    try:
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})
        connection.commit()


def _revision(connection: Connection) -> str | None:
    context = MigrationContext.configure(
        connection, opts={"version_table": VERSION_TABLE, "version_table_schema": VERSION_SCHEMA}
    )
    return context.get_current_revision()
