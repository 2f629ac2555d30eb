"""SQL text with its arguments, and several of them joined into one round trip.

Each table's module makes statements; `state_store` joins those of one batch. Arguments are arrays, one per column, so
a statement writes any number of rows.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import asyncpg

Connection: TypeAlias = "asyncpg.Connection[Any]"

_PARAMETER = re.compile(r"\$(\d+)")


class Statement(NamedTuple):
    """One SQL statement with parameters `$1`, `$2`, … and their values."""

    sql: str
    args: Sequence[object]


def columns(rows: Iterable[Sequence[object]]) -> list[Sequence[object]]:
    """The rows turned into one array per column, as `unnest` takes them. There must be a row."""
    return list(zip(*rows, strict=True))


def combined(statements: Sequence[Statement]) -> Statement:
    """All statements as one, by data-modifying `WITH` parts: one round trip, one plan kept by the server.

    They see the same snapshot and run in no particular order, so no two may write the same row.
    """
    if len(statements) == 1:
        return statements[0]
    sql = _joined(tuple((statement.sql, len(statement.args)) for statement in statements))
    return Statement(sql, [arg for statement in statements for arg in statement.args])


@lru_cache(maxsize=512)
def _joined(parts: tuple[tuple[str, int], ...]) -> str:
    texts: list[str] = []
    before = 0
    for sql, count in parts:
        texts.append(_renumbered(sql, before))
        before += count
    *others, last = texts
    return "WITH " + ", ".join(f"w{index} AS ({text})" for index, text in enumerate(others)) + " " + last


def _renumbered(sql: str, by: int) -> str:
    return _PARAMETER.sub(lambda match: f"${int(match[1]) + by}", sql)
