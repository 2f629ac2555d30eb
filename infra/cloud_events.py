"""Events as Kafka records: CloudEvents 1.0 binary mode headers, our own headers, key and value (events.md).

Reading never trusts the writer: whatever isn't an event of this log becomes a record that says why (`undecodable`), so
that its partition stops there by name instead of the reading loop breaking.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol
from uuid import UUID

from turnlog.domain.errors import BadInput
from turnlog.domain.events import NO_KEY, TYPES_BY_WIRE_NAME, Event, EventType, Record, RecordKey
from turnlog.domain.partitioning import partition_of
from turnlog.domain.positions import Position

Headers = list[tuple[str, bytes]]

SPEC_VERSION = b"1.0"
CONTENT_TYPE = b"application/json"

_PARTITION_BOUND = frozenset({EventType.GENESIS, EventType.TICK, EventType.PRODUCER_FENCED})
"""Types that are written to every partition, so that their stream doesn't say which."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KEY = re.compile(rb"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/([1-9][0-9]{0,8})")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_OFFSET = re.compile(r"\d{1,18}", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_OURS = frozenset(
    {
        *("ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "ce_subject", "ce_partitionkey"),
        *("ce_dataschema", "ce_actor", "content-type", "traceparent"),
        *("sentafter", "ignorable", "idempotencykey", "requesthash", "producer"),
    }
)


class Message(Protocol):
    """A record as the Kafka client returns it. `timestamp` is the broker's append time, Unix ms."""

    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


class _Undecodable(Exception):  # noqa: N818 - never leaves this module
    """Why a record is no event of this log."""


def source_of(log_id: UUID) -> bytes:
    """`ce_source` of every event in the log."""
    return f"turnlog/{log_id}".encode()


def encode_key(key: RecordKey) -> bytes:
    """The record key, `<event id>/<attempt>`."""
    return f"{key.event_id}/{key.attempt}".encode()


def decode_key(raw: bytes | None) -> RecordKey | None:
    """The record key, or None if it isn't one of turnlog's."""
    match = _KEY.fullmatch(raw or b"")
    return None if match is None else RecordKey(UUID(match[1].decode()), int(match[2]))


def producer_header(producer: UUID) -> tuple[str, bytes]:
    """The header that names the producer instance."""
    return "producer", str(producer).encode()


def encode_headers(event: Event, source: bytes) -> Headers:
    """All headers of the event. Raises BadInput for names that aren't Unicode text."""
    try:
        headers = [
            ("ce_specversion", SPEC_VERSION),
            ("ce_id", str(event.id).encode()),
            ("ce_type", event.type.encode()),
            ("ce_source", source),
            ("ce_time", format_time(event.time_ms).encode()),
            ("ce_subject", event.subject.encode()),
            ("ce_partitionkey", event.stream.encode()),
            ("ce_dataschema", _schema(event.type)),
            ("content-type", CONTENT_TYPE),
        ]
        if event.actor is not None:
            headers.append(("ce_actor", event.actor.encode()))
        if event.traceparent is not None:
            headers.append(("traceparent", event.traceparent.encode()))
    except UnicodeEncodeError:
        raise BadInput("subject, stream, actor and traceparent must not hold lone surrogates") from None
    if event.producer is not None:
        headers.append(producer_header(event.producer))
    if event.sent_after is not None:
        headers.append(("sentafter", str(event.sent_after).encode()))
    if event.ignorable:
        headers.append(("ignorable", b"1"))
    if event.idempotency_key is not None:
        headers.append(("idempotencykey", event.idempotency_key.hex().encode()))
    if event.request_hash is not None:
        headers.append(("requesthash", event.request_hash.hex().encode()))
    return headers


def decode_record(message: Message, partitions: int, source: bytes) -> Record:
    """The record as the log returns it: an event, an erased value, or `undecodable` with the cause. Never raises.

    `partitions` and `source` are this log's; a record in the wrong partition or of another log is refused too.
    """
    position = Position(message.partition, message.offset)
    key = decode_key(message.key)
    if message.value is None:
        return Record(position, message.timestamp, key or NO_KEY, None)
    try:
        event = _event(message, key, message.value, partitions, source)
    except _Undecodable as cause:
        return Record(position, message.timestamp, key or NO_KEY, None, undecodable=str(cause))
    return Record(position, message.timestamp, event.key, event)


