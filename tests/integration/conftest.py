"""Connections to each test's own database, with turnlog's tables in it."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.domain.story import Story
from tests.postgres_server import Database as ServerDatabase
from turnlog.infra.postgres import Database


@pytest.fixture
async def tables(database: ServerDatabase) -> AsyncIterator[Database]:
    """The test's database as turnlog opens it."""
    async with Database(database.dsn, pool_size=8) as opened:
        yield opened


@pytest.fixture
async def connection(tables: Database) -> AsyncIterator["asyncpg.Connection[Any]"]:
    """One connection that finds turnlog's tables by their plain names."""
    async with tables.connection() as connection:
        yield connection


@pytest.fixture
def story() -> Story:
    """A log to write, folded in memory step by step."""
    return Story()
