"""What the grammar of session keys decides: which stream shows a session, and which clear ends it."""

import pytest

from tests.api import Api, entry, fresh, team_stream


@pytest.mark.parametrize(
    ("form", "team"),
    [
        ("agent:a1:team:{}", "{}"),
        ("agent:a:team:b:team:{}", "{}"),
        ("agent:a:team:{}:team:", "{}:team:"),
        ("agent:a:b:c:team:{}", "{}"),
        ("agent:é:team:{}-é", "{}-é"),
        ("agent:a:team:{} with spaces", "{} with spaces"),
        ("agent:a:team:{}:room:", "{}:room:"),
    ],
)
async def test_a_team_key_is_in_its_team(api: Api, form: str, team: str) -> None:
    name = fresh("t")
    key, team = form.format(name), team.format(name)
    await api.save(key, entry(1))
    async with api.stream(team_stream(team)) as reader:
        assert (await reader.rows(1))[0].data == entry(1)
    assert (await api.clear(team)).json()["sessionKeys"] == [key]
    assert await api.entries(key) == []


@pytest.mark.parametrize(
    "form",
    [
        "agent::team:{}", "agent:{}:native", "team:{}", "Agent:a:team:{}", "agent:a:team:{}\n", "agent:a\r:team:{}",
        "agent:a\u2028:team:{}", "agent:a:team:{}\u2029", " agent:a:team:{}", "agent:a:Team:{}", "agent:a:team{}",
        "agent:team:{}", "{}",
    ],
)  # fmt: skip
async def test_any_other_key_is_legal_and_in_no_team(api: Api, form: str) -> None:
    name = fresh("t")
    key = form.format(name)
    await api.save(key, entry(1))
    assert (await api.clear(name, "*")).json()["sessionKeys"] == []
    assert (await api.clear(f"{name}\n", "*")).json()["sessionKeys"] == []
    assert await api.entries(key) == [entry(1)]
    divider = (await api.reset(key)).json()["entry"]
    assert await api.entries(key) == [entry(1), divider]
    await api.delete(key)
    assert await api.entries(key) == []


async def test_a_room_is_apart_from_general(api: Api) -> None:
    team = fresh("t")
    general, room = f"agent:a:team:{team}", f"agent:a:team:{team}:room:r:1"
    await api.save(general, entry("general"))
    await api.save(room, entry("room"))
    async with api.stream(team_stream(team)) as reader, api.stream(team_stream(team, roomId="r:1")) as inside:
        assert (await reader.rows(1))[0].data == entry("general")
        assert (await inside.rows(1))[0].data == entry("room")
    assert (await api.clear(team, "r:1")).json()["sessionKeys"] == [room]
    assert await api.entries(general) == [entry("general")]


async def test_hostile_keys_are_parsed_in_linear_time(api: Api) -> None:
    keys = ["agent:" + ":team:" * 169, "agent:a" + ":team:x" * 145, "agent:a:team:t" + ":room:" * 160, ":" * 1024]
    for key in keys:
        assert (await api.save(key, entry(fresh()))).status == 200
        assert len(await api.entries(key)) == 1


async def test_keys_are_compared_byte_for_byte(api: Api) -> None:
    name = fresh()
    keys = [name + end for end in ("\u00e9", "e\u0301", "\u00c9", " ", "", "\u200b", "K", "k", "\u212a")]
    for number, key in enumerate(keys):
        await api.save(key, entry(number))
    assert [await api.ids(key) for key in keys] == [[f"e{number}"] for number in range(len(keys))]
