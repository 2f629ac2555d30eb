"""Cases 34 and 35: what reset and delete do to resume points, messages and other sessions."""

import pytest

from tests.api import PATH, Api, agent_key, entry, fresh, target, together


async def test_34_an_ending_clears_the_resume_points_of_its_own_sessions_alone(api: Api) -> None:
    agent, team = fresh("a"), fresh("t")
    native, general, room = (f"agent:{agent}:{rest}" for rest in ("native", f"team:{team}", f"team:{team}:room:r"))
    mate = f"agent:mate:team:{team}"
    for key in (native, general, mate, room):
        await api.save_resume(key, f"of {key}")
    await api.reset(general, mate)
    assert [await api.resume_id(key) for key in (general, mate)] == [None, None]
    assert await api.resume_id(native) == f"of {native}"
    assert await api.resume_id(room) == f"of {room}"
    await api.delete(f"agent:{agent}:main")
    assert await api.resume_id(native) == f"of {native}"
    await api.delete(native)
    assert await api.resume_id(native) is None
    assert await api.resume_id(room) == f"of {room}"


async def test_35_a_delete_takes_every_message_of_one_key(api: Api) -> None:
    key, other = agent_key(), agent_key()
    await api.save(key, entry(1), entry(2))
    await api.save(other, entry(1))
    answer = await api.delete(key)
    assert (answer.status, answer.body) == (200, b'{"ok":true}')
    assert await api.entries(key) == []
    assert await api.entries(other) == [entry(1)]
    assert (await api.delete(key)).body == b'{"ok":true}'
    assert (await api.delete(agent_key())).body == b'{"ok":true}'
    await api.save(key, entry(1))
    assert await api.entries(key) == [entry(1)]


async def test_35_a_delete_needs_no_body_and_ignores_one(api: Api) -> None:
    key = agent_key()
    await api.save(key, entry(1))
    answer = await api.ask("DELETE", target(PATH, sessionKey=key), b"anything {")
    assert answer.status == 200
    assert await api.entries(key) == []


async def test_35_a_delete_leaves_rooms_and_every_other_key(api: Api) -> None:
    team = fresh("t")
    general = f"agent:a:team:{team}"
    others = [f"{general}:room:r", f"agent:b:team:{team}", "agent:a:native" + team, general + "x", general[:-1]]
    for key in (general, *others):
        await api.save(key, entry(1))
    await api.delete(general)
    assert await api.entries(general) == []
    for key in others:
        assert await api.entries(key) == [entry(1)]


async def test_35_keys_are_no_patterns(api: Api) -> None:
    name = fresh("a")
    keys = [f"agent:{name}:{rest}" for rest in ("a_b", "axb", "a%b", "a%25b", "A_B", "a_b ")]
    for key in keys:
        await api.save(key, entry(1))
    await api.delete(keys[0])
    await api.delete(keys[2])
    assert [len(await api.entries(key)) for key in keys] == [0, 1, 0, 1, 1, 1]


async def test_35_a_delete_raises_the_epoch(api: Api) -> None:
    key = agent_key()
    assert await api.epoch(key) == 0
    seen = [0]
    for _ in range(3):
        await api.save(key, entry(1))
        await api.delete(key)
        seen.append(await api.epoch(key))
        await api.reset(key)
        seen.append(await api.epoch(key))
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("key", ["agent:a#cleared:1", "#cleared:"])
async def test_a_reserved_key_is_not_deleted(api: Api, key: str) -> None:
    answer = await api.delete(key)
    assert (answer.status, answer.error()) == (400, "sessionKey is reserved")


async def test_what_clear_set_aside_goes_with_its_session_and_not_with_others(api: Api) -> None:
    team = fresh("t")
    first, second = (f"agent:{name}:team:{team}" for name in ("a", "b"))
    for key in (first, second):
        await api.save(key, entry(1))
    await api.clear(team)
    await api.delete(first)
    await api.save(first, entry(1))
    await api.save(second, entry(1))
    # An id that is only set aside is still known; one that was deleted is not.
    assert await api.ids(first) == ["e1"]
    assert await api.ids(second) == []


async def test_saves_racing_a_delete_are_wholly_before_or_after_it(api: Api) -> None:
    key = agent_key()
    for turn in range(10):
        saves = [api.save(key, entry(f"{turn}-{n}-a"), entry(f"{turn}-{n}-b")) for n in range(4)]
        *saved, deleted = await together(*saves[:2], *saves[2:], api.delete(key))
        end = offset(deleted.headers["turnlog-position"])
        kept = [offset(answer.headers["turnlog-position"]) > end for answer in saved]
        expected = {f"e{turn}-{n}-{half}" for n in range(4) if kept[n] for half in "ab"}
        assert set(await api.ids(key)) == expected
        await api.delete(key)


def offset(position: str) -> int:
    return int(position.partition("-")[2])
