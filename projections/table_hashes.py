"""A hash of every projection table, the same for the same rows in whatever order they lie.

Per row SHA-256 over its text form; the first eight bytes of each are added up as numbers, beside the row count.
"""

from typing import NamedTuple

from turnlog.projections.statement import Connection
from turnlog.projections.tables import PROJECTION_TABLES, generation_schema

_HASH = """
SELECT count(*), coalesce(sum(('x' || left(encode(sha256(convert_to(t::text, 'UTF8')), 'hex'), 16))::bit(64)::bigint), 0)::text
FROM {schema}.{table} AS t
"""


class TableHash(NamedTuple):
    """Rows, and the sum of their hashes as decimal text."""

    rows: int
    digest: str


async def table_hash(connection: Connection, generation: int, table: str) -> TableHash:
    """The hash of one projection table of a generation."""
    sql = _HASH.format(schema=generation_schema(generation), table=table)
    row = await connection.fetchrow(sql)
    return TableHash(row[0], row[1])


TABLES = tuple(sorted(table.name for table in PROJECTION_TABLES))
"""The names of the tables that are compared."""
