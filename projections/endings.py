"""The `endings` table: every reset, clear and delete, with who and why. Its rows are never removed."""

from collections.abc import Sequence

from turnlog.domain.fold.effects import EndingRow
from turnlog.projections.statement import Statement, columns

_INSERT = """
INSERT INTO endings (
  partition, position, ordinal, kind, session_id, team_id, scope, actor, reason, cleared_at_ms, appended_ms)
SELECT $1::smallint, i.position, i.ordinal, i.kind, i.session_id, i.team_id, i.scope, i.actor, i.reason,
  i.cleared_at_ms, i.appended_ms
FROM unnest(
  $2::bigint[], $3::smallint[], $4::smallint[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[],
  $10::bigint[], $11::bigint[])
AS i(position, ordinal, kind, session_id, team_id, scope, actor, reason, cleared_at_ms, appended_ms)
"""


def insert(partition: int, endings: Sequence[EndingRow]) -> Statement:
    """Add these endings."""
    return Statement(_INSERT, [partition, *columns(_values(ending) for ending in endings)])


def _values(ending: EndingRow) -> tuple[object, ...]:
    team_id, scope = ending.scope or (None, None)
    return (
        ending.offset,
        ending.ordinal,
        ending.kind,
        ending.session_id,
        team_id,
        scope,
        ending.actor,
        ending.reason,
        ending.cleared_at_ms,
        ending.appended_ms,
    )
