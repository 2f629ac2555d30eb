"""Whatever was stored, what replays is acceptable to a provider, and every difference is listed."""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.domain.history.provider_valid import INTERRUPTED, Placed, Repair, Valid, provider_valid

Message = dict[str, Any]


def call(call_id: object, name: object = "look", arguments: object = "{}") -> Message:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*ids: str, content: str | None = None) -> Message:
    return {"role": "assistant", "content": content, "tool_calls": [call(each) for each in ids]}


def result(call_id: str, content: object = "found") -> Message:
    return {"role": "tool", "content": content, "tool_call_id": call_id}


def said(text: str = "hi") -> Message:
    return {"role": "user", "content": text}


def answered(text: str = "yes") -> Message:
    return {"role": "assistant", "content": text}


def closed(call_id: str) -> Message:
    return {"role": "tool", "content": INTERRUPTED, "tool_call_id": call_id, "name": "look"}


def repaired(*messages: Mapping[str, Any]) -> Valid:
    return provider_valid([Placed(row, message) for row, message in enumerate(messages)])


def sent(valid: Valid) -> list[Any]:
    return [message for _, message in valid.messages]


def fault(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Why a provider would refuse these messages, judged without the code under test; None if it wouldn't."""
    waiting: list[str] = []
    for message in messages:
        role = message["role"]
        if role == "tool":
            if not waiting or message["tool_call_id"] != waiting.pop(0):
                return "a result that isn't the next one asked for"
            if not isinstance(message["content"], str | list):
                return "a result without text"
            continue
        if waiting:
            return "a call without a result"
        if role not in ("user", "assistant"):
            return "a foreign role"
        if "tool_calls" in message:
            ids = [each["id"] for each in message["tool_calls"]]
            if role != "assistant" or not ids or len(set(ids)) < len(ids):
                return "calls that can't be made"
            if not all(isinstance(each["function"]["arguments"], str) for each in message["tool_calls"]):
                return "arguments that are no text"
            waiting = ids
        elif not isinstance(message["content"], str | list):
            return "a message without text"
    return "a call without a result" if waiting else None


def test_a_valid_conversation_is_sent_as_it_is() -> None:
    messages = [said(), calling("a", "b"), result("a"), result("b"), answered(), said(), answered("")]
    valid = repaired(*messages)
    assert valid.messages == list(enumerate(messages))
    assert valid.repairs == []


def test_keys_that_turnlog_does_not_know_are_sent_as_they_are() -> None:
    asked = {"reasoning": "hm", **calling("a"), "x": [1]}
    asked["tool_calls"] = [{"extra": 1, **call("a")}]
    messages = [{"id": 7, **said()}, asked, {**result("a"), "is_error": True}]
    assert list(map(json.dumps, sent(repaired(*messages)))) == list(map(json.dumps, messages))


def test_an_unanswered_call_is_closed_with_a_text_that_says_so() -> None:
    valid = repaired(calling("a", "b"), result("b"), said())
    assert sent(valid) == [calling("a", "b"), closed("a"), result("b"), said()]
    assert valid.repairs == [Repair("unanswered call closed", 0, "a")]


def test_a_late_result_is_paired_with_its_call_exactly_once() -> None:
    valid = repaired(calling("a"), said(), answered(), result("a"), result("a", "again"))
    assert sent(valid) == [calling("a"), result("a"), said(), answered()]
    assert valid.repairs == [Repair("orphaned result left out", 4, "a"), Repair("result moved to its call", 3, "a")]


def test_results_stand_in_call_order() -> None:
    valid = repaired(calling("a", "b"), result("b", "B"), result("a", "A"))
    assert sent(valid) == [calling("a", "b"), result("a", "A"), result("b", "B")]
    assert {repair.kind for repair in valid.repairs} == {"result moved to its call"}


def test_a_result_belongs_to_the_nearest_earlier_call_that_waits() -> None:
    valid = repaired(calling("a"), calling("a"), result("a", "second"), result("a", "first"))
    assert sent(valid) == [calling("a"), result("a", "first"), calling("a"), result("a", "second")]


def test_orphans_are_left_out() -> None:
    valid = repaired(result("a"), said())
    assert sent(valid) == [said()]
    assert valid.repairs == [Repair("orphaned result left out", 0, "a")]


def test_a_result_without_text_is_sent_empty() -> None:
    valid = repaired(calling("a"), result("a", None))
    assert sent(valid) == [calling("a"), result("a", "")]
    assert valid.repairs == [Repair("empty result text", 1, "a")]


@pytest.mark.parametrize(
    ("message", "expected", "kind"),
    [
        ({"role": "assistant", "content": None}, [], "empty message left out"),
        ({"role": "assistant", "content": None, "tool_calls": []}, [], "empty message left out"),
        ({**answered(), "tool_calls": []}, [answered()], "empty tool_calls left out"),
        ({"role": "user", "content": None}, [said("")], "missing text"),
        ({"role": "system", "content": "x"}, [], "system message left out"),
        ({**said(), "tool_calls": [call("a")]}, [said()], "calls of another role left out"),
        ({**answered(), "tool_calls": [call(7)]}, [answered()], "malformed call left out"),
        ({**answered(), "tool_calls": [call("a", "")]}, [answered()], "malformed call left out"),
        ({**answered(), "tool_calls": ["a"]}, [answered()], "malformed call left out"),
        ({**answered(), "tool_calls": None}, [answered()], "empty tool_calls left out"),
        ({**answered(), "tool_call_id": "a"}, [answered()], "tool_call_id of another role left out"),
        ({**said(), "name": ""}, [said()], "malformed name left out"),
        ({**said(), "name": 7}, [said()], "malformed name left out"),
        ({"role": "developer", "content": "x"}, [], "message of unknown role left out"),
        ({"role": "user", "content": {"a": 1}}, [said('{"a":1}')], "content written as text"),
    ],
)
def test_what_a_provider_refuses_is_left_out_or_completed(message: Message, expected: list[Message], kind: str) -> None:
    valid = repaired(message)
    assert sent(valid) == expected
    assert kind in [repair.kind for repair in valid.repairs]


def test_arguments_that_are_no_text_are_written_as_text() -> None:
    asked: Message = {"role": "assistant", "content": None, "tool_calls": [call("a", "look", {"x": 1})]}
    valid = repaired(asked, result("a"))
    assert sent(valid)[0]["tool_calls"] == [call("a", "look", '{"x":1}')]
    assert valid.repairs == [Repair("malformed call completed", 0, "a")]


ids = st.sampled_from(["a", "b", "c"])
texts = st.none() | st.sampled_from(["", "x"]) | st.just([{"type": "text", "text": "x"}]) | st.just(7)
calls = st.builds(call, ids | st.just(1) | st.just(""), st.sampled_from(["look", "", None]), texts)
messages = st.one_of(
    st.builds(result, ids, texts),
    st.builds(lambda *each: calling(*each), ids, ids),
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system"]), "content": texts},
        optional={"tool_calls": st.none() | st.lists(calls, max_size=3), "name": st.sampled_from(["", "Ann"])},
    ),
)


@given(st.lists(messages, max_size=12))
def test_anything_stored_replays_as_something_valid(stored: list[Message]) -> None:
    before = copy.deepcopy(stored)
    valid = repaired(*stored)
    assert fault(sent(valid)) is None
    assert stored == before, "what is stored never changes"
    if not valid.repairs:
        assert list(map(json.dumps, sent(valid))) == list(map(json.dumps, stored)), "to the byte"


@given(st.lists(messages, max_size=12))
def test_what_was_repaired_needs_no_second_repair(stored: list[Message]) -> None:
    once = sent(repaired(*stored))
    again = repaired(*once)
    assert again.repairs == []
    assert sent(again) == once


@given(st.lists(messages, max_size=12))
def test_every_spoken_text_and_every_owned_result_is_sent_once(stored: list[Message]) -> None:
    numbered = [{**message, "content": f"#{index}"} for index, message in enumerate(stored)]
    valid = repaired(*numbered)
    contents = [message["content"] for message in sent(valid)]
    dropped = {repair.row_id for repair in valid.repairs if repair.kind.endswith("left out")}
    for index, message in enumerate(numbered):
        assert contents.count(f"#{index}") == (
            message["role"] != "system" and (index not in dropped or message["role"] != "tool")
        )
