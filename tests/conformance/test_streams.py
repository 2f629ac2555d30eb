"""Case 40: the live streams of teams, rooms and agents."""

import json
import time

import anyio
import pytest

from tests.api import Api, agent_key, entry, fresh, numbered, team_stream, together
from tests.http.stream_reader import Event, StreamReader
from tests.served import TOKEN

LIVE_WITHIN_S = 1.0


def member(team: str, agent: str = "a1", room: str | None = None) -> str:
    """The session of a teammate in General or in a room."""
    return f"agent:{agent}:team:{team}" + ("" if room is None else f":room:{room}")


def agent_stream(key: str) -> str:
    """Where the stream of a 1:1 session's agent is."""
    return f"/api/agents/{key.split(':')[1]}/chat/stream"


async def frame(reader: StreamReader) -> Event:
    """The next event that has a name; rows before it are an error."""
    event = await reader.next()
    assert event is not None
    assert (event.id, event.comment) == (None, None)
    return event


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/api/teams/%00/chat/stream", "team id must not contain U+0000"),
        ("/api/teams/t/chat/stream?roomId=%00", "roomId must not contain U+0000"),
        (f"/api/agents/{'x' * 1025}/chat/stream", "agent id must be at most 1024 bytes"),
    ],
)
async def test_40_a_name_that_no_session_can_have_is_refused_before_the_stream_begins(
    api: Api, path: str, text: str
) -> None:
    answer = await api.ask("GET", path)
    assert (answer.status, answer.error()) == (400, text)


async def test_40_stored_rows_equal_the_page_and_their_ids_rise(api: Api) -> None:
    team = fresh("t")
    await api.save(member(team), *numbered(range(5)))
    await api.save(member(team, "a2"), *(entry(number, key=member(team, "a2")) for number in range(5, 8)))
    await api.save(member(team), entry(8))
    async with api.stream(team_stream(team)) as reader:
        assert reader.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert reader.headers["cache-control"] == "no-cache, no-transform"
        assert reader.headers["x-accel-buffering"] == "no"
        rows = await reader.rows(9)
    assert [row.data["entryId"] for row in rows] == [f"e{number}" for number in range(9)]
    assert [row.data for row in rows[:5]] + [rows[8].data] == await api.entries(member(team))
    assert {row.name for row in rows} == {None}
    ids = [row.id or 0 for row in rows]
    assert ids == sorted(set(ids))
    assert ids[0] > 0


@pytest.mark.parametrize(
    ("since", "last", "first"),
    [
        (None, None, 0), ("{2}", None, 3), (None, "{2}", 3), ("{0}", "{3}", 4), ("{4}", "abc", 0), ("-1", None, 0),
        ("abc", None, 0), ("", None, 0), ("0", None, 0), (None, "-7", 0), ("{1}", "", 2), ("1e3", None, 0),
        (None, "9" * 30, 6), (None, "9" * 400, 0), ("9007199254740991", None, 6),
    ],
)  # fmt: skip
async def test_40_a_stream_resumes_after_its_cursor(api: Api, since: str | None, last: str | None, first: int) -> None:
    team = fresh("t")
    await api.save(member(team), *numbered(range(6)))
    async with api.stream(team_stream(team)) as reader:
        ids = [row.id for row in await reader.rows(6)]
    query = {} if since is None else {"since": since.format(*ids)}
    headers = {} if last is None else {"last_event_id": last.format(*ids)}
    async with api.stream(team_stream(team, **query), **headers) as reader:
        if first == 6:
            # A cursor beyond every row shows none of them, now or later: only frames come.
            await api.post(f"/api/teams/{team}/chat/status", {"busy": True})
            assert (await frame(reader)).name == "status"
        else:
            assert [row.id for row in await reader.rows(6 - first)] == ids[first:]


async def test_40_a_post_arrives_while_the_stream_is_open(api: Api) -> None:
    team = fresh("t")
    async with api.stream(team_stream(team)) as reader:
        for number in range(5):
            begun = time.monotonic()
            await api.save(member(team, f"a{number}"), entry(number))
            (row,) = await reader.rows(1)
            assert time.monotonic() - begun < LIVE_WITHIN_S * 3
            assert row.data == entry(number)


