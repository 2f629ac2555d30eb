"""Idempotency-Key on every write: a retry answers as the first did; another body 422; after a delete 410."""

import json
from collections.abc import Awaitable, Callable

import pytest

from tests.api import PATH, Api, agent_key, entry, fresh, target, together
from tests.plain_client import Answer

Write = Callable[[Api, str, str, str], Awaitable[Answer]]

WRITES: dict[str, Write] = {
    "save": lambda api, key, team, again: api.save(key, entry(1), idempotency_key=again),
    "reset": lambda api, key, team, again: api.reset(key, idempotency_key=again),
    "clear": lambda api, key, team, again: api.clear(team, idempotency_key=again),
    "delete": lambda api, key, team, again: api.delete(key, idempotency_key=again),
    "resume": lambda api, key, team, again: api.save_resume(key, "r", idempotency_key=again),
    "unresume": lambda api, key, team, again: api.clear_resume(key, idempotency_key=again),
}
OTHERS: dict[str, Write] = {
    "save": lambda api, key, team, again: api.save(key, entry(2), idempotency_key=again),
    "reset": lambda api, key, team, again: api.reset(key, f"{key}x", idempotency_key=again),
    "clear": lambda api, key, team, again: api.post(f"/api/teams/{team}/chat/clear", b"{}", idempotency_key=again),
    "delete": lambda api, key, team, again: api.ask(
        "DELETE", target(PATH, sessionKey=key), b"{}", idempotency_key=again
    ),
    "resume": lambda api, key, team, again: api.save_resume(key, "other", idempotency_key=again),
    "unresume": lambda api, key, team, again: api.ask(
        "DELETE", target("/v1/resume-point", sessionKey=key), b"{}", idempotency_key=again
    ),
}


def names() -> tuple[str, str, str]:
    """A team session, its team, and an idempotency key."""
    team = fresh("t")
    return f"agent:a:team:{team}", team, fresh("again-")


@pytest.mark.parametrize("name", WRITES)
async def test_a_retry_answers_as_the_first_did(api: Api, name: str) -> None:
    key, team, again = names()
    await api.save(key, entry("before"))
    first = await WRITES[name](api, key, team, again)
    assert first.status == 200
    await api.save(key, entry("between"))
    await api.reset(key)
    for _ in range(2):
        retry = await WRITES[name](api, key, team, again)
        assert (retry.status, retry.body) == (200, first.body)
        assert retry.headers["turnlog-position"] == first.headers["turnlog-position"]


@pytest.mark.parametrize("name", WRITES)
async def test_a_retry_does_nothing_again(api: Api, name: str) -> None:
    key, team, again = names()
    await api.save(key, entry("before"))
    await WRITES[name](api, key, team, again)
    await api.save(key, entry("between"))
    await api.save_resume(key, "between")
    seen = (await api.page(key)).body, (await api.resume(key)).body
    await WRITES[name](api, key, team, again)
    assert ((await api.page(key)).body, (await api.resume(key)).body) == seen


@pytest.mark.parametrize("name", WRITES)
async def test_the_same_key_with_another_body_is_422(api: Api, name: str) -> None:
    key, team, again = names()
    await WRITES[name](api, key, team, again)
    seen = (await api.page(key)).body, (await api.resume(key)).body
    other = await OTHERS[name](api, key, team, again)
    assert (other.status, other.error()) == (422, "Idempotency-Key was used before with another request")
    assert ((await api.page(key)).body, (await api.resume(key)).body) == seen


@pytest.mark.parametrize("name", ["save", "reset", "resume", "unresume"])
async def test_after_a_delete_of_the_session_a_retry_is_410(api: Api, name: str) -> None:
    key, team, again = names()
    await WRITES[name](api, key, team, again)
    await api.delete(key)
    for _ in range(2):
        retry = await WRITES[name](api, key, team, again)
        assert retry.status == 410
        assert "deleted" in retry.error()
    assert await api.entries(key) == []
    assert await api.resume_id(key) is None


@pytest.mark.parametrize("name", ["clear", "delete"])
async def test_a_retried_ending_answers_the_same_after_another_delete(api: Api, name: str) -> None:
    key, team, again = names()
    await api.save(key, entry(1))
    first = await WRITES[name](api, key, team, again)
    await api.delete(key)
    await api.save(key, entry(2))
    retry = await WRITES[name](api, key, team, again)
    assert (retry.status, retry.body) == (200, first.body)
    assert await api.entries(key) == [entry(2)]


@pytest.mark.parametrize("name", WRITES)
async def test_retries_at_the_same_time_have_one_effect(api: Api, name: str) -> None:
    key, team, again = names()
    await api.save(key, entry("before"))
    answers = await together(*(WRITES[name](api, key, team, again) for _ in range(6)))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert len({answer.headers["turnlog-position"] for answer in answers}) == 1
    expected = {"save": 2, "reset": 2, "clear": 0, "delete": 0, "resume": 1, "unresume": 1}
    assert len(await api.entries(key)) == expected[name]


async def test_a_key_counts_for_its_session_and_kind_of_write(api: Api) -> None:
    key, team, again = names()
    other = agent_key()
    assert (await api.save(key, entry(1), idempotency_key=again)).status == 200
    assert (await api.save(other, entry(2), idempotency_key=again)).status == 200
    for write in (api.reset(key, idempotency_key=again), api.save_resume(key, "r", idempotency_key=again)):
        assert (await write).status == 200
    assert (await api.clear(team, idempotency_key=again)).status == 200
    assert (await api.delete(other, idempotency_key=again)).status == 200
    assert await api.entries(other) == []


async def test_a_half_done_reset_of_several_streams_is_finished_by_its_retry(api: Api) -> None:
    keys, again = [agent_key() for _ in range(3)], fresh("again-")
    first = await api.reset(*keys, idempotency_key=again)
    epochs = [await api.epoch(key) for key in keys]
    retry = await api.reset(*keys, idempotency_key=again)
    assert (retry.status, retry.body) == (200, first.body)
    assert [await api.epoch(key) for key in keys] == epochs
    assert [len(await api.entries(key)) for key in keys] == [1, 0, 0]


@pytest.mark.parametrize("bad", ["", "a b", "x" * 256, "é"])
async def test_a_key_that_is_no_visible_ascii_is_refused(api: Api, bad: str) -> None:
    key, team, _ = names()
    for name, write in WRITES.items():
        answer = await write(api, key, team, bad)
        assert answer.status == 400, name
        assert answer.error().startswith("Idempotency-Key must be")
    assert await api.entries(key) == []
    assert await api.epoch(key) == 0


async def test_a_repeated_header_is_refused(api: Api) -> None:
    body = json.dumps({"sessionKey": agent_key(), "entries": [entry(1)]}).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {api.own}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    answer = await api.raw(head.encode() + body)
    assert answer.status == 400
    assert answer.error().startswith("Idempotency-Key must be one value")


async def test_the_longest_key_is_taken(api: Api) -> None:
    key, team, _ = names()
    for name, write in WRITES.items():
        assert (await write(api, key, team, "~" * 247 + fresh()[:8])).status == 200, name


async def test_a_save_of_nothing_usable_can_be_retried(api: Api) -> None:
    key, _, again = names()
    answers = [await api.save(key, None, idempotency_key=again) for _ in range(2)]
    assert [(answer.status, answer.json()) for answer in answers] == [(200, {"ok": True, "saved": 1, "stored": 0})] * 2
