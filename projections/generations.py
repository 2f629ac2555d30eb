"""Generations of projection tables: each a schema of its own; one is live (architecture, "Rebuild and verify")."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from turnlog.projections.statement import Connection
from turnlog.projections.tables import generation_schema, projection_metadata

_LIVE = "SELECT live FROM generations"
_FLIP = "UPDATE generations SET previous = live, live = $1, flipped_at = now()"


async def create_generation(engine: AsyncEngine, generation: int) -> None:
    """Make the schema of a generation with all its tables, empty."""
    schema = generation_schema(generation)
    async with engine.begin() as connection:
        await connection.execute(text(f"CREATE SCHEMA {schema}"))
        mapped = await connection.execution_options(schema_translate_map={None: schema})
        await mapped.run_sync(projection_metadata.create_all)


async def drop_generation(engine: AsyncEngine, generation: int) -> None:
    """Drop a generation that isn't live, if it exists."""
    async with engine.begin() as connection:
        await connection.execute(text(f"DROP SCHEMA IF EXISTS {generation_schema(generation)} CASCADE"))


async def live_generation(connection: Connection) -> int:
    """The generation that readers and projectors use."""
    live: int = await connection.fetchval(_LIVE)
    return live


async def flip(connection: Connection, generation: int) -> None:
    """Make another generation live; the former is remembered as the previous one."""
    await connection.execute(_FLIP, generation)
