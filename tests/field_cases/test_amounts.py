"""Conversations that grow: C27, C28, C30, C32.

| case | tested now | waits for a later surface |
| - | - | - |
| C27 | the default page is the newest, a walk has all of 250 entries, as has a stream | snapshots |
| C28 | a page of 20 reads as many rows of 50,000 as of 1,000, and takes as long | context windows |
| C30 | 40,000 entries are saved, walked, reset, cleared and deleted, and 4,096 keys reset at once | - |
| C32 | what is stored grows with what was sent, not with its square | - |
"""

import json
import statistics
import time
from typing import Any

import asyncpg
import pytest

from tests.api import Api, Entry, agent_key, entry, fresh, numbered, target
from tests.served import fetch
from turnlog.domain.session_key import session_id
from turnlog.projections import pages
from turnlog.projections.tables import LEDGER_SCHEMA, generation_schema

BATCH = 4_000
MEBIBYTE = 1024 * 1024


async def grow(api: Api, key: str, start: int, end: int) -> None:
    """Save short entries e<start> to e<end - 1>."""
    for first in range(start, end, BATCH):
        batch = [{"entryId": f"e{number}"} for number in range(first, min(end, first + BATCH))]
        assert (await api.save(key, *batch)).status == 200


async def test_c27_the_default_page_is_the_newest_and_nothing_is_out_of_reach(api: Api) -> None:
    name = fresh("a")
    key = f"agent:{name}:native"
    for start in range(0, 250, 50):
        await api.save(key, *numbered(range(start, start + 50)))
    page = (await api.page(key)).json()
    assert page["entries"] == numbered(range(50, 250))
    assert page["hasMore"] is True
    assert await api.entries(key, before=page["nextBefore"]) == numbered(range(50))
    for limit in (1, 20, 99, 100, 101, 249, 250, 251):
        assert await api.entries(key, limit=limit) == numbered(range(max(0, 250 - limit), 250))
    for limit in (7, 100, 125, 250):
        walked = [page async for page in api.walk(key, limit=limit)]
        assert [item for page in reversed(walked) for item in page] == numbered(range(250))
    async with api.stream(f"/api/agents/{name}/chat/stream") as reader:
        assert [event.data for event in await reader.rows(250)] == numbered(range(250))


class Explained:
    """Stands where a connection does, and asks the server what the statement reads instead."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - asyncpg's own class is generic in its stubs only
        self._connection = connection
        self.rows = 0

    async def fetchrow(self, statement: str, *arguments: object) -> None:
        """Count the rows that every node of the plan hands on or throws away."""
        plan = await self._connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *arguments)
        self.rows = _rows(json.loads(plan)[0]["Plan"])


def _rows(node: dict[str, Any]) -> int:
    filtered = sum(count for name, count in node.items() if name.startswith("Rows Removed"))
    own = int(node["Actual Loops"] * (node["Actual Rows"] + filtered))
    return own + sum(_rows(child) for child in node.get("Plans", []))


async def rows_read(api: Api, key: str, before: int) -> int:
    """How many rows one page of 20 reads, on a connection as the server's own."""
    path = f"{generation_schema(1)}, {LEDGER_SCHEMA}"
    kept = {"enable_seqscan": "off", "enable_bitmapscan": "off", "plan_cache_mode": "force_generic_plan"}
    connection = await asyncpg.connect(api.database.dsn, server_settings={"search_path": path, **kept})
    try:
        explained: Any = Explained(connection)
        await pages.newest(explained, session_id(key), before, 20)
        found: int = explained.rows
        return found
    finally:
        await connection.close()


async def median_ms(api: Api, key: str) -> float:
    """How long a page of 20 takes, with its connection."""
    took = []
    for _ in range(25):
        start = time.perf_counter()
        assert len(await api.entries(key, limit=20)) == 20
        took.append((time.perf_counter() - start) * 1000)
    return statistics.median(took)


async def test_c28_a_window_costs_the_same_in_a_long_conversation(on_postgres: Api) -> None:
    short, long = agent_key(), agent_key()
    await grow(on_postgres, short, 0, 1_000)
    await grow(on_postgres, long, 0, 50_000)
    middle = (await on_postgres.page(long, None, limit=1000)).json()["nextBefore"]
    assert (await on_postgres.ids(long))[-1] == "e49999"
    read = [
        await rows_read(on_postgres, key, before) for key, before in ((short, 2**62), (long, 2**62), (long, middle))
    ]
    assert max(read) <= 20 * 6, read
    quick = await median_ms(on_postgres, short)
    assert await median_ms(on_postgres, long) < 3 * quick + 10


