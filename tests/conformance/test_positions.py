"""Turnlog-Position on every write, Turnlog-After on every read."""

import re
from collections.abc import Awaitable, Callable

import pytest

from tests.api import PATH, RESUME, Api, agent_key, entry, fresh, target
from tests.plain_client import Answer

POSITION = re.compile(r"\d+-\d+(,\d+-\d+)*")
Write = Callable[[Api, str, str], Awaitable[Answer]]

WRITES: dict[str, Write] = {
    "save": lambda api, key, team: api.save(key, entry(1)),
    "reset": lambda api, key, team: api.reset(key),
    "clear": lambda api, key, team: api.clear(team),
    "delete": lambda api, key, team: api.delete(key),
    "resume": lambda api, key, team: api.save_resume(key, "r"),
    "unresume": lambda api, key, team: api.clear_resume(key),
}


@pytest.mark.parametrize("name", WRITES)
async def test_every_write_says_where_it_stands(api: Api, name: str) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    positions = []
    for _ in range(3):
        answer = await WRITES[name](api, key, team)
        assert POSITION.fullmatch(answer.headers["turnlog-position"])
        positions.append(tuple(map(int, answer.headers["turnlog-position"].split("-"))))
    assert len({partition for partition, _ in positions}) == 1
    assert positions == sorted(set(positions))


def reads(key: str) -> list[str]:
    agent = key.split(":")[1]
    return [
        target(PATH, sessionKey=key), target(RESUME, sessionKey=key), "/v1/sessions",
        "/api/teams/t/chat/stream", f"/api/agents/{agent}/chat/stream",
    ]  # fmt: skip


async def test_every_read_takes_a_position(api: Api) -> None:
    key = agent_key()
    position = (await api.save(key, entry(1))).headers["turnlog-position"]
    for path in reads(key):
        assert (await api.ask("HEAD" if "stream" in path else "GET", path, turnlog_after=position)).status == 200
    assert (await api.page(key, {"turnlog-after": f"{position}, {position}"})).json()["entries"] == [entry(1)]


@pytest.mark.parametrize("position", ["x", "0:1", "1", "-1-2", "0-1,", "0-1;0-2", "0-" + "9" * 30, "0-1 0-2"])
async def test_a_bad_position_is_refused_by_every_read(api: Api, position: str) -> None:
    for path in reads(agent_key()):
        answer = await api.ask("GET", path, turnlog_after=position)
        assert answer.status == 400
        assert answer.error().startswith("Turnlog-After")


async def test_a_position_of_a_partition_that_is_not_there_is_refused(api: Api) -> None:
    answer = await api.page(agent_key(), {"turnlog-after": "777-1"})
    assert (answer.status, answer.error()) == (400, "Turnlog-After names partition 777, which this log hasn't")


async def test_what_is_not_applied_in_time_is_503_with_retry_after(guarded: Api) -> None:
    headers = {"turnlog-after": "0-999999999", "cookie": "clawboo_access=tok-en_1.~"}
    answer = await guarded.page(agent_key(), headers)
    assert answer.status == 503
    assert answer.error()
    assert int(answer.headers["retry-after"]) >= 1
