"""The `clears` table: the offset of the last clear of every scope that was ever cleared."""

from collections.abc import Mapping

from turnlog.domain.session_key import Scope
from turnlog.projections.statement import Statement

LOAD = """
SELECT ROW(c.team_id, c.scope, c.last_clear)
FROM unnest({scope_teams}::text[], {scope_names}::text[]) AS s(team_id, scope)
JOIN clears c ON c.team_id = s.team_id AND c.scope = s.scope
"""

_UPSERT = """
INSERT INTO clears (team_id, scope, partition, last_clear)
SELECT i.team_id, i.scope, $1::smallint, i.last_clear
FROM unnest($2::text[], $3::text[], $4::bigint[]) AS i(team_id, scope, last_clear)
ON CONFLICT (team_id, scope) DO UPDATE SET last_clear = excluded.last_clear
"""


def upsert(partition: int, clears: Mapping[Scope, int]) -> Statement:
    """Write the offset of the last clear of these scopes."""
    teams = [scope.team_id for scope in clears]
    names = [scope.name for scope in clears]
    return Statement(_UPSERT, [partition, teams, names, list(clears.values())])
