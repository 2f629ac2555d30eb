"""What must be gone, hidden or in the right time zone: C41, C43, C45, C50, C57.

| case | tested now | waits for a later surface |
| - | - | - |
| C41 | a deleted key begins anew; no row of any table, the log's too, holds what was deleted | attachments' bytes |
| C43 | a delete succeeds whatever the session holds, and while it is written to | - |
| C45 | a delete answered by one process is seen by every other one at once, by page, list and stream | - |
| C50 | instants are UTC with their offset, wherever the process and the database think they are | - |
| C57 | without the token a known id answers as an unknown one, on every operation | tenants |

C43's other half, a guard against UPDATE and DELETE in the database, isn't part of the design: erasure needs both.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import orjson
import pytest
from sqlalchemy.engine import make_url

from tests.api import PATH, RESET, RESUME, Api, agent_key, entry, fresh, numbered, target, together
from tests.served import execute, fetch
from tests.turnlog_process import TurnlogProcess
from turnlog.services.http.instants import iso_instant

_HOLDING = "SELECT count(*) FROM {} AS t WHERE strpos(t::text, $1) > 0 OR strpos(t::text, $2) > 0"


async def tables_holding(api: Api, marker: str) -> set[str]:
    """Every table of the database with a row in which the marker is, as text or as bytes."""
    tables = await fetch(
        api.database,
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
        " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')",
    )
    found = set()
    for (table,) in tables:
        rows = await fetch(api.database, _HOLDING.format(table), marker, marker.encode().hex())
        if rows[0][0]:
            found.add(table)
    return found


async def fill(api: Api, key: str, marker: str) -> None:
    """Everything a session can hold, with the marker in each."""
    await api.post(PATH, {"sessionKey": key, "gatewayUrl": f"ws://{marker}", "entries": [entry(1, marker)]})
    await api.save(key, entry(marker), entry(2) | {marker: [marker]}, idempotency_key=fresh())
    await api.save_resume(key, marker)
    await api.reset(key)
    await api.save_resume(key, marker, 0)
    await api.save(key, entry(1, marker), entry(3, marker))


async def test_c41_c43_a_deleted_session_leaves_no_content_and_begins_anew(on_postgres: Api) -> None:
    marker, other = fresh("marker"), fresh("other")
    team = fresh("t")
    key, mate = f"agent:a:team:{team}", f"agent:b:team:{team}"
    await fill(on_postgres, key, marker)
    await fill(on_postgres, mate, other)
    await on_postgres.clear(team)
    await fill(on_postgres, key, marker)
    kept = await tables_holding(on_postgres, other)
    assert {"turnlog.event_log", "turnlog_g1.transcript_entries"} <= kept & await tables_holding(on_postgres, marker)
    assert (await on_postgres.delete(key)).status == 200
    assert await on_postgres.entries(key) == []
    assert await on_postgres.resume_id(key) is None
    assert await tables_holding(on_postgres, marker) <= {"turnlog.event_log"}
    await on_postgres.save(key, *numbered(range(3)))
    assert await on_postgres.ids(key) == ["e0", "e1", "e2"]
    with anyio.fail_after(20):
        while await tables_holding(on_postgres, marker):
            await anyio.sleep(0.05)
    assert await tables_holding(on_postgres, other) == kept
    assert await on_postgres.ids(key) == ["e0", "e1", "e2"]


async def test_c43_a_delete_succeeds_while_the_session_is_written_to(api: Api) -> None:
    key = agent_key()
    for turn in range(5):
        writes = [api.save(key, entry(f"{turn}-{number}")) for number in range(5)]
        points = [api.save_resume(key, f"r{number}") for number in range(3)]
        answers = await together(*writes, *points, api.reset(key), api.delete(key), api.delete(key))
        assert {answer.status for answer in answers} <= {200, 410}
        assert [answer.status for answer in answers[-2:]] == [200, 200]
    await api.delete(key)
    assert await api.entries(key) == []


async def test_c45_every_process_forgets_at_once(disturbed: Api, tmp_path: Path) -> None:
    other_process = TurnlogProcess(disturbed.process.settings, tmp_path / "other.log")
    try:
        await other_process.start()
        other = Api(other_process.port, other_process, disturbed.database, disturbed.log)
        for number in range(10):
            name = fresh("a")
            key = f"agent:{name}:native"
            writer, reader = (disturbed, other) if number % 2 else (other, disturbed)
            saved = await writer.save(key, *numbered(range(3)))
            await writer.save_resume(key, "r")
            after = {"turnlog_after": saved.headers["turnlog-position"]}
            for _ in range(3):
                assert len((await reader.page(key, after)).json()["entries"]) == 3
            async with reader.stream(f"/api/agents/{name}/chat/stream") as stream:
                assert len(await stream.rows(3)) == 3
                assert (await writer.delete(key)).status == 200
                assert await reader.entries(key) == []
                assert await reader.resume_id(key) is None
                assert (await reader.ask("GET", target("/v1/sessions", prefix=key))).json()["sessions"] == []
                event = await stream.next(within_s=10)
                while event is not None and event.comment is not None:
                    event = await stream.next(within_s=10)
                assert event is not None
                assert event.name == "delete"
            async with reader.stream(f"/api/agents/{name}/chat/stream") as stream:
                await writer.save(key, entry("new"))
                assert [event.data for event in await stream.rows(1)] == [entry("new")]
    finally:
        await other_process.kill()


async def test_c50_instants_are_utc_with_their_offset_in_any_zone(on_postgres: Api) -> None:
    """The server runs in Los Angeles, its database in Kathmandu."""
    name = make_url(on_postgres.database.dsn).database
    await execute(on_postgres.database, f"ALTER DATABASE \"{name}\" SET timezone = 'Asia/Kathmandu'")
    await execute(
        on_postgres.database,
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    key = agent_key()
    began = datetime.now(UTC)
    assert (await on_postgres.save(key, entry(1))).status == 200
    assert (await on_postgres.save_resume(key, "r")).status == 200
    divider = (await on_postgres.reset(agent_key())).json()["entry"]
    ended = datetime.now(UTC)
    point = (await on_postgres.resume(key)).json()["resumePoint"]
    (listed,) = (await on_postgres.ask("GET", target("/v1/sessions", prefix=key))).json()["sessions"]
    instants = [datetime.fromisoformat(text) for text in (point["savedAt"], listed["lastActivity"])]
    instants.append(datetime.fromtimestamp(divider["timestampMs"] / 1000, UTC))
    for instant in instants:
        assert instant.utcoffset() == timedelta(0)
        assert began - timedelta(milliseconds=2) <= instant <= ended


# 2026: clocks go forward on 8 March and back on 1 November in Los Angeles.
CHANGES = [datetime(2026, 3, 8, 10, tzinfo=UTC), datetime(2026, 11, 1, 9, tzinfo=UTC)]


@pytest.fixture
def in_los_angeles() -> Iterator[None]:
    """This process believes to be there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/Los_Angeles")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_los_angeles")
