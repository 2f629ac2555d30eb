"""Is this still the log that the tables were made from? Asked before a projector goes on with a partition.

The last record with a value below the checkpoint must be the one last applied, or it must be known as erased. A
restored, recreated or swapped log fails this, and is refused by name instead of being folded into the wrong tables.
"""

from turnlog.domain.errors import Misconfigured, Unavailable
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import Record
from turnlog.infra.postgres import Database
from turnlog.projections import erasure_outbox
from turnlog.projections.checkpoints import Held

READ_RECORDS = 500
READ_WAIT_MS = 1_000
READS_WITHOUT_PROGRESS = 10


async def check_last_applied(database: Database, log: EventLog, held: Held) -> None:
    """Raises Misconfigured if the log isn't the one that was applied up to `held`; Unavailable if it can't be read."""
    if held.next_offset == 0:
        return
    end = await log.end(held.partition)
    if end < held.next_offset:
        raise _another_log(held, f"it ends at offset {end}, the tables are at {held.next_offset}")
    found = await _last_with_a_value(log, held)
    if found is None:
        await _check_known_as_erased(database, held)
    elif found.position.offset != held.last_offset or found.key.event_id != held.last_event_id:
        raise _another_log(
            held,
            f"below offset {held.next_offset} its last event is {found.key.event_id} at {found.position.offset}, "
            f"the last one applied is {held.last_event_id} at {held.last_offset}",
        )


async def _last_with_a_value(log: EventLog, held: Held) -> Record | None:
    """The last record below the checkpoint that still has a value, looking no further back than the last applied."""
    at = held.last_offset or 0
    found: Record | None = None
    idle = 0
    while at < held.next_offset:
        limit = min(READ_RECORDS, held.next_offset - at)
        batch = await log.read(held.partition, at, limit=limit, wait_ms=READ_WAIT_MS)
        for record in batch.records:
            has_value = record.event is not None or record.undecodable is not None
            if has_value and record.position.offset < held.next_offset:
                found = record
        idle = 0 if batch.next_offset > at else idle + 1
        if idle == READS_WITHOUT_PROGRESS:
            raise Unavailable(f"the log gives nothing back from partition {held.partition} at offset {at}")
        at = max(at, batch.next_offset)
    return found


async def _check_known_as_erased(database: Database, held: Held) -> None:
    if held.last_offset is None or held.last_event_id is None:
        return
    async with database.connection() as connection:
        known = await erasure_outbox.holds(connection, held.partition, held.last_offset, held.last_event_id)
    if not known:
        raise _another_log(
            held, f"event {held.last_event_id} at offset {held.last_offset} is missing and was not erased by turnlog"
        )


def _another_log(held: Held, why: str) -> Misconfigured:
    return Misconfigured(
        f"another log: partition {held.partition} isn't the one these tables were made from: {why}. "
        "Use the log that belongs to this database, or an empty database"
    )
