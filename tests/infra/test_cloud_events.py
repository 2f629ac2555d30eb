"""The Kafka record codec: CloudEvents 1.0 in binary mode, and records that somebody else wrote."""

import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log_settings import turn
from turnlog.domain.errors import BadInput, Unfoldable
from turnlog.domain.events import NO_KEY, Event, EventType, Record
from turnlog.domain.fold.decode import decode
from turnlog.domain.partitioning import partition_of
from turnlog.domain.positions import Position
from turnlog.infra.cloud_events import decode_key, decode_record, encode_headers, encode_key, format_time, source_of

PARTITIONS = 3
LOG_ID = UUID("0b0b0b0b-0000-4000-8000-000000000001")
SOURCE = source_of(LOG_ID)
HASH = bytes(range(32))
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass
class Message:
    """A record as the client returns it."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int = 0
    offset: int = 7
    timestamp: int = 1_767_225_600_000


EVENT = turn(
    actor="mara",
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    sent_after=12,
    idempotency_key=HASH,
    request_hash=HASH[::-1],
    producer=UUID(int=77),
    attempt=2,
    ignorable=True,
    time_ms=1_767_225_599_007,
)


def message_of(event: Event) -> Message:
    """The event as Kafka returns it."""
    partition = partition_of(event.stream, PARTITIONS)
    return Message(encode_key(event.key), event.data, tuple(encode_headers(event, SOURCE)), partition)


def with_header(name: str, value: bytes | None) -> Message:
    """EVENT's record with one header replaced."""
    message = message_of(EVENT)
    assert name in dict(message.headers)
    headers = tuple((header, value if header == name else old) for header, old in message.headers)
    return replace(message, headers=headers)


def without_header(name: str) -> Message:
    """EVENT's record without one header."""
    message = message_of(EVENT)
    return replace(message, headers=tuple(header for header in message.headers if header[0] != name))


def read(message: Message) -> Record:
    """What the log makes of it."""
    return decode_record(message, PARTITIONS, SOURCE)


def test_an_event_survives_the_way_through_headers() -> None:
    record = read(message_of(EVENT))
    assert record.event == EVENT
    assert record.key == EVENT.key
    assert record.appended_ms == 1_767_225_600_000
    assert record.undecodable is None


def test_a_plain_event_has_no_optional_header() -> None:
    plain = turn()
    assert {name for name, _ in message_of(plain).headers} == {
        *("ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "ce_subject", "ce_partitionkey"),
        *("ce_dataschema", "content-type"),
    }
    assert read(message_of(plain)).event == plain


def test_the_headers_are_those_of_the_event_contract() -> None:
    headers = dict(message_of(EVENT).headers)
    assert headers == {
        "ce_specversion": b"1.0",
        "ce_id": str(EVENT.id).encode(),
        "ce_type": b"dev.turnlog.turn.appended.v1",
        "ce_source": b"turnlog/0b0b0b0b-0000-4000-8000-000000000001",
        "ce_time": b"2025-12-31T23:59:59.007Z",
        "ce_subject": b"agent:a1:native",
        "ce_partitionkey": b"agent:a1",
        "ce_dataschema": b"urn:turnlog:schema:dev.turnlog.turn.appended.v1",
        "content-type": b"application/json",
        "ce_actor": b"mara",
        "traceparent": b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "sentafter": b"12",
        "ignorable": b"1",
        "idempotencykey": HASH.hex().encode(),
        "requesthash": HASH[::-1].hex().encode(),
        "producer": b"00000000-0000-0000-0000-00000000004d",
    }
    assert message_of(EVENT).key == f"{EVENT.id}/2".encode()


@pytest.mark.parametrize("event_type", list(EventType))
def test_every_type_meets_the_required_attributes_of_cloudevents(event_type: EventType) -> None:
    headers = dict(encode_headers(turn(type=event_type.wire_name), SOURCE))
    attributes = {name[3:]: value.decode() for name, value in headers.items() if name.startswith("ce_")}
    # CloudEvents 1.0.2, "Required attributes" and "Optional attributes": names of [a-z0-9], non-empty strings.
    assert all(re.fullmatch(r"[a-z0-9]{1,20}", name) and value for name, value in attributes.items())
    assert {"id", "source", "specversion", "type"} <= attributes.keys()
    assert attributes["specversion"] == "1.0"
    assert urlsplit(attributes["source"]).path == attributes["source"]  # a URI-reference
    assert urlsplit(attributes["dataschema"]).scheme == "urn"  # an absolute URI
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", attributes["time"])  # RFC 3339
    # Kafka protocol binding, "Binary content mode": datacontenttype is the header content-type, without a prefix.
    assert headers["content-type"] == b"application/json"
    assert "datacontenttype" not in attributes


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_767_225_600_999, "2026-01-01T00:00:00.999Z"),
        (951_782_400_001, "2000-02-29T00:00:00.001Z"),
    ],
)
def test_times_are_written_to_the_millisecond(time_ms: int, text: str) -> None:
    event = turn(time_ms=time_ms)
    assert format_time(time_ms) == text
    assert read(message_of(event)).event == event


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00.999Z", "2026-01-01t01:00:00.999999+01:00", "2025-12-31T23:00:00.9990-01:00"]
)
def test_any_rfc_3339_time_is_read(text: str) -> None:
    event = read(with_header("ce_time", text.encode())).event
    assert event is not None
    assert event.time_ms == 1_767_225_600_999


