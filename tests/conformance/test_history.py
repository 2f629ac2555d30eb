"""POST /v1/turns, GET and PUT /v1/history: what replays, what pages show, and what is refused."""

import json
from typing import Any

import pytest

from tests.api import Api, agent_key, entry, fresh, target
from tests.plain_client import Answer

HISTORY = "/v1/history"
TURNS = "/v1/turns"

Message = dict[str, Any]


def said(text: str) -> Message:
    return {"role": "user", "content": text}


def answered(text: str) -> Message:
    return {"role": "assistant", "content": text}


def calling(*ids: str) -> Message:
    calls = [{"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, content: str | None = "found") -> Message:
    return {"role": "tool", "content": content, "tool_call_id": call_id, "name": "look"}


async def turn(api: Api, key: str, *messages: Message, headers: dict[str, str] | None = None, **more: Any) -> Answer:  # noqa: ANN401
    return await api.post(TURNS, {"sessionKey": key, "messages": list(messages), **more}, **(headers or {}))


async def history(api: Api, key: str, **query: str | int) -> Any:  # noqa: ANN401 - a JSON object
    answer = await api.ask("GET", target(HISTORY, sessionKey=key, **query))
    assert answer.status == 200, answer
    return answer.json()


async def put(api: Api, body: object, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await api.ask("PUT", HISTORY, data, {"content_type": "application/json", **headers})


async def test_an_unknown_session_has_an_empty_history(api: Api) -> None:
    key = agent_key()
    found = await history(api, key)
    assert found.pop("position").endswith("-0")
    assert found == {"sessionKey": key, "epoch": 0, "messages": [], "resumePoint": None, "repairs": []}


async def test_turns_come_back_in_order_as_they_were_sent(api: Api) -> None:
    key = agent_key()
    first = [said("Weather?"), calling("c1"), result("c1"), answered("22 degrees")]
    second = [said("\u00e9 \ud55c\uad6d\uc5b4 \U0001f468\u200d\U0001f469"), {**answered("a\x00b"), "reasoning": "kept"}]
    answer = await turn(api, key, *first)
    assert answer.status == 200 and answer.json()["ok"] is True and answer.json()["epoch"] == 0
    assert answer.json()["position"] == answer.headers["turnlog-position"]
    position = (await turn(api, key, *second)).json()["position"]
    found = await history(api, key)
    assert (found["messages"], found["repairs"], found["position"]) == ([*first, *second], [], position)


async def test_entries_of_clients_without_messages_replay_and_tool_entries_are_named(api: Api) -> None:
    key = agent_key()
    entries = [
        entry("1", "Hi"),
        entry("2", "hm", role="assistant", kind="thinking"),
        entry("3", "22", role="tool", kind="tool"),
        entry("4", "Yes", role="assistant", kind="assistant"),
    ]
    await api.save(key, *entries)
    found = await history(api, key)
    assert found["messages"] == [said("Hi"), answered("Yes")]
    assert [(repair["kind"], repair["callId"]) for repair in found["repairs"]] == [("tool entry left out", None)]


async def test_a_turn_with_messages_replays_those_and_shows_its_entries(api: Api) -> None:
    key = agent_key()
    shown = [entry("p", "Hi"), entry("a", "Yes", role="assistant", kind="assistant")]
    await turn(api, key, said("Hi, says the user"), answered("Yes"), entries=shown)
    assert await api.entries(key) == shown
    assert (await history(api, key))["messages"] == [said("Hi, says the user"), answered("Yes")]


async def test_a_failed_turn_keeps_what_was_written_out_of_what_replays(api: Api) -> None:
    key = agent_key()
    answer = await turn(api, key, entries=[entry("p", "Hi")], outcome="failed", error="out of reach")
    assert answer.status == 200
    assert await api.ids(key) == ["ep"]
    assert (await history(api, key))["messages"] == []


@pytest.mark.parametrize("ending", ["reset", "clear", "delete"])
async def test_an_ending_empties_what_replays(api: Api, ending: str) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    await turn(api, key, said("before"), answered("yes"), resumePoint={"runtime": "codex", "resumeId": "r1"})
    assert (await history(api, key))["resumePoint"]["resumeId"] == "r1"
    ended = await {
        "reset": lambda: api.reset(key),
        "clear": lambda: api.clear(team),
        "delete": lambda: api.delete(key),
    }[ending]()
    assert ended.status == 200
    found = await history(api, key)
    assert (found["messages"], found["resumePoint"]) == ([], None)
    assert found["epoch"] > 0
    await turn(api, key, said("after"), epoch=found["epoch"])
    assert (await history(api, key))["messages"] == [said("after")]


async def test_late_work_of_before_a_reset_does_not_replay(api: Api) -> None:
    key = agent_key()
    await turn(api, key, said("one"))
    await api.reset(key)
    answer = await turn(api, key, said("late"), epoch=0, resumePoint={"runtime": "codex", "resumeId": "old"})
    assert answer.status == 200
    found = await history(api, key)
    assert (found["messages"], found["resumePoint"]) == ([], None)
    assert found["epoch"] == answer.json()["epoch"] > 0


async def test_late_work_of_before_a_delete_is_refused(api: Api) -> None:
    key = agent_key()
    await turn(api, key, said("one"))
    await api.delete(key)
    assert (await turn(api, key, said("late"), epoch=0)).status == 410
    assert (await history(api, key))["messages"] == []


async def test_if_position_lets_one_of_two_turns_in(api: Api) -> None:
    key = agent_key()
    position = (await turn(api, key, said("one"))).json()["position"]
    keys = [{"idempotency_key": fresh()} for _ in range(2)]
    right = await turn(api, key, said("two"), ifPosition=position, headers=keys[0])
    wrong = await turn(api, key, said("three"), ifPosition=position, headers=keys[1])
    assert (right.status, wrong.status) == (200, 409)
    again = await turn(api, key, said("two"), ifPosition=position, headers=keys[0])
    assert (again.status, again.json()) == (200, right.json())
    assert (await history(api, key))["messages"] == [said("one"), said("two")]


async def test_a_retry_with_its_key_is_one_turn(api: Api) -> None:
    key, headers = agent_key(), {"idempotency_key": fresh()}
    answers = [await turn(api, key, said("once"), headers=headers) for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3
    assert len({answer.body for answer in answers}) == 1
    assert (await history(api, key))["messages"] == [said("once")]
    assert (await turn(api, key, said("other"), headers=headers)).status == 422


async def test_windows_begin_at_a_user_message(api: Api) -> None:
    key = agent_key()
    turns = [[said(f"q{n}"), calling(f"c{n}"), result(f"c{n}"), answered(f"a{n}")] for n in range(600)]
    for start in range(0, 600, 100):
        await turn(api, key, *[message for each in turns[start : start + 100] for message in each])
    for last in (1, 2, 599):
        assert (await history(api, key, last=last))["messages"] == [m for each in turns[-last:] for m in each]
    assert len((await history(api, key, last=600))["messages"]) == 2400
    assert len((await history(api, key, last=10**9))["messages"]) == 2400
    budget = await history(api, key, maxTokens=40)
    assert 0 < len(budget["messages"]) < 40
    assert budget["messages"][0]["role"] == "user"
    assert (await history(api, key, maxTokens=1))["messages"] == []


async def test_c11_an_unanswered_call_is_closed_in_the_snapshot_and_stays_as_it_is(api: Api) -> None:
    key = agent_key()
    await turn(api, key, said("go"), calling("t1"))
    await turn(api, key, said("and?"))
    found = await history(api, key)
    assert [message["role"] for message in found["messages"]] == ["user", "assistant", "tool", "user"]
    assert found["messages"][2]["tool_call_id"] == "t1"
    assert [(repair["kind"], repair["callId"]) for repair in found["repairs"]] == [("unanswered call closed", "t1")]
    stored = await history(api, key, repair="false")
    assert (stored["messages"], stored["repairs"]) == ([said("go"), calling("t1"), said("and?")], [])


async def test_c12_a_result_that_comes_after_a_restart_is_paired_with_its_call_once(api: Api) -> None:
    key = agent_key()
    await turn(api, key, said("go"), calling("t1"))
    await turn(api, key, said("and?"), answered("wait"))
    for _ in range(2):
        await turn(api, key, result("t1"))
    found = await history(api, key)
    assert found["messages"] == [said("go"), calling("t1"), result("t1"), said("and?"), answered("wait")]
    assert {repair["kind"] for repair in found["repairs"]} == {"result moved to its call", "orphaned result left out"}


async def test_a_restored_history_takes_the_place_of_what_replays_and_leaves_the_transcript(api: Api) -> None:
    key = agent_key()
    await turn(api, key, said("old"), entries=[entry("1", "old")], resumePoint={"runtime": "c", "resumeId": "r"})
    saved = [said("go"), calling("t1"), result("t1"), answered("done")]
    answer = await put(api, {"sessionKey": key, "messages": [{"role": "system", "content": "x"}, *saved]})
    assert (answer.status, answer.json()["ok"], answer.json()["epoch"]) == (200, True, 0)
    found = await history(api, key)
    assert (found["messages"], found["resumePoint"]) == (saved, None)
    assert found["position"] == answer.json()["position"] == answer.headers["turnlog-position"]
    assert await api.ids(key) == ["e1"]
    await turn(api, key, said("next"))
    assert (await history(api, key))["messages"] == [*saved, said("next")]
    assert (await put(api, {"sessionKey": key, "messages": []})).status == 200
    assert (await history(api, key))["messages"] == []


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ("nope", "expected an array of messages"),
        (None, "expected an array of messages"),
        ({"0": said("x")}, "expected an array of messages"),
        ([None], "message at index 0 is not an object"),
        ([{"role": "wizard"}], 'message at index 0 has unknown role "wizard"'),
        (
            [said("x"), {"role": "system", "content": "y"}],
            "unexpected system message at index 1 (only a leading system message is allowed)",
        ),
        (
            [said("x"), result("nope")],
            'tool message at index 1 has orphaned tool_call_id "nope" (no preceding assistant tool call matches it)',
        ),
        ([{**answered("x"), "tool_calls": "c1"}], "message at index 0 has malformed tool_calls"),
    ],
)
async def test_a_history_that_breaks_a_rule_is_422_and_changes_nothing(api: Api, messages: object, text: str) -> None:
    key = agent_key()
    await turn(api, key, said("kept"))
    answer = await put(api, {"sessionKey": key, "messages": messages})
    assert (answer.status, answer.error()) == (422, f"set_history: {text}")
    assert (await history(api, key))["messages"] == [said("kept")]


async def test_a_history_restored_under_an_old_epoch_is_refused(api: Api) -> None:
    key = agent_key()
    await turn(api, key, said("one"))
    await api.reset(key)
    assert (await put(api, {"sessionKey": key, "messages": [said("old")], "epoch": 0})).status == 409
    assert (await history(api, key))["messages"] == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "messages or entries required"),
        ({"messages": None, "entries": []}, "messages or entries required"),
        ({"messages": {}}, "messages must be an array"),
        ({"entries": "x"}, "entries must be an array"),
        ({"messages": ["x"]}, "messages[0] must be an object"),
        ({"messages": [said("x"), {"role": "system"}]}, "messages[1].role must be user, assistant or tool"),
        (
            {"messages": [{"role": "user", "content": 7}]},
            "messages[0].content must be a string, null or an array of parts",
        ),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id must be a non-empty string"),
        ({"messages": [{**said("x"), "tool_calls": []}]}, "messages[0].tool_calls belongs to assistant messages alone"),
        ({"messages": [{**answered("x"), "tool_calls": {}}]}, "messages[0].tool_calls must be an array"),
        (
            {"messages": [{**answered("x"), "tool_calls": [{}]}]},
            "messages[0].tool_calls[0].id must be a non-empty string",
        ),
        ({"messages": [calling("c", "c")]}, "messages[0].tool_calls[1].id is there twice"),
        ({"entries": [{"role": "user"}]}, "entries[0].entryId must be a non-empty string"),
        ({"messages": [], "epoch": "1"}, "epoch must be an integer from 0 to 2^53-1"),
        ({"messages": [], "basedOn": -1}, "basedOn must be an integer from 0 to 2^53-1"),
        ({"messages": [], "ifPosition": 7}, "ifPosition must be a string"),
        ({"messages": [], "ifPosition": "x"}, 'ifPosition must be a position such as "0-1234"'),
        (
            {"messages": [], "ifPosition": "0-0"},
            "ifPosition needs an Idempotency-Key: without one a retry would be refused by itself",
        ),
        ({"messages": [], "outcome": "odd"}, "outcome must be ok, failed or interrupted"),
        ({"messages": [], "usage": []}, "usage must be an object"),
        ({"messages": [], "resumePoint": "r"}, "resumePoint must be an object"),
        ({"messages": [], "resumePoint": {"resumeId": "r"}}, "resumePoint.runtime must be a non-empty string"),
        ({"messages": [], "runId": "a\x00b"}, "runId must not contain U+0000"),
        ({"messages": [said("x")] * 4097}, "messages and entries together are more than 4096"),
    ],
)
async def test_a_turn_that_breaks_a_rule_names_the_field_and_stores_nothing(
    api: Api, body: dict[str, Any], text: str
) -> None:
    key = agent_key()
    answer = await api.post(TURNS, {"sessionKey": key, **body})
    assert (answer.status, answer.error()) == (400, text)
    found = await history(api, key)
    assert (found["messages"], found["position"].partition("-")[2]) == ([], "0")


