"""A pytest plugin: one real PostgreSQL for the run, and a fresh database for each test that asks for one.

`postgres_server` is the server named by TURNLOG_TEST_DATABASE_URL (its role must be allowed to create databases), else
an embedded one in a temporary directory. `database` is a clone of a template that `build_template` fills once per run;
override that fixture to put something else than turnlog's tables into it.
"""

import importlib
import importlib.util
import inspect
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy.engine import make_url

from turnlog.infra.embedded_postgres import embedded_postgres

BuildTemplate = Callable[[str], Awaitable[None]]
_MIGRATIONS = "turnlog.infra.migrations"
# Durability settings stay as in production: tests kill the server and expect acknowledged rows back.
_TEST_SETTINGS = {"max_connections": "200", "idle_in_transaction_session_timeout": "20s"}


@dataclass(frozen=True, slots=True)
class Database:
    """Where a database is: `dsn` (`postgresql://…`) for asyncpg and libpq, `url` for SQLAlchemy."""

    dsn: str

    @property
    def url(self) -> str:
        """`postgresql+asyncpg://…`."""
        return make_url(self.dsn).set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)

    def named(self, name: str) -> "Database":
        """Another database on the same server."""
        url = make_url(self.dsn).set(drivername="postgresql", database=name)
        return Database(url.render_as_string(hide_password=False))


@contextmanager
def temporary_data_dir() -> Iterator[Path]:
    """A directory that the server's user may enter too when the tests run as root, which pytest's `tmp_path` is not."""
    path = Path(tempfile.mkdtemp(prefix="turnlog-test-"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.fixture(scope="session")
async def postgres_server() -> AsyncIterator[Database]:
    """The run's server, as a database on it to connect to for maintenance."""
    given = os.environ.get("TURNLOG_TEST_DATABASE_URL")
    if given:
        yield Database(make_url(given).set(drivername="postgresql").render_as_string(hide_password=False))
        return
    with temporary_data_dir() as data_dir:
        async with embedded_postgres(data_dir, settings=_TEST_SETTINGS) as server:
            yield Database(server.dsn)


@pytest.fixture(scope="session")
def build_template() -> BuildTemplate:
    """What fills the template database, called once with its SQLAlchemy url: turnlog's migrations, if there are any."""
    return _apply_migrations


async def _apply_migrations(url: str) -> None:
    if importlib.util.find_spec(_MIGRATIONS) is None:
        return
    applied = importlib.import_module(_MIGRATIONS).upgrade(url)
    if inspect.isawaitable(applied):
        await applied


@pytest.fixture(scope="session")
async def template_database(postgres_server: Database, build_template: BuildTemplate) -> AsyncIterator[Database]:
    """The database that every test's is cloned from. Nothing may stay connected to it, or cloning fails."""
    name = f"turnlog_template_{uuid.uuid4().hex[:12]}"
    await _execute(postgres_server, f'CREATE DATABASE "{name}"')
    try:
        template = postgres_server.named(name)
        await build_template(template.url)
        yield template
    finally:
        await _execute(postgres_server, f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
async def database(postgres_server: Database, template_database: Database) -> AsyncIterator[Database]:
    """A fresh clone of the template, dropped after the test with whatever is still connected to it."""
    async with cloned(postgres_server, template_database) as clone:
        yield clone


@asynccontextmanager
async def cloned(postgres_server: Database, template_database: Database) -> AsyncIterator[Database]:
    """A clone of the template for as long as the context lasts."""
    name = f"turnlog_test_{uuid.uuid4().hex[:12]}"
    template = make_url(template_database.dsn).database
    await _execute(postgres_server, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    try:
        yield postgres_server.named(name)
    finally:
        await _execute(postgres_server, f'DROP DATABASE "{name}" WITH (FORCE)')


async def _execute(database: Database, statement: str) -> None:
    connection = await asyncpg.connect(database.dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
