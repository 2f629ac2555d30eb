"""The tables of a database against its log: the fold in memory from zero, and the naive model of the rules."""

from tests.domain.memory_tables import MemoryTables
from tests.integration.table_dump import dump, expected_dump
from tests.log_settings import read_all
from tests.model.comparison import naive_dump, real_dump
from tests.model.naive_fold import NaiveFold
from tests.model.naive_records import LogRecord
from turnlog.domain.events import Record
from turnlog.services.composition import Turnlog


async def check_tables(turnlog: Turnlog) -> int:
    """Everything applied is what both folds of the log of one partition give; the number of records."""
    records = await read_all(turnlog.log, 0)
    await turnlog.applied.reach(records[-1].position, timeout_ms=20_000)
    tables = MemoryTables()
    tables.fold(records)
    async with turnlog.database.connection() as connection:
        assert await dump(connection) == expected_dump({0: tables})
    assert real_dump(tables) == naive_dump(NaiveFold().take_all([_naive(record) for record in records]))
    return len(records)


def _naive(record: Record) -> LogRecord:
    event = record.event
    if event is None:
        event_id = record.key.event_id.hex
        return LogRecord(record.position.offset, record.appended_ms, event_id, "", "", "", None)
    return LogRecord(
        offset=record.position.offset,
        appended_ms=record.appended_ms,
        event_id=event.id.hex,
        type=event.type.removeprefix("dev.turnlog.").removesuffix(".v1"),
        stream=event.stream,
        subject=event.subject,
        data=event.data,
        attempt=event.attempt,
        sent_after=event.sent_after,
        key_hash=event.idempotency_key,
        request_hash=event.request_hash,
        producer=None if event.producer is None else str(event.producer),
        actor=event.actor,
        ignorable=event.ignorable,
    )
