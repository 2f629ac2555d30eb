"""The `projector_members` ledger: which projectors are alive, so that each takes its fair share of partitions."""

from uuid import UUID

from turnlog.projections.statement import Connection

_SEEN = """
WITH gone AS (DELETE FROM projector_members WHERE seen_until < clock_timestamp() AND member <> $1),
seen AS (
  INSERT INTO projector_members (member, seen_until) VALUES ($1, clock_timestamp() + $2::bigint * interval '1 ms')
  ON CONFLICT (member) DO UPDATE SET seen_until = excluded.seen_until
)
SELECT 1 + count(*) FROM projector_members WHERE seen_until >= clock_timestamp() AND member <> $1
"""

_LEAVE = "DELETE FROM projector_members WHERE member = $1"

_LEAVE_ALL = "DELETE FROM projector_members"


async def seen(connection: Connection, member: UUID, lease_ms: int) -> int:
    """This member lives for `lease_ms` from now; how many live, itself included."""
    count: int = await connection.fetchval(_SEEN, member, lease_ms)
    return count


async def leave(connection: Connection, member: UUID) -> None:
    """This member is gone."""
    await connection.execute(_LEAVE, member)


async def leave_all(connection: Connection) -> None:
    """No projector is alive."""
    await connection.execute(_LEAVE_ALL)