@pytest.mark.parametrize("change", CHANGES, ids=str)
async def test_c50_no_hour_is_lost_or_doubled_where_clocks_change(on_postgres: Api, change: datetime) -> None:
    minutes = range(-120, 121, 15)
    instants = [change + timedelta(minutes=minute, milliseconds=1) for minute in minutes]
    written = [iso_instant(round(instant.timestamp() * 1000)) for instant in instants]
    assert [datetime.fromisoformat(text) for text in written] == instants
    assert written == sorted(set(written))
    key = agent_key()
    sent = [entry(n, timestampMs=round(instant.timestamp() * 1000)) for n, instant in enumerate(instants)]
    await on_postgres.save(key, *sent)
    assert await on_postgres.entries(key) == sent


async def test_c57_without_the_token_a_known_id_answers_as_an_unknown_one(guarded: Api) -> None:
    token = {"authorization": "Bearer tok-en_1.~"}
    team = fresh("t")
    known = f"agent:a:team:{team}"
    assert (await guarded.save(known, entry(1), **token)).status == 200
    answers = []
    for chat, key in ((team, known), (fresh("t"), f"agent:a:team:{fresh('t')}")):
        operations: list[tuple[str, str, dict[str, object]]] = [
            ("GET", target(PATH, sessionKey=key), {}),
            ("POST", PATH, {"sessionKey": key, "entries": [entry(2)]}),
            ("DELETE", target(PATH, sessionKey=key), {}),
            ("POST", RESET, {"sessionKeys": [key]}),
            ("GET", target(RESUME, sessionKey=key), {}),
            ("PUT", RESUME, {"sessionKey": key, "runtime": "r", "resumeId": "r"}),
            ("DELETE", target(RESUME, sessionKey=key), {}),
            ("GET", target("/v1/sessions", prefix=key), {}),
            ("POST", f"/api/teams/{chat}/chat/clear", {}),
            ("POST", f"/api/teams/{chat}/chat/delta", {"x": 1}),
            ("POST", f"/api/teams/{chat}/chat/status", {"x": 1}),
            ("GET", f"/api/teams/{chat}/chat/stream", {}),
            ("GET", f"/api/agents/{chat}/chat/stream", {}),
        ]
        answers.append([await strangers(guarded, *operation) for operation in operations])
    assert answers[0] == answers[1]
    assert {status for status, _ in answers[0]} == {401}
    page = await guarded.page(known, token)
    assert page.json()["entries"] == [entry(1)]


async def strangers(api: Api, method: str, path: str, body: dict[str, object]) -> tuple[int, bytes]:
    """How somebody without the token is answered."""
    data = orjson.dumps(body) if body else b""
    answer = await api.ask(method, path, data, {"content_type": "application/json"}, source="127.0.0.57")
    return answer.status, answer.body
