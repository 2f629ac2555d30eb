"""The `checkpoints` ledger: how far each partition is applied, and which projector may go on from there.

A *lease* says who should project a partition, a *fence* makes it safe: taking a partition over bumps the fence, and
every batch moves the checkpoint on with `WHERE fence = mine AND next_offset = expected`. All times are the database's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from turnlog.projections.statement import Connection, Statement
from turnlog.projections.tables import GENERATION_PREFIX

OF_THE_TABLES = f"substr(current_schema(), {len(GENERATION_PREFIX) + 1})::int"
"""In SQL, the generation whose tables this connection finds: checkpoint and rows then belong together, flip or not."""

_ADVANCE = (
    """
UPDATE checkpoints SET
  next_offset = $5::bigint, last_offset = $6::bigint, last_event_id = $7::uuid,
  lease_until = clock_timestamp() + $8::bigint * interval '1 ms', stopped = NULL
WHERE generation = $1::int AND partition = $2::smallint AND fence = $3::bigint AND next_offset = $4::bigint
  AND current_schema() = '"""
    + GENERATION_PREFIX
    + """' || $1::int
RETURNING true
"""
)

_ENSURE = """
INSERT INTO checkpoints (generation, partition) SELECT $1::int, p FROM generate_series(0, $2::int - 1) AS p
ON CONFLICT DO NOTHING
"""

_CLAIM = """
UPDATE checkpoints c SET
  owner = $2, fence = c.fence + 1, lease_until = clock_timestamp() + $3::bigint * interval '1 ms'
FROM (
  SELECT partition FROM checkpoints
  WHERE generation = $1::int AND (owner IS NULL OR owner = $2 OR lease_until < clock_timestamp())
    AND partition <> ALL($5::smallint[]) AND generation = (SELECT live FROM generations)
  ORDER BY lease_until NULLS FIRST, partition LIMIT $4 FOR UPDATE SKIP LOCKED
) AS free
WHERE c.generation = $1::int AND c.partition = free.partition
RETURNING c.partition, c.fence, c.next_offset, c.last_offset, c.last_event_id
"""

_RENEW = """
WITH mine AS (SELECT * FROM unnest($4::smallint[], $5::bigint[]) AS m(partition, fence)),
free AS (
  SELECT c.partition FROM checkpoints c JOIN mine USING (partition, fence)
  WHERE c.generation = $1::int AND c.owner = $2 FOR UPDATE OF c SKIP LOCKED
),
renewed AS (
  UPDATE checkpoints c SET lease_until = clock_timestamp() + $3::bigint * interval '1 ms'
  FROM free WHERE c.generation = $1::int AND c.partition = free.partition
)
SELECT c.partition FROM checkpoints c JOIN mine USING (partition, fence) WHERE c.generation = $1::int AND c.owner = $2
"""

_RELEASE = """
UPDATE checkpoints c SET owner = NULL, lease_until = NULL
FROM unnest($3::smallint[], $4::bigint[]) AS mine(partition, fence)
WHERE c.generation = $1::int AND c.partition = mine.partition AND c.fence = mine.fence AND c.owner = $2
"""

_RELEASE_ALL = "UPDATE checkpoints SET owner = NULL, lease_until = NULL WHERE owner = $1"

_RELEASE_EVERYONES = "UPDATE checkpoints SET owner = NULL, lease_until = NULL WHERE owner IS NOT NULL"

_FENCE_ALL = """
UPDATE checkpoints SET fence = fence + 1, owner = NULL, lease_until = NULL WHERE generation = $1::int
RETURNING partition, next_offset
"""

_START_GENERATION = """
INSERT INTO checkpoints (generation, partition, next_offset, last_offset, last_event_id)
VALUES ($1::int, $2::smallint, $3::bigint, $4::bigint, $5::uuid)
ON CONFLICT (generation, partition) DO UPDATE SET
  next_offset = excluded.next_offset, last_offset = excluded.last_offset, last_event_id = excluded.last_event_id,
  fence = checkpoints.fence + 1, owner = NULL, lease_until = NULL, stopped = NULL
"""

_STOP = """
UPDATE checkpoints SET stopped = $4 WHERE generation = $1::int AND partition = $2::smallint AND fence = $3
"""

_HELD = """
SELECT partition, fence, next_offset, last_offset, last_event_id FROM checkpoints
WHERE generation = $1::int AND partition = $2::smallint AND fence = $3
"""

_NEXT_OFFSETS = "SELECT partition, next_offset FROM checkpoints WHERE generation = $1::int"

CHANNEL = "turnlog_applied"
ENDINGS_CHANNEL = "turnlog_endings"
"""Where hints about applied positions are sent, each `<partition>-<next offset>`."""

_NOTIFY = "SELECT pg_notify($1, hint) FROM unnest($2::text[]) AS hint"

_READ = "SELECT partition, next_offset, stopped, owner FROM checkpoints WHERE generation = $1::int ORDER BY partition"


