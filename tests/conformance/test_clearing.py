"""POST /api/teams/:id/chat/clear."""

import time

import pytest

from tests.api import Api, entry, fresh, numbered, team_stream, together


async def team_with_rooms(api: Api) -> tuple[str, dict[str, list[str]]]:
    """A team with two members in General and in two rooms; one message and one resume point in each session."""
    team = fresh("t")
    places = {"general": "", "r1": ":room:r1", "r2": ":room:r2"}
    keys = {name: [f"agent:{agent}:team:{team}{rest}" for agent in "ab"] for name, rest in places.items()}
    for key in (key for members in keys.values() for key in members):
        await api.save(key, entry(1))
        await api.save_resume(key, "resume")
    return team, keys


@pytest.mark.parametrize(
    ("room", "cleared"), [(None, ["general"]), ("r1", ["r1"]), ("*", ["general", "r1", "r2"]), ("nowhere", [])]
)
async def test_a_clear_takes_its_scope_and_nothing_else(api: Api, room: str | None, cleared: list[str]) -> None:
    team, keys = await team_with_rooms(api)
    before = time.time() * 1000
    answer = await api.clear(team, room)
    assert answer.status == 200
    done = answer.json()
    assert list(done) == ["ok", "clearedAt", "sessionKeys"]
    assert before - 5_000 < done["clearedAt"] < time.time() * 1000 + 5_000
    assert sorted(done["sessionKeys"]) == sorted(key for name in cleared for key in keys[name])
    for name, members in keys.items():
        for key in members:
            gone = name in cleared
            assert await api.entries(key) == ([] if gone else [entry(1)])
            assert await api.resume_id(key) == (None if gone else "resume")
            assert (await api.epoch(key) > 0) == gone


@pytest.mark.parametrize("body", [b"{}", b'{"roomId":null}', b'{"other":1}', b' { "roomId" : null } '])
async def test_a_body_without_a_room_means_general(api: Api, body: bytes) -> None:
    team, keys = await team_with_rooms(api)
    answer = await api.post(f"/api/teams/{team}/chat/clear", body)
    assert sorted(answer.json()["sessionKeys"]) == keys["general"]


@pytest.mark.parametrize("body", [b'{"roomId":""}', b'{"roomId":5}', b'{"roomId":["r1"]}', b'{"roomId":"r\\u0000"}'])
async def test_a_room_that_is_none_clears_nothing(api: Api, body: bytes) -> None:
    team, keys = await team_with_rooms(api)
    answer = await api.post(f"/api/teams/{team}/chat/clear", body)
    assert answer.status == 400
    assert answer.error().startswith("roomId must")
    for key in (key for members in keys.values() for key in members):
        assert await api.entries(key) == [entry(1)]


async def test_a_body_that_is_no_object_clears_nothing(api: Api) -> None:
    team, keys = await team_with_rooms(api)
    for body in (b"[]", b"{", b'"*"'):
        answer = await api.post(f"/api/teams/{team}/chat/clear", body)
        assert (answer.status, answer.error()) == (400, "invalid JSON")
    assert await api.entries(keys["general"][0]) == [entry(1)]


async def test_nothing_to_clear_is_fine(api: Api) -> None:
    team = fresh("t")
    for _ in range(2):
        answer = await api.clear(team)
        assert (answer.status, answer.json()["sessionKeys"]) == (200, [])


async def test_no_read_returns_a_cleared_row(api: Api) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    await api.save(key, *numbered(range(10)))
    oldest = (await api.page(key, limit=5)).json()["nextBefore"]
    cleared_at = (await api.clear(team)).json()["clearedAt"]
    assert await api.entries(key) == []
    assert await api.entries(key, before=oldest) == []
    assert (await api.page(f"{key}#cleared:{cleared_at}")).json()["entries"] == []
    await api.save(key, entry("new"))
    page = (await api.page(key, limit=1)).json()
    assert ([item["entryId"] for item in page["entries"]], page["hasMore"]) == (["enew"], False)
    async with api.stream(team_stream(team)) as reader:
        assert [row.data["entryId"] for row in await reader.rows(1)] == ["enew"]


async def test_a_cleared_message_never_comes_back_by_a_re_save(api: Api) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    await api.save(key, entry(1))
    await api.clear(team)
    again = await api.save(key, entry(1), entry(2))
    assert again.json()["saved"] == 2
    assert await api.ids(key) == ["e2"]
    await api.clear(team)
    await api.save(key, entry(1), entry(2))
    assert await api.ids(key) == []


async def test_a_session_first_seen_after_a_clear_has_its_epoch(api: Api) -> None:
    team = fresh("t")
    await api.clear(team)
    key = f"agent:late:team:{team}"
    epoch = await api.epoch(key)
    assert epoch > 0
    await api.save(key, entry(1))
    assert await api.epoch(key) == epoch
    assert (await api.save_resume(key, "stale", epoch=0)).status == 409
    assert (await api.save_resume(key, "current", epoch=epoch)).status == 200
    assert await api.ids(key) == ["e1"]


async def test_a_clear_racing_first_messages_sets_aside_what_lies_before_it(api: Api) -> None:
    for turn in range(10):
        team = fresh("t")
        keys = [f"agent:a{number}:team:{team}" for number in range(4)]
        saves = [api.save(key, entry(turn)) for key in keys]
        *saved, cleared = await together(*saves, api.clear(team))
        end = offset(cleared.headers["turnlog-position"])
        early = [key for key, answer in zip(keys, saved, strict=True) if position_of(answer) < end]
        assert sorted(cleared.json()["sessionKeys"]) == sorted(early)
        for key in keys:
            assert len(await api.entries(key)) == (0 if key in early else 1)


async def test_a_team_of_another_name_is_not_touched(api: Api) -> None:
    team = fresh("t")
    others = [f"agent:a:team:{name}" for name in (team + "x", team.upper(), team[:-1], "x:" + team)]
    keys = [*others, f"agent:{team}:native", f"agent:a:team:{team}:"]
    for key in keys:
        await api.save(key, entry(1))
    await api.clear(team, "*")
    for key in keys:
        assert await api.ids(key) == ["e1"], key


def position_of(answer: object) -> int:
    return offset(answer.headers["turnlog-position"])  # type: ignore[attr-defined]  # an Answer, from `together`


def offset(position: str) -> int:
    return int(position.partition("-")[2])