async def test_40_other_teams_rooms_and_1_to_1_rows_never_appear(api: Api) -> None:
    team, agent = fresh("t"), fresh("a")
    outside = [
        member(f"{team}x", agent), member(team.upper(), agent), member(team, agent, "r"), f"agent:{agent}:native",
        f"team:{team}", member(team, agent) + ":room:", f"agent:{agent}:team:{team}:team:other",
    ]  # fmt: skip
    async with api.stream(team_stream(team)) as live:
        for key in outside:
            await api.save(key, entry("outside", key=key))
        await api.save(member(team, agent), entry("inside"))
        assert [row.data["entryId"] for row in await live.rows(1)] == ["einside"]
    async with api.stream(team_stream(team)) as replay:
        assert [row.data["entryId"] for row in await replay.rows(1)] == ["einside"]


async def test_40_a_room_and_an_agent_have_streams_of_their_own(api: Api) -> None:
    team, agent = fresh("t"), fresh("a")
    places = {
        team_stream(team, roomId="r 1"): member(team, agent, "r 1"),
        team_stream(team, roomId="r2"): member(team, agent, "r2"),
        f"/api/agents/{agent}/chat/stream": f"agent:{agent}:native",
        team_stream(team): member(team, agent),
    }
    for number, key in enumerate(places.values()):
        await api.save(key, entry(number))
    for number, path in enumerate(places):
        async with api.stream(path) as reader:
            await api.save(places[path], entry(f"{number}-live"))
            found = [row.data["entryId"] for row in await reader.rows(2)]
        assert found == [f"e{number}", f"e{number}-live"]


async def test_40_an_id_in_the_path_may_hold_anything(api: Api) -> None:
    team = f"{fresh('t')} é/%2F?#;+"
    await api.save(member(team), entry(1))
    async with api.stream(team_stream(team)) as reader:
        assert (await reader.rows(1))[0].data == entry(1)


async def test_40_named_frames_carry_no_id_and_are_never_stored(api: Api) -> None:
    team = fresh("t")
    await api.save(member(team), entry(1))
    sent = {"delta": b'{"runId":"r",\r\n "text":"a\xe2\x80\xa8b"}', "status": b'{"state":"thinking"}'}
    async with api.stream(team_stream(team)) as reader:
        await reader.rows(1)
        for name, body in sent.items():
            answer = await api.post(f"/api/teams/{team}/chat/{name}", body)
            assert (answer.status, answer.body) == (200, b'{"ok":true}')
            event = await frame(reader)
            assert event.name == name
            assert event.text is not None and len(event.text.splitlines()) == 1
            assert event.data == json.loads(body)
        await api.save(member(team), entry(2))
        assert (await reader.rows(1))[0].data == entry(2)
    async with api.stream(team_stream(team)) as replay:
        assert [await replay.next() for _ in range(2)] == [
            Event(row.id, None, row.text, None) for row in await _replayed(api, team, 2)
        ]


async def _replayed(api: Api, team: str, count: int) -> list[Event]:
    async with api.stream(team_stream(team)) as reader:
        return await reader.rows(count)


@pytest.mark.parametrize("body", [b"[1]", b"", b"{bad", b'"x"'])
async def test_40_a_frame_that_is_no_json_object_is_refused(api: Api, body: bytes) -> None:
    for name in ("delta", "status"):
        answer = await api.post(f"/api/teams/{fresh('t')}/chat/{name}", body)
        assert (answer.status, answer.error()) == (400, "invalid JSON")


async def test_40_other_tabs_hear_of_reset_clear_and_delete(api: Api) -> None:
    team = fresh("t")
    key, other = member(team), member(team, "a2")
    for name in (key, other):
        await api.save(name, entry(1))
    async with api.stream(team_stream(team)) as reader:
        await reader.rows(2)
        answers = [await api.reset(key), await api.clear(team), await api.delete(other)]
        seen: dict[str, Event] = {}
        while len(seen) < 3:
            event = await reader.next()
            assert event is not None
            if event.name is not None:
                seen[event.name] = event
    assert {name: sorted(event.data["sessionKeys"]) for name, event in seen.items()} == {
        "reset": [key], "clear": sorted([key, other]), "delete": [other],
    }  # fmt: skip
    assert [event.id for event in seen.values()] == [None] * 3
    positions = [seen[name].data["position"] for name in ("reset", "clear", "delete")]
    assert positions == [answer.headers["turnlog-position"] for answer in answers]