@pytest.mark.parametrize(
    "content",
    [b'"\\ud800 lone"', b'"nul \\u0000"', b'[{"type":"text","text":"x","n":1e400}]', b"[" + b"1" * 5000 + b"]"],
)
async def test_hostile_content_comes_back_or_is_refused_before_it_is_stored(api: Api, content: bytes) -> None:
    key = agent_key()
    message = b'{"role":"user","content":%s}' % content
    body = b'{"sessionKey":%s,"messages":[%s]}' % (json.dumps(key).encode(), message)
    answer = await api.post(TURNS, body)
    found = (await history(api, key))["messages"]
    if content.startswith(b'"'):
        assert answer.status == 200
        assert found == [json.loads(message)]
    else:
        assert (answer.status, answer.error()) == (
            400,
            "messages[0] holds a number, or a nesting, beyond what can be replayed",
        )
        assert found == []


@pytest.mark.parametrize(
    "message",
    [
        b'{"role":"user","content":"x","n":1e999}',
        b'{"role":"user","content":"x","n":%s}' % (b"7" * 6000),
        b'{"role":"user","content":"x","deep":[{"n":-1e999}]}',
    ],
)
async def test_a_number_that_could_not_replay_is_refused_wherever_it_stands(api: Api, message: bytes) -> None:
    key = agent_key()
    answer = await api.post(TURNS, b'{"sessionKey":%s,"messages":[%s]}' % (json.dumps(key).encode(), message))
    assert (answer.status, answer.error()) == (
        400,
        "messages[0] holds a number, or a nesting, beyond what can be replayed",
    )
    assert (await history(api, key))["messages"] == []


