"""Settings and events for tests that talk to an event log directly."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from turnlog.domain.event_data import SessionDeleted, TurnAppended
from turnlog.domain.event_json import encode_data
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import Event, EventType, Record
from turnlog.domain.positions import Position
from turnlog.domain.session_key import stream_of
from turnlog.infra.event_ids import new_event_id, now_ms


@dataclass
class KafkaLogSettings:
    """What a Kafka log needs to be told."""

    kafka_bootstrap_servers: str | None
    topic: str
    partitions: int = 3
    replication_factor: int = 1
    min_insync_replicas: int = 1
    append_timeout_ms: int = 10_000


def turn(session_key: str = "agent:a1:native", text: str = "hello", **envelope: Any) -> Event:  # noqa: ANN401
    """A turn of one entry. `envelope` are fields of Event."""
    entry_id = str(new_event_id())
    entry = msgspec.json.encode({"entryId": entry_id, "role": "user", "text": text})
    data = TurnAppended(session_key=session_key, entries=[msgspec.Raw(entry)])
    return _event(EventType.TURN_APPENDED, session_key, encode_data(data), envelope)


def deletion(session_key: str = "agent:a1:native") -> Event:
    """The delete of a session."""
    return _event(EventType.SESSION_DELETED, session_key, encode_data(SessionDeleted(session_key=session_key)), {})


def raw_event(data: bytes, session_key: str = "agent:a1:native", **envelope: Any) -> Event:  # noqa: ANN401
    """A turn whose value is exactly these bytes."""
    return _event(EventType.TURN_APPENDED, session_key, data, envelope)


def _event(event_type: EventType, session_key: str, data: bytes, envelope: dict[str, Any]) -> Event:
    event = Event(new_event_id(), event_type.wire_name, stream_of(session_key), session_key, now_ms(), data)
    return replace(event, **envelope)


async def append_all(log: EventLog, events: Iterable[Event]) -> list[Position]:
    """Append one after the other."""
    return [(await log.append(event)).position for event in events]


async def read_all(log: EventLog, partition: int, start: int = 0) -> list[Record]:
    """Every record from `start` to the end."""
    records: list[Record] = []
    end = await log.end(partition)
    while start < end:
        batch = await log.read(partition, start, limit=100, wait_ms=2_000)
        records += batch.records
        start = batch.next_offset
    return records
