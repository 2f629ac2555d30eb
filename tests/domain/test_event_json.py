"""Event data to JSON and back: raw parts byte for byte, everything else by its schema."""

from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.json_texts import strings, values
from turnlog.domain import event_data as d
from turnlog.domain.event_json import DATA_TYPES, decode_data, encode_data
from turnlog.domain.events import TYPES_BY_WIRE_NAME, WIRE_NAMES, Event, EventType

RAWS = st.lists(values(), max_size=3)


def read(event_type: EventType, data: bytes) -> d.EventData | None:
    """The decoded data of an event of this type."""
    return decode_data(Event(UUID(int=0), event_type.wire_name, "s", "s", 0, data))


def raw(texts: list[str]) -> list[msgspec.Raw]:
    """Raw values."""
    return [msgspec.Raw(text.encode()) for text in texts]


def as_bytes(items: list[msgspec.Raw] | None) -> list[bytes] | None:
    """Raw values as bytes."""
    return None if items is None else [bytes(item) for item in items]


@given(RAWS, st.none() | RAWS, values().filter(lambda text: text != "null"), st.none() | st.integers(0, 2**53 - 1))
def test_entries_messages_and_usage_come_back_byte_for_byte(
    entries: list[str], messages: list[str] | None, usage: str, epoch: int | None
) -> None:
    data = d.TurnAppended(
        "sé",
        entries=raw(entries),
        messages=None if messages is None else raw(messages),
        usage=msgspec.Raw(usage.encode()),
        epoch=epoch,
        resume_point=d.ResumePointData("codex", "r"),
    )
    back = read(EventType.TURN_APPENDED, encode_data(data))
    assert isinstance(back, d.TurnAppended)
    assert as_bytes(back.entries) == [text.encode() for text in entries]
    assert as_bytes(back.messages) == (None if messages is None else [text.encode() for text in messages])
    assert isinstance(back.usage, msgspec.Raw)
    assert bytes(back.usage) == usage.encode()
    assert (back.session_key, back.epoch, back.resume_point) == ("sé", epoch, data.resume_point)
    assert encode_data(back) == encode_data(data)


@given(values())
def test_a_divider_comes_back_byte_for_byte(text: str) -> None:
    data = encode_data(d.ContextReset(["k"], divider=msgspec.Raw(text.encode()), notice_key="k"))
    back = read(EventType.CONTEXT_RESET, data)
    assert isinstance(back, d.ContextReset)
    assert isinstance(back.divider, msgspec.Raw)
    assert bytes(back.divider) == text.encode()


def test_raw_parts_may_be_absent() -> None:
    back = read(EventType.TURN_APPENDED, b'{"sessionKey":"s"}')
    assert back == d.TurnAppended("s")
    assert encode_data(d.TurnAppended("s")) == b'{"sessionKey":"s"}'
    assert encode_data(d.ContextReset(["k"])) == b'{"sessionKeys":["k"]}'


@given(strings().filter(lambda name: name != '"sessionKey"'), values())
def test_unknown_members_are_ignored_whatever_they_hold(name: str, value: str) -> None:
    data = f'{{{name}:{value},"x\\ud800":["\\ud800"],"sessionKey":"s"}}'.encode()
    known = set(d.TurnReleased.__struct_encode_fields__)
    if name.strip('"') not in known:
        assert read(EventType.TURN_RELEASED, data[:-1] + b',"runId":"r"}') == d.TurnReleased("s", "r")


def test_messages_null_and_empty_differ_also_beside_a_lone_surrogate() -> None:
    for extra in ("", ',"x":"\\ud800"'):
        absent = read(EventType.TURN_APPENDED, f'{{"sessionKey":"s","messages":null{extra}}}'.encode())
        empty = read(EventType.TURN_APPENDED, f'{{"sessionKey":"s","messages":[]{extra}}}'.encode())
        assert isinstance(absent, d.TurnAppended)
        assert isinstance(empty, d.TurnAppended)
        assert (absent.messages, empty.messages) == (None, [])


@pytest.mark.parametrize("extra", ["", ',"x":"\\ud800"'])
def test_the_last_of_two_equal_members_counts_and_escaped_names_are_names(extra: str) -> None:
    text = f'{{"sessionKey":"a","sessionKey":"b","run\\u0049d":"r"{extra}}}'
    assert read(EventType.TURN_RELEASED, text.encode()) == d.TurnReleased("b", "r")


def test_every_type_has_a_struct_a_number_and_a_wire_name() -> None:
    assert set(DATA_TYPES) == set(EventType) == set(WIRE_NAMES)
    assert WIRE_NAMES[EventType.TURN_APPENDED] == "dev.turnlog.turn.appended.v1"
    assert WIRE_NAMES[EventType.RESUMEPOINT_SAVED] == "dev.turnlog.resumepoint.saved.v1"
    assert {name: event_type for event_type, name in WIRE_NAMES.items()} == TYPES_BY_WIRE_NAME


def test_numbers_of_types_never_change() -> None:
    assert [(event_type.name, event_type.value) for event_type in EventType] == [
        ("GENESIS", 1), ("TURN_APPENDED", 2), ("TURN_STARTED", 3), ("TURN_RELEASED", 4), ("HISTORY_RESTORED", 5),
        ("RESUMEPOINT_SAVED", 6), ("ATTACHMENT_ADDED", 7), ("SESSION_FORKED", 8), ("CONTEXT_RESET", 9),
        ("CHAT_CLEARED", 10), ("SESSION_DELETED", 11), ("ERASURE_COMPLETED", 12), ("QUARANTINE_DECIDED", 13),
        ("PRODUCER_FENCED", 14), ("TICK", 15),
    ]  # fmt: skip
    assert [event_type for event_type in EventType if event_type.erasable] == list(EventType)[1:8]
