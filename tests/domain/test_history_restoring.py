"""Conformance of `set_history`, numbered like the cases A1 to A55: what is accepted, kept and refused."""

import json
from typing import Any

import pytest

from turnlog.domain.errors import BadInput
from turnlog.domain.history.messages import HistoryError
from turnlog.domain.history.restoring import MAX_HISTORY_BYTES, restored

Message = dict[str, Any]


def said(text: str = "hi") -> Message:
    return {"role": "user", "content": text}


def answered(text: str | None = "yes") -> Message:
    return {"role": "assistant", "content": text}


def calling(*ids: str) -> Message:
    calls = [{"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: object, content: str | None = "found", **more: object) -> Message:
    return {"role": "tool", "content": content, "tool_call_id": call_id, **more}


SYSTEM: Message = {"role": "system", "content": "be kind"}


def refusal(messages: object) -> str:
    with pytest.raises(HistoryError) as caught:
        restored(messages)
    text = str(caught.value)
    assert text.startswith("set_history: ")
    return text.removeprefix("set_history: ")


def messages_of(name: str) -> object:
    return (message for message in [said(name)])


@pytest.mark.parametrize("container", ["nope", None, {"0": said()}, (said(),), 7, messages_of("generator")])
def test_01_02_03_only_a_list_is_an_array(container: object) -> None:
    assert refusal(container) == "expected an array of messages"


def test_04_an_empty_list_is_an_empty_history() -> None:
    assert restored([]) == []


def test_05_a_valid_history_comes_back_equal() -> None:
    assert restored([said()]) == [said()]


@pytest.mark.parametrize("element", [None, "hi", 3, True, [said()]])
def test_06_07_an_element_that_is_no_object_is_named(element: object) -> None:
    assert refusal([element]) == "message at index 0 is not an object"


def test_09_the_index_is_the_one_in_the_input() -> None:
    assert refusal([said(), answered(), None]) == "message at index 2 is not an object"
    assert refusal([SYSTEM, said(), None]) == "message at index 2 is not an object"


@pytest.mark.parametrize(
    ("role", "shown"),
    [
        ("wizard", "wizard"),
        ("User", "User"),
        ("developer", "developer"),
        ("function", "function"),
        (None, "null"),
        (["user"], "list"),
        ({"a": 1}, "dict"),
        (1, "int"),
        ("\udc97", "\\udc97"),
        ("", ""),
    ],
)
def test_11_13_14_an_unknown_role_is_quoted(role: object, shown: str) -> None:
    assert refusal([{"role": role, "content": "x"}]) == f'message at index 0 has unknown role "{shown}"'


def test_12_a_missing_role_is_unknown() -> None:
    assert refusal([{"content": "x"}]) == 'message at index 0 has unknown role "null"'


def test_16_19_22_a_leading_system_message_is_stripped_unexamined() -> None:
    assert restored([SYSTEM, said()]) == [said()]
    assert restored([SYSTEM]) == []
    assert restored([{"role": "system", "content": 17, "tool_calls": "junk"}, said()]) == [said()]


@pytest.mark.parametrize("messages", [[said(), SYSTEM], [SYSTEM, SYSTEM, said()]])
def test_17_18_a_later_system_message_is_refused(messages: list[Message]) -> None:
    text = "unexpected system message at index 1 (only a leading system message is allowed)"
    assert refusal(messages) == text


def orphaned(index: int, shown: str) -> str:
    return (
        f'tool message at index {index} has orphaned tool_call_id "{shown}" '
        "(no preceding assistant tool call matches it)"
    )


def test_24_a_result_without_a_call_is_refused() -> None:
    assert refusal([said(), result("nope")]) == orphaned(1, "nope")


@pytest.mark.parametrize(
    ("call_id", "shown"), [("", ""), (None, "null"), (1, "int"), ([], "list"), ({}, "dict"), (True, "bool")]
)
def test_26_39_an_unusable_call_id_is_an_orphan(call_id: object, shown: str) -> None:
    assert refusal([calling("c1"), result(call_id)]) == orphaned(1, shown)


def test_25_a_missing_call_id_is_an_orphan() -> None:
    assert refusal([calling("c1"), {"role": "tool", "content": "x"}]) == orphaned(1, "null")


def test_27_a_result_before_its_call_is_refused() -> None:
    assert refusal([result("c1"), calling("c1")]) == orphaned(0, "c1")


def test_28_a_tool_conversation_comes_back_equal() -> None:
    messages = [said(), calling("c1"), result("c1", name="look"), answered()]
    assert restored(messages) == messages


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([calling("c1"), result("c1"), result("c1", "again")], id="29 two results for one call"),
        pytest.param([calling("c1"), said()], id="30 a call never answered"),
        pytest.param([calling("c1", "c2"), result("c2")], id="31 one of two calls answered"),
        pytest.param([calling("c1"), said(), result("c1")], id="32 a result apart from its call"),
        pytest.param([calling("c1", "c2"), result("c2"), result("c1")], id="33 results in another order"),
        pytest.param([calling("c1"), result("c1"), calling("c1"), result("c1")], id="34 an id used again"),
        pytest.param([{**said(), "tool_calls": calling("c1")["tool_calls"]}, result("c1")], id="a call of a user"),
        pytest.param([{**calling("c1"), "tool_calls": []}], id="42 no calls at all"),
        pytest.param([calling("c1"), result("c1", None)], id="a result without text"),
        pytest.param([{**said(), "name": "Ann"}], id="48 a name on a user message"),
        pytest.param([answered(None), answered("")], id="50 null and empty content"),
    ],
)
def test_29_to_34_42_48_50_what_upstream_accepts_is_kept_as_it_is(messages: list[Message]) -> None:
    assert restored(messages) == messages