def test_a_null_value_is_an_erased_record_whatever_else_it_holds() -> None:
    tombstone = replace(message_of(EVENT), value=None, headers=())
    assert read(tombstone) == Record(Position(1, 7), tombstone.timestamp, EVENT.key, None)
    assert read(replace(tombstone, key=b"not ours")).key == NO_KEY
    assert read(replace(tombstone, key=None)).undecodable is None


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (without_header("ce_specversion"), "header ce_specversion is missing"),
        (with_header("ce_specversion", b"0.3"), "header ce_specversion isn't 1.0"),
        (without_header("ce_id"), "header ce_id is missing"),
        (with_header("ce_id", str(UUID(int=5)).encode()), "header ce_id isn't the event id of the record key"),
        (without_header("ce_type"), "header ce_type is missing"),
        (with_header("ce_type", b""), "header ce_type is missing"),
        (with_header("ce_type", b"\xff\xfe"), "header ce_type isn't UTF-8"),
        (without_header("ce_source"), "header ce_source is missing"),
        (with_header("ce_source", b"turnlog/another"), "header ce_source names another log"),
        (without_header("ce_subject"), "header ce_subject is missing"),
        (with_header("ce_subject", None), "header ce_subject is null"),
        (without_header("ce_partitionkey"), "header ce_partitionkey is missing"),
        (replace(message_of(EVENT), partition=0), "belongs to another partition"),
        (without_header("ce_time"), "header ce_time is missing"),
        (with_header("ce_time", b"yesterday"), "header ce_time isn't an RFC 3339 time"),
        (with_header("ce_time", b"2026-13-01T00:00:00Z"), "header ce_time isn't an RFC 3339 time"),
        (with_header("ce_time", b"2026-01-01T00:00:00"), "header ce_time isn't an RFC 3339 time"),
        (with_header("sentafter", b"-1"), "header sentafter doesn't have its form"),
        (with_header("sentafter", b"9" * 30), "header sentafter doesn't have its form"),
        (with_header("sentafter", "\u0661".encode()), "header sentafter doesn't have its form"),
        (with_header("idempotencykey", b"abc"), "header idempotencykey doesn't have its form"),
        (with_header("requesthash", b"G" * 64), "header requesthash doesn't have its form"),
        (with_header("ignorable", b"yes"), "header ignorable must be 0 or 1"),
        (with_header("producer", b"me"), "header producer isn't a UUID"),
        (replace(message_of(EVENT), key=None), "the record key isn't <event id>/<attempt>"),
        (replace(message_of(EVENT), key=b"\xff"), "the record key isn't <event id>/<attempt>"),
        (replace(message_of(EVENT), key=f"{EVENT.id}/0".encode()), "the record key isn't <event id>/<attempt>"),
        (replace(message_of(EVENT), key=f"{EVENT.id}/1\n".encode()), "the record key isn't <event id>/<attempt>"),
        (replace(message_of(EVENT), key=str(EVENT.id).encode()), "the record key isn't <event id>/<attempt>"),
        (replace(message_of(EVENT), headers=()), "header ce_specversion is missing"),
        (
            replace(message_of(EVENT), headers=(*message_of(EVENT).headers, ("ce_type", b"other"))),
            "header ce_type stands there twice",
        ),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "record",
)
def test_a_record_that_is_no_event_of_this_log_says_why_and_cannot_be_folded(message: Message, cause: str) -> None:
    record = read(message)
    assert record.event is None
    assert record.undecodable is not None
    assert cause in record.undecodable
    assert record.position.offset == message.offset
    with pytest.raises(Unfoldable, match=re.escape(cause)):
        decode(record)


def test_headers_that_mean_nothing_here_are_left_alone_even_if_they_are_odd() -> None:
    odd: Headers = (("tracestate", b"a=b"), ("tracestate", b"a=b"), ("x", None), ("", b""), ("y", b"\xff"))
    message = message_of(EVENT)
    assert read(replace(message, headers=(*odd, *message.headers))).event == EVENT


@pytest.mark.parametrize("event_type", [EventType.GENESIS, EventType.TICK, EventType.PRODUCER_FENCED])
def test_what_every_partition_gets_is_right_in_every_partition(event_type: EventType) -> None:
    event = turn(type=event_type.wire_name)
    for partition in range(PARTITIONS):
        assert read(replace(message_of(event), partition=partition)).event == event


def test_names_with_lone_surrogates_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(BadInput, match="lone surrogates"):
        encode_headers(replace(EVENT, subject="\ud800"), SOURCE)


_names = st.sampled_from([name for name, _ in message_of(EVENT).headers]) | st.text(max_size=5)
_headers = st.lists(st.tuples(_names, st.none() | st.binary(max_size=40)), max_size=20).map(tuple)


@given(key=st.none() | st.binary(max_size=50), value=st.none() | st.binary(max_size=50), headers=_headers)
def test_reading_never_breaks_off(key: bytes | None, value: bytes | None, headers: Headers) -> None:
    record = read(Message(key, value, headers))
    assert (value is None) == (record.event is None and record.undecodable is None)


@given(changed=_headers)
def test_reading_a_changed_record_never_breaks_off(changed: Headers) -> None:
    message = message_of(EVENT)
    left = tuple(header for header in message.headers if header[0] not in dict(changed))
    record = read(replace(message, headers=(*left, *changed)))
    assert (record.event is None) == (record.undecodable is not None)


@given(
    subject=st.text(min_size=1), actor=st.none() | st.text(), data=st.binary(), sent_after=st.none() | st.integers(0)
)
def test_whatever_can_be_written_reads_back_the_same(
    subject: str, actor: str | None, data: bytes, sent_after: int | None
) -> None:
    event = replace(EVENT, subject=subject, actor=actor, data=data, sent_after=sent_after and sent_after % 10**18)
    try:
        message = message_of(event)
    except BadInput:
        return
    assert read(message).event == event


@given(key=st.binary(max_size=60))
def test_only_keys_of_turnlog_are_read_as_keys(key: bytes) -> None:
    found = decode_key(key)
    assert found is None or encode_key(found) == key
