"""The tables in Postgres against the tables in memory: same logs, same batches, same state loaded, same rows stored."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import asyncpg
import pytest

from tests.domain.memory_tables import MemoryTables
from tests.domain.story import GENERAL_A, GENERAL_B, ROOM_A, K, Story
from tests.integration.table_dump import (
    dump,
    expected_dump,
    expected_outbox,
    expected_requests,
    outbox,
    requests,
)
from tests.model.comparison import real_record
from tests.model.generator import written
from tests.model.hostile_values import KEYS
from turnlog.domain.events import Record
from turnlog.domain.fold.decode import decode
from turnlog.domain.fold.effects import Effects
from turnlog.domain.fold.judge import fold
from turnlog.domain.fold.touched import touched
from turnlog.domain.session_key import Scope, session_id
from turnlog.infra.postgres import Database
from turnlog.projections import sessions, state_store
from turnlog.projections.tables import LEDGER_SCHEMA, PROJECTION_TABLES

Connection = asyncpg.Connection
T = TypeVar("T")


async def take(connection: "Connection[Any]", records: Sequence[Record], partition: int = 0) -> Effects:
    """One batch, as the projector applies it, without its checkpoint."""
    decoded = [ready for record in records if (ready := decode(record)) is not None]
    async with state_store.transaction(connection):
        effects = fold(await state_store.load(connection, partition, touched(decoded)), decoded)
        await state_store.apply(connection, partition, effects)
    return effects


async def empty(connection: "Connection[Any]") -> None:
    names = [table.name for table in PROJECTION_TABLES] + ["requests", "erasure_outbox"]
    await connection.execute(f"TRUNCATE {', '.join(names)}")


def batches(items: Sequence[T], random: Random) -> Iterator[Sequence[T]]:
    at = 0
    while at < len(items):
        size = random.choice([1, 2, 5, 20])
        yield items[at : at + size]
        at += size


@pytest.mark.parametrize("part", range(4))
async def test_hostile_logs_end_in_the_tables_of_the_fold_in_memory(connection: "Connection[Any]", part: int) -> None:
    records = 0
    for seed in range(part * 15, part * 15 + 15):
        random = Random(seed)
        log = written(random.choice(KEYS), [random.getrandbits(64) for _ in range(60)])
        memory = MemoryTables()
        effects: list[Effects] = []
        await empty(connection)
        for batch in batches([real_record(record) for record in log.records], random):
            wanted = touched([ready for record in batch if (ready := decode(record)) is not None])
            assert await state_store.load(connection, 0, wanted) == memory.load(wanted), seed
            effects.append(memory.fold(batch))
            assert await take(connection, batch) == effects[-1], seed
        assert await dump(connection) == expected_dump({0: memory}), seed
        assert await outbox(connection) == expected_outbox(0, memory), seed
        assert await requests(connection) == expected_requests(0, effects), seed
        records += len(log.records)
    assert records > 500


async def test_folding_again_over_full_ledgers_changes_no_ledger(connection: "Connection[Any]", story: Story) -> None:
    story.turn(K, "e1", idempotency_key=b"k" * 32)
    story.saved(K)
    story.deleted(K)
    story.resend(1, sent_after=0)
    await take(connection, story.records)
    before = await dump(connection), await outbox(connection), await requests(connection)
    await connection.execute(f"TRUNCATE {', '.join(table.name for table in PROJECTION_TABLES)}")
    for record in story.records:
        await take(connection, [record])
    assert (await dump(connection), await outbox(connection), await requests(connection)) == before


async def test_a_plain_batch_takes_four_round_trips(connection: "Connection[Any]", story: Story) -> None:
    for number in range(40):
        story.turn(f"agent:a{number % 4}:native", f"e{number}")
    await take(connection, story.records[:20])
    sent: list[str] = []
    with connection.query_logger(lambda query: sent.append(query.query)):
        await take(connection, story.records[20:])
        await anyio.lowlevel.checkpoint()  # the logger is told about the last query one turn later
    assert len(sent) == 4, sent
    assert await dump(connection) == expected_dump({0: story.tables})


async def test_a_batch_that_fails_leaves_nothing(connection: "Connection[Any]", story: Story) -> None:
    story.turn(K, "e1")
    effects = replace(story.effects[0], entries=[story.effects[0].entries[0]._replace(text="not JSON")])
    before = await dump(connection)
    with pytest.raises(asyncpg.CheckViolationError):
        await write(connection, effects)
    assert not connection.is_in_transaction()
    assert await dump(connection) == before


async def test_a_batch_that_is_cancelled_leaves_nothing(
    connection: "Connection[Any]", tables: Database, story: Story
) -> None:
    story.turn(K, "e1")
    before = await dump(connection)
    async with tables.connection() as other, other.transaction():
        await other.execute("LOCK TABLE event_index IN EXCLUSIVE MODE")
        with anyio.move_on_after(0.2) as scope:
            await write(connection, story.effects[0])
    assert scope.cancelled_caught
    assert not connection.is_in_transaction()
    assert await dump(connection) == before


async def write(connection: "Connection[Any]", effects: Effects) -> None:
    async with state_store.transaction(connection):
        await state_store.apply(connection, 0, effects)


async def touched_rows(connection: "Connection[Any]", records: Sequence[Record]) -> dict[str, tuple[int, ...]]:
    """Table → rows read by scans, read by index, inserted, updated and deleted by this batch."""
    decoded = [ready for record in records if (ready := decode(record)) is not None]
    async with state_store.transaction(connection):
        before = await row_counters(connection)
        effects = fold(await state_store.load(connection, 0, touched(decoded)), decoded)
        await state_store.apply(connection, 0, effects)
        after = await row_counters(connection)
    return {name: tuple(a - b for a, b in zip(after[name], before[name], strict=True)) for name in after}


async def row_counters(connection: "Connection[Any]") -> dict[str, tuple[int, ...]]:
    rows = await connection.fetch(
        "SELECT relname, seq_tup_read, idx_tup_fetch, n_tup_ins, n_tup_upd, n_tup_del "
        "FROM pg_stat_xact_user_tables WHERE schemaname IN (current_schema(), $1)",
        LEDGER_SCHEMA,
    )
    return {row["relname"]: tuple(row[1:]) for row in rows}


async def fill(connection: "Connection[Any]", key: str, count: int) -> None:
    """Give a session this many entries, and as many rows in the event index."""
    await connection.execute(
        "INSERT INTO transcript_entries (session_id, entry_hash, row_id, arrived_ms, placement, gateway_url, entry) "
        "SELECT $1, gen_random_uuid(), 4096 * n, 1, 0, '', '{}' FROM generate_series(1000, 999 + $2::int) AS n",
        session_id(key),
        count,
    )
    await connection.execute(
        "INSERT INTO event_index (subject_id, event_id, position, attempt, partition, type, status) "
        "SELECT $1, gen_random_uuid(), n, 1, 0, 2, 200 FROM generate_series(1000, 999 + $2::int) AS n",
        session_id(key),
        count,
    )


@pytest.mark.parametrize("ending", ["clear", "reset", "turn"])
async def test_an_ending_or_a_turn_touches_as_many_rows_with_100_000_messages_as_with_10(
    connection: "Connection[Any]", story: Story, ending: str
) -> None:
    story.turn(GENERAL_A, "e1")
    story.turn(GENERAL_B, "e1")
    story.turn(ROOM_A, "e1")
    story.turn(K, "e1")
    match ending:
        case "clear":
            story.clear()
        case "reset":
            story.reset(GENERAL_A)
        case _:
            story.turn(GENERAL_A, "e2")
    costs = []
    for count in (10, 100_000):
        await empty(connection)
        await take(connection, story.records[:-1])
        await fill(connection, GENERAL_A, count)
        costs.append(await touched_rows(connection, story.records[-1:]))
    assert costs[0] == costs[1]
    assert sum(cost[0] for cost in costs[1].values()) == 0, "no table is read as a whole"
    assert costs[1]["transcript_entries"][3:] == (0, 0)


async def test_no_batch_reads_a_table_as_a_whole(connection: "Connection[Any]", story: Story) -> None:
    for number in range(60):
        story.turn(f"agent:a{number}:team:t{number % 3}", f"e{number}", idempotency_key=bytes([number]) * 32)
    story.clear("*")
    story.deleted(GENERAL_A)
    await take(connection, story.records[:30])
    await connection.execute("ANALYZE")
    cost = await touched_rows(connection, story.records[30:])
    assert {name for name, (scanned, *_) in cost.items() if scanned} == set()


def test_a_room_that_is_named_like_the_whole_team_loads_more_and_no_less() -> None:
    scopes = [Scope("t", "general"), Scope("t", "room:r"), Scope("t", "*"), Scope("t", "room:*")]
    assert sessions.cleared_rooms(scopes) == [None, "r", "*", "*"]
