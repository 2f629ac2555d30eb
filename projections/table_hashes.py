"""A hash of every projection table, the same for the same rows in whatever order they lie.

Per row SHA-256 over its text form, columns by name; the first eight bytes of each are added up as numbers, beside the
row count.
"""

from typing import NamedTuple

from turnlog.projections.statement import Connection
from turnlog.projections.tables import PROJECTION_TABLES, generation_schema

_COLUMNS = {table.name: ", ".join(sorted(column.name for column in table.columns)) for table in PROJECTION_TABLES}

TABLES = tuple(sorted(_COLUMNS))
"""The names of the tables that are compared."""

_HASH = """
SELECT count(*), coalesce(sum(('x' || left(encode(sha256(convert_to(
  ROW({columns})::text, 'UTF8')), 'hex'), 16))::bit(64)::bigint), 0)::text
FROM {schema}.{table}
"""


class TableHash(NamedTuple):
    """Rows, and the sum of their hashes as decimal text."""

    rows: int
    digest: str


async def table_hash(connection: Connection, generation: int, table: str) -> TableHash:
    """The hash of one projection table of a generation. Reads all of it: use a patient connection."""
    sql = _HASH.format(columns=_COLUMNS[table], schema=generation_schema(generation), table=table)
    row = await connection.fetchrow(sql)
    assert row is not None  # noqa: S101 - an aggregate has one row
    return TableHash(row[0], row[1])
