"""Generations of the projection tables: each is a schema of its own, and one row says which of them is live."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.schema import CreateSchema, DropSchema

from turnlog.domain.errors import Bug
from turnlog.projections.statement import Connection
from turnlog.projections.tables import generation_schema, projection_metadata

_LIVE = "SELECT live FROM turnlog.generations"
_FLIP = """
UPDATE turnlog.generations SET previous = live, live = $1::int, flipped_at = clock_timestamp()
WHERE live <> $1::int AND to_regnamespace($2) IS NOT NULL
RETURNING previous
"""


async def create_generation(engine: AsyncEngine, generation: int) -> None:
    """Make the schema of a generation with all its tables, empty. Raises Bug if it exists."""
    schema = generation_schema(generation)
    async with engine.begin() as connection:
        await connection.execute(CreateSchema(schema))
        await connection.execution_options(schema_translate_map={None: schema})
        await connection.run_sync(projection_metadata.create_all, checkfirst=False)


async def drop_generation(engine: AsyncEngine, generation: int) -> None:
    """Drop a generation with everything in it, if it exists. Raises Bug if it is the live one."""
    async with engine.begin() as connection:
        # Held until the end: no flip to a generation that is being dropped.
        live = await connection.scalar(text(f"{_LIVE} FOR SHARE"))
        if live == generation:
            raise Bug(f"generation {generation} is live and can't be dropped")
        await connection.execute(DropSchema(generation_schema(generation), cascade=True, if_exists=True))


async def live_generation(connection: Connection) -> int:
    """The generation that readers and projectors use."""
    live: int = await connection.fetchval(_LIVE)
    return live


async def flip(connection: Connection, generation: int) -> int:
    """Make another generation live, in one statement; the former one is kept as `previous` and returned.

    Raises Bug if it is live already or does not exist.
    """
    previous: int | None = await connection.fetchval(_FLIP, generation, generation_schema(generation))
    if previous is None:
        raise Bug(f"can't flip to generation {generation}: it is live already, or it does not exist")
    return previous