async def test_40_an_open_stream_replays_nothing_that_was_ended(api: Api) -> None:
    team = fresh("t")
    cleared, deleted, kept = member(team, "a1"), member(team, "a2"), member(team, "a3")
    await api.save(cleared, *numbered(range(3)))
    await api.clear(team)
    await api.save(deleted, *numbered(range(3)))
    await api.delete(deleted)
    await api.save(kept, entry("kept"))
    async with api.stream(team_stream(team)) as reader:
        assert [row.data["entryId"] for row in await reader.rows(1)] == ["ekept"]


async def test_40_many_readers_and_writers_lose_and_repeat_nothing(api: Api) -> None:
    team = fresh("t")
    agents, turns = 4, 15

    async def write(agent: int) -> None:
        for turn in range(turns):
            assert (await api.save(member(team, f"a{agent}"), entry(f"{agent}-{turn}"))).status == 200

    async def read() -> list[Event]:
        found: list[Event] = []
        while len(found) < agents * turns:
            cursor = str(found[-1].id) if found else "0"
            async with api.stream(team_stream(team), last_event_id=cursor) as reader:
                found += await reader.rows(min(17, agents * turns - len(found)))
        return found

    *_, first, second = await together(*(write(agent) for agent in range(agents)), read(), read())
    assert first == second
    ids = [row.id or 0 for row in first]
    assert ids == sorted(set(ids))
    for agent in range(agents):
        own = [row.data["entryId"] for row in first if row.data["entryId"].startswith(f"e{agent}-")]
        assert own == [f"e{agent}-{turn}" for turn in range(turns)]


async def test_40_an_idle_stream_is_kept_alive(guarded: Api) -> None:
    # This server's keepalive is 1 s; the default of 20 s is one of `docs/settings.md`.
    begun = time.monotonic()
    async with guarded.stream(agent_stream(agent_key()), authorization=f"Bearer {TOKEN}") as reader:
        for _ in range(2):
            event = await reader.next(within_s=5)
            assert event is not None
            assert event.comment == "keepalive"
    assert time.monotonic() - begun > 1


async def test_40_a_stream_is_guarded_like_every_route(guarded: Api) -> None:
    for path in (team_stream("t"), "/api/agents/a/chat/stream"):
        assert (await guarded.ask("GET", path)).status == 401
        assert (await guarded.ask("GET", path, origin="http://evil", cookie=f"clawboo_access={TOKEN}")).status == 403


async def test_40_head_tells_the_type_and_ends(api: Api) -> None:
    answer = await api.ask("HEAD", team_stream("t"))
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


async def test_40_a_bad_position_is_refused_before_the_stream_begins(api: Api) -> None:
    answer = await api.ask("GET", team_stream("t"), turnlog_after="nonsense")
    assert answer.status == 400
    assert answer.error().startswith("Turnlog-After: ")


async def test_40_a_server_killed_after_a_commit_loses_and_repeats_nothing(disturbed: Api) -> None:
    team = fresh("t")
    key = member(team)
    async with disturbed.stream(team_stream(team)) as reader:
        await disturbed.save(key, *numbered(range(3)))
        seen = await reader.rows(2)
        await disturbed.save(key, *numbered(range(3, 6)))
        await disturbed.process.kill()
    await disturbed.process.start()
    async with disturbed.stream(team_stream(team), last_event_id=str(seen[-1].id)) as reader:
        seen += await reader.rows(4)
        await disturbed.save(key, entry("end"))
        assert (await reader.rows(1))[0].data["entryId"] == "eend"
    assert [row.data["entryId"] for row in seen] == [f"e{number}" for number in range(6)]
    ids = [row.id or 0 for row in seen]
    assert ids == sorted(set(ids))


async def test_40_a_client_that_does_not_read_holds_nobody_up(api: Api) -> None:
    team = fresh("t")
    async with api.stream(team_stream(team)) as idle, api.stream(team_stream(team)) as reader:
        with anyio.fail_after(20):
            for number in range(12):
                await api.save(member(team), entry(number, text="x" * 400_000))
                assert (await reader.rows(1))[0].data["entryId"] == f"e{number}"
        idle.vanish()
