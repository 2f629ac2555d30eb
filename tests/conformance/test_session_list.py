"""GET /v1/sessions?prefix=&limit=&cursor=."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.api import Api, entry, fresh, numbered, target

PATH = "/v1/sessions"


async def listed(api: Api, prefix: str, **query: str | int) -> list[dict[str, object]]:
    answer = await api.ask("GET", target(PATH, prefix=prefix, **query))
    assert answer.status == 200
    found: list[dict[str, object]] = answer.json()["sessions"]
    return found


async def test_sessions_are_listed_with_their_figures(api: Api) -> None:
    prefix = fresh("s")
    await api.save(f"{prefix}b", *numbered(range(3)))
    await api.save(f"{prefix}a", entry(1), entry(1))
    divider = await api.reset(f"{prefix}a")
    first, second = await listed(api, prefix)
    for item in (first, second):
        at = datetime.fromisoformat(str(item.pop("lastActivity")))
        assert at.utcoffset() == timedelta(0)
        assert abs(at - datetime.now(UTC)) < timedelta(seconds=60)
    epoch = int(divider.headers["turnlog-position"].partition("-")[2])
    assert first == {"sessionKey": f"{prefix}a", "entries": 2, "epoch": epoch}
    assert second == {"sessionKey": f"{prefix}b", "entries": 3, "epoch": 0}


async def test_a_walk_by_cursor_sees_every_session_once_in_order(api: Api) -> None:
    prefix = fresh("s")
    keys = sorted(f"{prefix}{end}" for end in ("é", "a", "B", "a:b", "a b", "%", "_", "\U0001f9e6", "日", "", "~"))
    for key in keys:
        await api.save(key, entry(1))
    found: list[object] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await api.ask("GET", target(PATH, prefix=prefix, limit=3, **cursor))).json()
        assert len(page["sessions"]) <= 3
        found += [item["sessionKey"] for item in page["sessions"]]
        if page["nextCursor"] is None:
            break
        cursor = {"cursor": page["nextCursor"]}
        await api.save(f"{prefix} late{len(found)}", entry(1))
    assert [key for key in found if " late" not in str(key)] == sorted(keys, key=str.encode)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("special", ["%", "_", "\\", "*"])
async def test_a_prefix_is_no_pattern(api: Api, special: str) -> None:
    prefix = fresh("s")
    await api.save(f"{prefix}axb", entry(1))
    await api.save(f"{prefix}a{special}b", entry(1))
    assert [item["sessionKey"] for item in await listed(api, f"{prefix}a{special}")] == [f"{prefix}a{special}b"]


@pytest.mark.parametrize(("limit", "count"), [("2", 2), ("0", 3), ("-1", 3), ("abc", 3), ("5000", 3), ("1x", 1)])
async def test_limit_is_read_as_everywhere(api: Api, limit: str, count: int) -> None:
    prefix = fresh("s")
    for number in range(3):
        await api.save(f"{prefix}{number}", entry(1))
    answer = (await api.ask("GET", target(PATH, prefix=prefix, limit=limit))).json()
    assert len(answer["sessions"]) == count
    assert (answer["nextCursor"] is None) == (count == 3)


async def test_only_what_exists_is_listed(api: Api) -> None:
    prefix = fresh("s")
    await api.save_resume(f"{prefix}resumed", "r")
    await api.save(f"{prefix}deleted", entry(1))
    await api.delete(f"{prefix}deleted")
    await api.delete(f"{prefix}never")
    await api.save(f"{prefix}nothing", None)
    await api.resume(f"{prefix}asked")
    assert [(item["sessionKey"], item["entries"]) for item in await listed(api, prefix)] == [(f"{prefix}resumed", 0)]


async def test_cleared_entries_are_not_counted(api: Api) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    await api.save(key, *numbered(range(5)))
    await api.clear(team)
    await api.save(key, entry("new"))
    (item,) = await listed(api, key)
    assert item["entries"] == len(await api.entries(key)) == 1


@pytest.mark.parametrize("query", ["prefix=a%00", "cursor=%00", "prefix=%00&cursor=x"])
async def test_what_no_key_can_hold_is_refused(api: Api, query: str) -> None:
    answer = await api.ask("GET", f"{PATH}?{query}")
    assert answer.status == 400
    assert answer.error().startswith("prefix and cursor")


async def test_without_a_prefix_everything_is_listed(api: Api) -> None:
    # Other tests' sessions may sort before this one: begin just below it.
    key = "!" + fresh()
    await api.save(key, entry(1))
    answer = (await api.ask("GET", target(PATH, cursor=key[:-1]))).json()
    assert answer["sessions"][0]["sessionKey"] == key
    listed_keys = [item["sessionKey"].encode() for item in (await api.ask("GET", PATH)).json()["sessions"]]
    assert listed_keys == sorted(listed_keys) != []
    assert len(answer["sessions"]) <= 100
