"""Windows start at a user message; entries of clients that know no agent messages are read as messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.domain.history.derived import ReadEntry, message_of, read_entry
from turnlog.domain.history.window import estimated_tokens, last_turns, within_tokens

Message = dict[str, Any]
USER: Message = {"role": "user", "content": "x" * 8}
ASSISTANT: Message = {"role": "assistant", "content": "x" * 8}
TOOL: Message = {"role": "tool", "content": "x" * 8, "tool_call_id": ""}
TURN = [USER, ASSISTANT, TOOL, ASSISTANT]


@pytest.mark.parametrize(("turns", "start"), [(1, 8), (2, 4), (3, 0), (4, 0), (10**9, 0)])
def test_the_newest_turns_begin_at_their_user_message(turns: int, start: int) -> None:
    assert last_turns(TURN * 3, turns) == start


def test_without_a_user_message_there_is_no_place_to_cut() -> None:
    assert last_turns([ASSISTANT, TOOL], 1) == 0
    assert last_turns([], 1) == 0


def test_a_text_costs_a_token_for_every_four_characters_begun() -> None:
    assert [estimated_tokens({"role": "user", "content": "x" * size}) for size in (0, 1, 4, 5, 8)] == [1, 1, 1, 2, 2]
    calls = [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "x" * 12}}]
    assert estimated_tokens({"role": "assistant", "content": None, "tool_calls": calls}) == 4


@pytest.mark.parametrize(("limit", "start"), [(0, 12), (7, 12), (8, 8), (15, 8), (16, 4), (23, 4), (24, 0), (99, 0)])
def test_a_token_budget_takes_whole_turns(limit: int, start: int) -> None:
    assert within_tokens(TURN * 3, limit) == start


@given(st.lists(st.sampled_from([USER, ASSISTANT, TOOL])), st.integers(0, 40))
def test_a_token_budget_is_kept_and_begins_at_a_user_message(messages: list[Message], limit: int) -> None:
    window = messages[within_tokens(messages, limit) :]
    assert sum(map(estimated_tokens, window)) <= limit
    if window and len(window) < len(messages):
        assert window[0] is USER


@pytest.mark.parametrize(
    ("text", "role", "said"),
    [
        (b'{"entryId":"e","role":"user","kind":"user","text":"Hi"}', "user", "Hi"),
        (b'{"entryId":"e","role":"assistant","kind":"assistant","text":"Yes"}', "assistant", "Yes"),
        (b'{"entryId":"e","role":"assistant","text":"no kind"}', "assistant", "no kind"),
        (b'{"entryId":"e","role":"assistant","kind":"thinking","text":"hm"}', None, "hm"),
        (b'{"entryId":"e","role":"system","kind":"meta","text":"fresh"}', None, "fresh"),
        (b'{"entryId":"e","role":"tool","kind":"tool","text":"22"}', "tool", "22"),
        (b'{"entryId":"e","role":"system","text":"x"}', None, "x"),
        (b'{"entryId":"e","role":7,"kind":"user","text":7}', "user", ""),
        (b'{"entryId":"e","role":"user","text":"\\udc97"}', "user", "\udc97"),
    ],
)
def test_an_entry_is_read_by_its_kind_else_its_role(text: bytes, role: str | None, said: str) -> None:
    entry = read_entry(text)
    assert (entry.entry_id, entry.role, entry.text) == ("e", role, said)


def test_only_what_was_said_becomes_a_message() -> None:
    assert message_of(ReadEntry("e", "user", "Hi", None)) == {"role": "user", "content": "Hi"}
    assert message_of(ReadEntry("e", "assistant", "", None)) == {"role": "assistant", "content": ""}
    assert message_of(ReadEntry("e", "tool", "22", None)) is None
    assert message_of(ReadEntry("e", None, "hm", None)) is None


def test_a_timestamp_is_read_and_a_foreign_one_is_none() -> None:
    assert read_entry(b'{"entryId":"e","timestampMs":1796092032377}').timestamp_ms == 1796092032377
    assert read_entry(b'{"entryId":"e","timestampMs":"soon"}').timestamp_ms is None
