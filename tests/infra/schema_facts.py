"""Everything PostgreSQL's catalogs say about the tables of one schema, to compare two schemas by."""

from typing import Any

import asyncpg

_COLUMNS = """
SELECT c.relname, a.attnum::int, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
  pg_get_expr(d.adbin, d.adrelid), co.collname, a.attstattarget, col_description(c.oid, a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_collation co ON co.oid = a.attcollation
WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r' ORDER BY 1, 2
"""
_CONSTRAINTS = """
SELECT c.relname, k.conname, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE c.relnamespace = to_regnamespace($1) AND k.contype <> 'n' ORDER BY 1, 2
"""
_INDEXES = """
SELECT tablename, indexname, replace(indexdef, schemaname || '.', '') FROM pg_indexes
WHERE schemaname = $1 ORDER BY 1, 2
"""
_OPTIONS = """
SELECT c.relname, c.relkind::text, c.reloptions, obj_description(c.oid) FROM pg_class c
WHERE c.relnamespace = to_regnamespace($1) ORDER BY 1
"""


async def schema_facts(connection: "asyncpg.Connection[Any]", schema: str) -> dict[str, list[tuple[object, ...]]]:
    """Columns, constraints, indexes and storage options, without Alembic's own table."""
    found = {}
    for name, query in (
        ("columns", _COLUMNS),
        ("constraints", _CONSTRAINTS),
        ("indexes", _INDEXES),
        ("options", _OPTIONS),
    ):
        rows = [tuple(row) for row in await connection.fetch(query, schema)]
        found[name] = [row for row in rows if not str(row[0]).startswith("alembic_version")]
    return found
