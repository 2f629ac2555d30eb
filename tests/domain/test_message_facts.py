"""What is known of an array of messages without reading it again."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.domain.history.message_facts import facts_of
from turnlog.domain.history.provider_valid import Placed, provider_valid

SAID = {"role": "user", "content": "Hi"}
ANSWERED = {"role": "assistant", "content": "Yes"}


def calling(*ids: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "content": "", "tool_call_id": call_id, "name": "look"}


def raw(*messages: object) -> list[bytes]:
    return [json.dumps(message).encode() for message in messages]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [SAID],
        [ANSWERED, SAID, SAID],
        [SAID, calling("a", "b"), result("a"), result("b"), ANSWERED],
        [{**SAID, "content": [{"type": "text", "text": "x"}], "name": "Ann", "extra": 1e2}],
    ],
)
def test_messages_that_need_no_repair_are_valid(messages: list[Any]) -> None:
    facts = facts_of(raw(*messages))
    assert facts.valid
    assert json.loads(facts.text) == messages
    assert (facts.count, facts.users) == (len(messages), sum(message["role"] == "user" for message in messages))


@pytest.mark.parametrize(
    "messages",
    [
        [calling("a")],
        [result("a")],
        [calling("a", "b"), result("b"), result("a")],
        [calling("a"), SAID, result("a")],
        [calling("a", "a"), result("a"), result("a")],
        [{**calling("a"), "tool_calls": []}],
        [{**SAID, "content": None}],
        [{**SAID, "tool_calls": None}],
        [{**SAID, "tool_call_id": "a"}],
        [{**SAID, "name": ""}],
        [{"role": "user"}],
        [{"role": "system", "content": "x"}],
        [calling("a"), {**result("a"), "content": None}],
        ["text"],
    ],
)
def test_messages_that_need_a_repair_are_not(messages: list[Any]) -> None:
    facts = facts_of(raw(*messages))
    assert not facts.valid
    assert facts.count == len(messages)


def test_user_messages_count_also_where_something_is_wrong() -> None:
    assert facts_of([*raw(SAID, result("x"), SAID, 7), b'{"role":"user","content":"\\ud800"}']).users == 3


_content = st.sampled_from(["x", "", None, 7, [{"type": "text", "text": "x"}]])
_ids = st.sampled_from(["a", "b", "", None, 3])
_call = st.fixed_dictionaries(
    {"id": _ids},
    optional={
        "type": st.sampled_from(["function", "other"]),
        "function": st.fixed_dictionaries(
            {}, optional={"name": st.sampled_from(["look", ""]), "arguments": st.sampled_from(["{}", None])}
        ),
    },
)
_good_call = _ids.map(lambda i: {"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}})
_message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "assistant", "tool", "tool", "system"])},
    optional={
        "content": _content,
        "tool_calls": st.none() | st.lists(_good_call, max_size=2) | st.lists(_call, max_size=2),
        "tool_call_id": _ids,
        "name": st.sampled_from(["look", "", None]),
    },
)
_exchange = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True).map(
    lambda ids: [calling(*ids), *map(result, ids)]
)
_row = st.lists(st.just([SAID]) | st.just([ANSWERED]) | _exchange | st.lists(_message, max_size=2), max_size=4).map(
    lambda parts: [message for part in parts for message in part]
)


@given(before=_row, messages=_row, after=_row)
def test_valid_messages_are_left_alone_whatever_stands_around_them(
    before: list[Any], messages: list[Any], after: list[Any]
) -> None:
    if not facts_of(raw(*messages)).valid:
        return
    stored = [Placed(index, message) for index, message in enumerate([*before, *messages, *after])]
    places = range(len(before), len(before) + len(messages))
    valid = provider_valid(stored)
    assert [message for row, message in valid.messages if row in places] == messages
    assert not [repair for repair in valid.repairs if repair.row_id in places]
