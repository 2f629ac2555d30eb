"""Every value is one event to every client, however that client splits lines."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.services.http.sse import entry_frame, json_line, named_frame

BREAKS = "\r\n\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"
texts = st.text(st.one_of(st.sampled_from(BREAKS + ':\\"'), st.characters(exclude_categories=["Cs"])))
values = st.recursive(texts | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner))


def parse(stream: str, lines: list[str]) -> list[dict[str, str]]:
    """Events as WHATWG HTML, 9.2.6, reads them, of lines split by somebody."""
    assert stream.endswith("\n\n")
    events: list[dict[str, str]] = []
    event: dict[str, str] = {}
    for line in lines:
        if not line:
            events += [event] if event else []
            event = {}
            continue
        name, _, value = line.partition(":")
        event[name] = event.get(name, "") + value.removeprefix(" ")
    return events


@given(values, st.integers(0, 2**53 - 1), st.sampled_from([None, 0, 2]), st.booleans())
def test_any_entry_is_one_event_and_the_same_value(
    value: object, row: int, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps({"v": value}, indent=indent, ensure_ascii=ascii_only)
    frame = entry_frame(row, text.replace("\n", "\r\n").encode()).decode()
    for lines in (re.split("\r\n|\r|\n", frame), frame.splitlines()):
        (event,) = parse(frame, lines)
        assert set(event) == {"id", "data"}
        assert event["id"] == str(row)
        assert json.loads(event["data"]) == {"v": value}


@given(values)
def test_any_named_frame_is_one_event_without_id(value: object) -> None:
    frame = named_frame("delta", json.dumps(value, ensure_ascii=False).encode()).decode()
    (event,) = parse(frame, frame.splitlines())
    assert set(event) == {"event", "data"}
    assert (event["event"], json.loads(event["data"])) == ("delta", value)


def test_an_escaped_backslash_before_a_line_separator_stays_one() -> None:
    value = {"v": "\\\u2028\\\\\u2029"}
    assert json.loads(json_line(json.dumps(value, ensure_ascii=False).encode())) == value


@pytest.mark.parametrize("name", ["", "a\nb", "delta ", "ré", "A", "x" * 33])
def test_an_event_name_is_lower_case_letters(name: str) -> None:
    with pytest.raises(ValueError, match="lower-case"):
        named_frame(name, b"{}")
