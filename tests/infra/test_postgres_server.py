"""The test databases themselves: what every other test stands on."""

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.postgres_server import Database


@pytest.mark.parametrize("turn", ["first", "second"])
async def test_every_test_gets_a_database_of_its_own(database: Database, turn: str) -> None:
    engine = create_async_engine(database.url)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE only_here (turn text)"))  # fails if the other turn's is there
        await connection.execute(text("INSERT INTO only_here VALUES (:turn)"), {"turn": turn})
    await engine.dispose()
    by_dsn = await asyncpg.connect(database.dsn)
    assert await by_dsn.fetchval("SELECT turn FROM only_here") == turn
    await by_dsn.close()


async def test_a_connection_left_open_does_not_keep_the_next_test_from_starting(database: Database) -> None:
    forgotten = await asyncpg.connect(database.dsn)
    assert await forgotten.fetchval("SELECT current_setting('fsync')") == "on"
    forgotten.terminate()