def test_36_a_result_does_not_answer_its_own_calls() -> None:
    assert refusal([{**result("c1"), "tool_calls": calling("c1")["tool_calls"]}]) == orphaned(0, "c1")


def test_37_38_calls_whose_id_is_no_string_declare_nothing() -> None:
    numbered: Message = {"role": "assistant", "content": None, "tool_calls": [{"id": 7, "type": "function"}]}
    nameless: Message = {"role": "assistant", "content": None, "tool_calls": [{"type": "function"}]}
    assert restored([numbered, nameless]) == [numbered, nameless]
    assert refusal([numbered, result(7)]) == orphaned(1, "int")
    assert refusal([nameless, result("c1")]) == orphaned(1, "c1")


def test_43_null_tool_calls_are_dropped() -> None:
    assert restored([{**answered(), "tool_calls": None}]) == [answered()]


def test_44_45_calls_are_kept_without_function_and_with_arguments_that_are_no_json() -> None:
    without = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]}
    broken = calling("c2")
    broken["tool_calls"][0]["function"]["arguments"] = "{not json"
    assert restored([without, broken]) == [without, broken]


@pytest.mark.parametrize("calls", ["c1", {}, 3, True, [None], ["c1"], [{"id": "c1"}, 4]])
def test_malformed_tool_calls_have_their_own_text(calls: object) -> None:
    assert refusal([said(), {**answered(), "tool_calls": calls}]) == "message at index 1 has malformed tool_calls"


def test_46_unknown_fields_are_dropped_everywhere() -> None:
    call = {"id": "c1", "type": "function", "index": 0, "function": {"name": "f", "arguments": "{}", "strict": True}}
    messages = [{**answered(), "id": 1, "timestamp": 2, "metadata": {}, "tool_calls": [call]}]
    kept = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert restored(messages) == [{**answered(), "tool_calls": [kept]}]


def test_49_50_a_missing_name_and_missing_content_are_accepted() -> None:
    assert restored([calling("c1"), result("c1")]) == [calling("c1"), result("c1")]
    assert restored([{"role": "user"}]) == [{"role": "user", "content": None}]
    assert restored([{**said(), "name": ""}]) == [said()]


def test_51_the_copy_shares_nothing_with_the_input() -> None:
    messages = [said(), calling("c1"), result("c1")]
    copy = restored(messages)
    messages[1]["tool_calls"][0]["function"]["name"] = "other"
    messages.clear()
    assert copy == [said(), calling("c1"), result("c1")]


def test_53_54_a_saved_history_restores_to_itself() -> None:
    history = restored([SYSTEM, said("\udc97\x00é"), calling("c1", "c2"), result("c2", name="look"), answered()])
    assert restored(history) == history
    assert restored(json.loads(json.dumps(history))) == history


def cyclic() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize("content", [float("nan"), object(), cyclic(), deep(), {1, 2}, b"bytes"])
def test_content_that_is_no_json_is_refused_by_name(content: object) -> None:
    assert refusal([said(), {"role": "user", "content": content}]) == "message at index 1 has malformed content"


@pytest.mark.parametrize("arguments", [float("inf"), cyclic(), deep(), object()])
def test_arguments_that_are_no_json_are_refused_by_name(arguments: object) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    assert refusal([{**answered(), "tool_calls": [call]}]) == "message at index 0 has malformed tool_calls"


def test_a_history_above_2_mib_is_refused_at_its_size() -> None:
    text = refusal([said("x" * MAX_HISTORY_BYTES)])
    assert text == f"history is larger than {MAX_HISTORY_BYTES} bytes"
    almost = [said("x" * (MAX_HISTORY_BYTES - 100))]
    assert restored(almost) == almost


def test_the_error_is_a_value_error_and_bad_input() -> None:
    assert issubclass(HistoryError, ValueError) and issubclass(HistoryError, BadInput)
    assert HistoryError.status() == 422