async def test_c30_every_operation_takes_forty_thousand_messages(on_postgres: Api) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    await grow(on_postgres, key, 0, 40_000)
    await grow(on_postgres, key, 0, 40_000)
    walked = [page async for page in on_postgres.walk(key, limit=1000)]
    assert [item["entryId"] for page in reversed(walked) for item in page] == [f"e{number}" for number in range(40_000)]
    assert (await on_postgres.reset(key)).status == 200
    (listed,) = (await on_postgres.ask("GET", target("/v1/sessions", prefix=key))).json()["sessions"]
    assert listed["entries"] == 40_001
    assert (await on_postgres.clear(team)).status == 200
    assert await on_postgres.ids(key) == []
    assert (await on_postgres.delete(key)).status == 200
    await grow(on_postgres, key, 0, 10)
    assert len(await on_postgres.ids(key)) == 10
    left = await fetch(
        on_postgres.database, "SELECT count(*) FROM transcript_entries WHERE session_id = $1", session_id(key)
    )
    assert left[0][0] == 10


async def test_c30_a_reset_of_many_sessions_is_whole_or_refused(on_postgres: Api) -> None:
    team = fresh("t")
    keys = [f"agent:a{number}:team:{team}" for number in range(4_096)]
    refused = await on_postgres.reset(*keys, "one:more")
    assert (refused.status, refused.error()) == (400, "too many sessionKeys")
    assert await on_postgres.epoch(keys[0]) == 0
    assert (await on_postgres.reset(*keys)).status == 200
    assert await on_postgres.epoch(keys[0]) == await on_postgres.epoch(keys[-1]) > 0


async def test_c30_a_clear_takes_every_session_of_a_large_team(on_postgres: Api) -> None:
    team = fresh("t")
    keys = [f"agent:a{number}:team:{team}" for number in range(200)]
    for key in keys:
        assert (await on_postgres.save(key, entry(1))).status == 200
    assert sorted((await on_postgres.clear(team)).json()["sessionKeys"]) == sorted(keys)


_STORED = """
SELECT coalesce(sum(pg_column_size(t.*)), 0)::bigint FROM {} AS t
"""


async def stored_bytes(api: Api) -> int:
    """Bytes of all rows of all of turnlog's tables, the log included."""
    tables = await fetch(
        api.database,
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname LIKE 'turnlog%'",
    )
    sizes = [await fetch(api.database, _STORED.format(table[0])) for table in tables]
    return sum(size[0][0] for size in sizes)


@pytest.mark.parametrize("resent", [0, 2])
async def test_c32_what_is_stored_grows_with_what_was_sent(on_postgres: Api, resent: int) -> None:
    """Clients send each turn of 2 kB alone, or with the last ones before it once more."""
    key = agent_key()
    before = await stored_bytes(on_postgres)
    sent: list[Entry] = []
    grown: dict[int, int] = {}
    for turn in range(1, 201):
        sent.append(entry(turn, fresh() * 125))
        assert (await on_postgres.save(key, *sent[-1 - resent :])).status == 200
        if turn in (100, 200):
            assert await on_postgres.entries(key, limit=1000) == sent
            grown[turn] = await stored_bytes(on_postgres) - before
    assert grown[200] / grown[100] < 2.3, grown
    # Once in the log as sent, once in the tables.
    assert grown[200] < 200 * 2_800 * (2 + resent), grown


async def test_c30_a_page_of_big_entries_ends_early_and_walks_and_streams_go_on_from_there(api: Api) -> None:
    name = fresh("a")
    key = f"agent:{name}:native"
    # As much as one request may carry, and together more than a page does.
    count = pages.PAGE_BYTES // MEBIBYTE + 3
    for number in range(count):
        assert (await api.save(key, entry(number, "x" * MEBIBYTE))).status == 200
    page = await api.page(key, limit=1000)
    assert len(page.body) < pages.PAGE_BYTES + 100
    assert page.json()["hasMore"] is True
    expected = [f"e{number}" for number in range(count)]
    assert [item["entryId"] for item in page.json()["entries"]] == expected[4:]
    walked = [page async for page in api.walk(key, limit=1000)]
    assert [item["entryId"] for page in reversed(walked) for item in page] == expected
    async with api.stream(f"/api/agents/{name}/chat/stream") as reader:
        assert [event.data["entryId"] for event in await reader.rows(count)] == expected
