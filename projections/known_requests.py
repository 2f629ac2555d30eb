"""Looking verdicts up in `requests`: by event id once applied, by key hash before a keyed request is appended."""

from typing import NamedTuple
from uuid import UUID

import asyncpg
import orjson

from turnlog.projections.checkpoints import OF_THE_TABLES
from turnlog.projections.statement import Connection

_COLUMNS = (
    "r.event_id, r.partition, r.position, r.epoch, r.type, r.status, r.stored, r.request_hash, r.first_event_id, "
    "r.error, r.session_keys, f.last_delete"
)
_BY_EVENT = f"""
SELECT {_COLUMNS} FROM requests AS r LEFT JOIN fences AS f ON f.session_id = r.subject_id WHERE r.event_id = $1
"""  # noqa: S608 - column names are constants of this module
_BY_KEY = f"""
SELECT c.next_offset, {_COLUMNS}
FROM checkpoints AS c
LEFT JOIN LATERAL (
  -- A duplicate's verdict stands at the position of the first, and says less.
  SELECT * FROM requests WHERE key_hash = $1 ORDER BY position, first_event_id IS NOT NULL LIMIT 1
) AS r ON true
LEFT JOIN fences AS f ON f.session_id = r.subject_id
WHERE c.generation = {OF_THE_TABLES} AND c.partition = $2
"""  # noqa: S608 - column names are constants of this module


class KnownRequest(NamedTuple):
    """A verdict as stored. `last_delete` is the offset of the subject's last delete, if any."""

    event_id: UUID
    partition: int
    position: int
    epoch: int
    type: int
    status: int
    stored: int
    request_hash: bytes | None
    first_event_id: UUID | None
    error: str | None
    session_keys: tuple[str, ...]
    last_delete: int | None


async def by_event(connection: Connection, event_id: UUID) -> KnownRequest | None:
    """The verdict on this event, or None if none is stored (yet)."""
    row = await connection.fetchrow(_BY_EVENT, event_id)
    return None if row is None else _known(row)


async def by_key(connection: Connection, key_hash: bytes, partition: int) -> tuple[int, KnownRequest | None]:
    """The partition's checkpoint and, in the same snapshot, the first verdict on this key hash, if it is known."""
    row = await connection.fetchrow(_BY_KEY, key_hash, partition)
    if row is None:
        return 0, None
    return row["next_offset"], None if row["event_id"] is None else _known(row)


def _known(row: asyncpg.Record) -> KnownRequest:
    values = dict(row)
    values.pop("next_offset", None)
    keys = values.pop("session_keys")
    return KnownRequest(**values, session_keys=tuple(orjson.loads(keys)) if keys else ())
