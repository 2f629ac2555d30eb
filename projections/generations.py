"""Generations of the projection tables: each is a schema of its own, and one row says which of them is live."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.schema import CreateSchema, DropSchema

from turnlog.domain.errors import Bug
from turnlog.projections.statement import Connection
from turnlog.projections.tables import (
    CONTENT_COLUMNS,
    GENERATION_PREFIX,
    PROJECTION_TABLES,
    generation_schema,
    projection_metadata,
)

_LIVE = "SELECT live FROM turnlog.generations"
_FLIP = """
UPDATE turnlog.generations SET previous = live, live = $1::int, flipped_at = clock_timestamp()
WHERE live <> $1::int AND to_regnamespace($2) IS NOT NULL
RETURNING previous
"""
_PREVIOUS = "SELECT previous FROM turnlog.generations WHERE to_regnamespace($1 || previous) IS NOT NULL"
_ALL = f"""
SELECT substr(nspname, {len(GENERATION_PREFIX) + 1})::int FROM pg_namespace
WHERE nspname ~ '^{GENERATION_PREFIX}[0-9]{{1,9}}$' ORDER BY 1
"""  # noqa: S608 - a constant of this project


async def create_generation(engine: AsyncEngine, generation: int, *, scratch: bool = False) -> None:
    """Make the schema of a generation with all its tables, empty. Raises Bug if it exists.

    A `scratch` one is unlogged: a crash of the database empties it.
    """
    schema = generation_schema(generation)
    async with engine.begin() as connection:
        await connection.execute(CreateSchema(schema))
        await connection.execution_options(schema_translate_map={None: schema})
        await connection.run_sync(projection_metadata.create_all, checkfirst=False)
        for table, columns in CONTENT_COLUMNS.items():
            for column in columns:
                await connection.execute(text(f"ALTER TABLE {schema}.{table} ALTER COLUMN {column} SET STATISTICS 0"))
        for made in PROJECTION_TABLES if scratch else ():
            await connection.execute(text(f"ALTER TABLE {schema}.{made.name} SET UNLOGGED"))


async def drop_generation(engine: AsyncEngine, generation: int) -> None:
    """Drop a generation with everything in it, if it exists, checkpoints too. Raises Bug if it is the live one."""
    async with engine.begin() as connection:
        # Held until the end: no flip to a generation that is being dropped.
        live = await connection.scalar(text(f"{_LIVE} FOR SHARE"))
        if live == generation:
            raise Bug(f"generation {generation} is live and can't be dropped")
        await connection.execute(DropSchema(generation_schema(generation), cascade=True, if_exists=True))
        await connection.execute(text("DELETE FROM turnlog.checkpoints WHERE generation = :it"), {"it": generation})


async def live_generation(connection: Connection) -> int:
    """The generation that readers and projectors use."""
    live: int = await connection.fetchval(_LIVE)
    return live


async def previous_generation(connection: Connection) -> int | None:
    """The generation that was live before the last flip, if it is still there."""
    previous: int | None = await connection.fetchval(_PREVIOUS, GENERATION_PREFIX)
    return previous


async def abandoned_generations(connection: Connection) -> list[int]:
    """Generations that are neither live nor kept: what a killed rebuild or verify left, or one that runs right now."""
    kept = {await live_generation(connection), await previous_generation(connection)}
    return [row[0] for row in await connection.fetch(_ALL) if row[0] not in kept]


async def flip(connection: Connection, generation: int) -> int:
    """Make another generation live, in one statement; the former one is kept as `previous` and returned.

    Raises Bug if it is live already or does not exist.
    """
    previous: int | None = await connection.fetchval(_FLIP, generation, generation_schema(generation))
    if previous is None:
        raise Bug(f"can't flip to generation {generation}: it is live already, or it does not exist")
    return previous
