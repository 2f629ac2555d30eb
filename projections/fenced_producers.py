"""The `fenced_producers` table: dead producers whose late records a partition ignores."""

from collections.abc import Mapping
from uuid import UUID

from turnlog.projections.statement import Statement

LOAD = """
SELECT ROW(producer, position) FROM fenced_producers
WHERE partition = {partition}::smallint AND producer = ANY({producers}::uuid[])
"""

_INSERT = """
INSERT INTO fenced_producers (partition, producer, position)
SELECT $1::smallint, i.producer, i.position FROM unnest($2::uuid[], $3::bigint[]) AS i(producer, position)
ON CONFLICT (partition, producer) DO UPDATE SET position = excluded.position
"""


def upsert(partition: int, producers: Mapping[UUID, int]) -> Statement:
    """Write at which offset these producers were fenced."""
    return Statement(_INSERT, [partition, list(producers), list(producers.values())])