async def test_a_deeply_nested_history_is_restored_or_refused_by_name(api: Api) -> None:
    key = agent_key()
    for depth, status in ((100, 200), (490, None), (600, 400)):
        content = b"[" * depth + b"]" * depth
        message = b'{"role":"user","content":%s}' % content
        answer = await put(api, b'{"sessionKey":%s,"messages":[%s]}' % (json.dumps(key).encode(), message))
        assert answer.status == status if status else answer.status in {200, 422}, (depth, answer)
        await history(api, key)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("?last=0", "last must be an integer from 1 to 1000000000"),
        ("?last=x", "last must be an integer from 1 to 1000000000"),
        ("?last=1&last=2", "last must be an integer from 1 to 1000000000"),
        ("?maxTokens=-1", "maxTokens must be an integer from 1 to 1000000000"),
        ("?repair=maybe", "repair must be true or false"),
    ],
)
async def test_a_window_that_cannot_be_is_refused_by_name(api: Api, query: str, text: str) -> None:
    answer = await api.ask("GET", f"{HISTORY}{query}&sessionKey=a")
    assert (answer.status, answer.error()) == (400, text)


async def test_a_long_history_comes_whole_and_in_order(api: Api) -> None:
    key = agent_key()
    for start in range(0, 3000, 1000):
        await turn(api, key, *[said(f"m{number}") for number in range(start, start + 1000)])
    await api.save(key, *[entry(number) for number in range(700)])
    found = (await history(api, key))["messages"]
    assert [message["content"] for message in found] == [f"m{n}" for n in range(3000)] + [f"m{n}" for n in range(700)]