def _event(message: Message, key: RecordKey | None, value: bytes, partitions: int, source: bytes) -> Event:
    if key is None:
        raise _Undecodable("the record key isn't <event id>/<attempt>")
    headers = _texts(message.headers)
    if _required(headers, "ce_specversion") != "1.0":
        raise _Undecodable("header ce_specversion isn't 1.0")
    if _required(headers, "ce_id") != str(key.event_id):
        raise _Undecodable("header ce_id isn't the event id of the record key")
    wire_name = _required(headers, "ce_type")
    event_type = TYPES_BY_WIRE_NAME.get(wire_name)
    if _required(headers, "ce_source").encode() != source and event_type is not EventType.GENESIS:
        raise _Undecodable("header ce_source names another log")
    stream = _required(headers, "ce_partitionkey")
    if event_type not in _PARTITION_BOUND and partition_of(stream, partitions) != message.partition:
        raise _Undecodable("the stream in header ce_partitionkey belongs to another partition")
    sent_after = _matching(headers, "sentafter", _OFFSET)
    idempotency_key = _matching(headers, "idempotencykey", _HASH)
    request_hash = _matching(headers, "requesthash", _HASH)
    return Event(
        id=key.event_id,
        type=wire_name,
        stream=stream,
        subject=_required(headers, "ce_subject"),
        time_ms=_time_ms(_required(headers, "ce_time")),
        data=value,
        attempt=key.attempt,
        sent_after=None if sent_after is None else int(sent_after),
        idempotency_key=None if idempotency_key is None else bytes.fromhex(idempotency_key),
        request_hash=None if request_hash is None else bytes.fromhex(request_hash),
        producer=_producer(headers.get("producer")),
        actor=headers.get("ce_actor"),
        traceparent=headers.get("traceparent"),
        ignorable=_flag(headers, "ignorable"),
    )


def _texts(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str]:
    """The headers that mean something here. Others may come, twice too: tracing and gateways add their own."""
    found: dict[str, str] = {}
    for name, value in headers:
        if name not in _OURS:
            continue
        if name in found:
            raise _Undecodable(f"header {name} stands there twice")
        if value is None:
            raise _Undecodable(f"header {name} is null")
        try:
            found[name] = value.decode()
        except UnicodeDecodeError:
            raise _Undecodable(f"header {name} isn't UTF-8") from None
    return found


def _required(headers: dict[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise _Undecodable(f"header {name} is missing")
    return value


def _matching(headers: dict[str, str], name: str, pattern: re.Pattern[str]) -> str | None:
    value = headers.get(name)
    if value is not None and pattern.fullmatch(value) is None:
        raise _Undecodable(f"header {name} doesn't have its form")
    return value


def _flag(headers: dict[str, str], name: str) -> bool:
    value = headers.get(name)
    if value not in (None, "0", "1"):
        raise _Undecodable(f"header {name} must be 0 or 1")
    return value == "1"


@lru_cache(maxsize=256)
def _producer(text: str | None) -> UUID | None:
    if text is None:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise _Undecodable("header producer isn't a UUID") from None


@lru_cache(maxsize=256)
def _schema(wire_name: str) -> bytes:
    return f"urn:turnlog:schema:{wire_name}".encode()


def format_time(time_ms: int) -> str:
    """RFC 3339 in UTC, to the millisecond. `time_ms` is Unix ms."""
    return f"{_second(time_ms // 1000)}.{time_ms % 1000:03d}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def _time_ms(text: str) -> int:
    if _TIME.fullmatch(text) is None:
        raise _Undecodable("header ce_time isn't an RFC 3339 time")
    try:
        return (datetime.fromisoformat(text.upper()) - _EPOCH) // timedelta(milliseconds=1)
    except ValueError:
        raise _Undecodable("header ce_time isn't an RFC 3339 time") from None