@dataclass(frozen=True, slots=True)
class Held:
    """A partition as its holder knows it: its fence, and how far it is applied.

    `last_offset` and `last_event_id` name the last applied record that had a value, None before the first.
    """

    generation: int
    partition: int
    fence: int
    next_offset: int
    last_offset: int | None
    last_event_id: UUID | None

    def moved(self, next_offset: int, last: tuple[int, UUID] | None) -> "Held":
        """The same after a batch: `last` is its last record with a value (offset, event id), None if it had none."""
        last_offset, last_event_id = last or (self.last_offset, self.last_event_id)
        return replace(self, next_offset=next_offset, last_offset=last_offset, last_event_id=last_event_id)


class Checkpoint(NamedTuple):
    """One partition as anybody may read it. `stopped` says why it is stopped, if a record there can't be folded."""

    partition: int
    next_offset: int
    stopped: str | None
    owner: UUID | None


def advance(before: Held, after: Held, lease_ms: int) -> Statement:
    """Move the checkpoint on; returns a row only if it still stands at `before` under the same fence.

    Nor does it move if the connection finds the tables of another generation.
    """
    args = [before.generation, before.partition, before.fence, before.next_offset]
    return Statement(_ADVANCE, [*args, after.next_offset, after.last_offset, after.last_event_id, lease_ms])


async def ensure(connection: Connection, generation: int, partitions: int) -> None:
    """Make the rows that are missing, at offset 0."""
    await connection.execute(_ENSURE, generation, partitions)


async def claim(
    connection: Connection, generation: int, member: UUID, lease_ms: int, limit: int, held: Sequence[int] = ()
) -> list[Held]:
    """Take up to `limit` partitions over: nobody's, of a projector whose lease ran out, or this member's own that it
    doesn't project (any more); never those in `held`, which it does.

    Takes nothing if the generation isn't the live one. A partition whose holder is in a transaction right now is left
    for the next look.
    """
    rows = await connection.fetch(_CLAIM, generation, member, lease_ms, limit, held)
    return [Held(generation, *row) for row in rows]


async def renew(
    connection: Connection, generation: int, member: UUID, lease_ms: int, held: Sequence[tuple[int, int]]
) -> set[int]:
    """Make the leases of these (partition, fence) last `lease_ms` from now; the partitions that are still held.

    Waits for nobody: a row that is locked is being moved on by its holder's batch, which renews the lease too.
    """
    rows = await connection.fetch(_RENEW, generation, member, lease_ms, [p for p, _ in held], [f for _, f in held])
    return {row["partition"] for row in rows}


async def release(connection: Connection, generation: int, member: UUID, held: Sequence[tuple[int, int]]) -> None:
    """Give these (partition, fence) back, as far as they are still held."""
    await connection.execute(_RELEASE, generation, member, [p for p, _ in held], [f for _, f in held])


async def release_all(connection: Connection, member: UUID) -> None:
    """Give everything back that this member holds, in every generation."""
    await connection.execute(_RELEASE_ALL, member)


async def release_everyones(connection: Connection) -> None:
    """Give back what any projector holds: for whoever knows that none is alive. A zombie is still fenced."""
    await connection.execute(_RELEASE_EVERYONES)


async def fence_all(connection: Connection, generation: int) -> dict[int, int]:
    """Void what every projector of this generation is doing; partition → the next offset at which that was."""
    return dict(await connection.fetch(_FENCE_ALL, generation))


async def start_generation(
    connection: Connection, generation: int, partition: int, next_offset: int, last: tuple[int, UUID] | None
) -> None:
    """Where a rebuilt generation begins in this partition; `last` is (offset, event id) of its last applied record."""
    last_offset, last_event_id = last or (None, None)
    await connection.execute(_START_GENERATION, generation, partition, next_offset, last_offset, last_event_id)


async def stop(connection: Connection, held: Held, cause: str) -> None:
    """Write down why the partition is stopped. The next applied batch wipes it."""
    await connection.execute(_STOP, held.generation, held.partition, held.fence, cause)


async def reread(connection: Connection, held: Held) -> Held | None:
    """The partition as it is stored now, None if it was taken over: what to do after a lost answer."""
    row = await connection.fetchrow(_HELD, held.generation, held.partition, held.fence)
    return None if row is None else Held(held.generation, *row)


async def read(connection: Connection, generation: int) -> list[Checkpoint]:
    """Every partition's checkpoint, by partition."""
    return [Checkpoint(*row) for row in await connection.fetch(_READ, generation)]


async def next_offsets(connection: Connection, generation: int) -> dict[int, int]:
    """Partition → the first offset that isn't applied yet."""
    return dict(await connection.fetch(_NEXT_OFFSETS, generation))


async def notify(connection: Connection, applied: Mapping[int, int]) -> None:
    """Hint to other processes how far these partitions (→ next offset) are. Never inside a batch's transaction."""
    await connection.execute(_NOTIFY, CHANNEL, [f"{partition}-{offset}" for partition, offset in applied.items()])


async def notify_endings(connection: Connection, hints: Sequence[str]) -> None:
    """Tell other processes of endings that were applied, a hint each. Never inside a batch's transaction."""
    await connection.execute(_NOTIFY, ENDINGS_CHANNEL, hints)
