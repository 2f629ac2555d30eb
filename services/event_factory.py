"""New events with their envelope."""

import hashlib
from dataclasses import dataclass

from turnlog.domain.event_data import EventData
from turnlog.domain.event_json import encode_data
from turnlog.domain.events import Event, EventType
from turnlog.infra.event_ids import new_event_id as new_event_id
from turnlog.infra.event_ids import now_ms as now_ms


@dataclass(frozen=True, slots=True)
class Origin:
    """Who asks, and how a retry is recognised.

    `idempotency_key` is the client's header as sent; `request_hash` (32 bytes) the SHA-256 of its whole request,
    needed with a key.
    """

    actor: str | None = None
    traceparent: str | None = None
    idempotency_key: str | None = None
    request_hash: bytes | None = None


ANONYMOUS = Origin()


def key_hash(event_type: EventType, stream: str, subject: str, client_key: str) -> bytes:
    """SHA-256 over type, stream, subject and the client's key (events.md, `idempotencykey`)."""
    parts = (event_type.wire_name, stream, subject, client_key)
    return hashlib.sha256(b"".join(len(p := part.encode()).to_bytes(4, "big") + p for part in parts)).digest()


def new_event(
    event_type: EventType,
    stream: str,
    subject: str,
    data: EventData,
    origin: Origin = ANONYMOUS,
    *,
    sent_after: int | None = None,
) -> Event:
    """An event ready to append. `sent_after` is an offset; see `Event`."""
    client_key = origin.idempotency_key
    return Event(
        id=new_event_id(),
        type=event_type.wire_name,
        stream=stream,
        subject=subject,
        time_ms=now_ms(),
        data=encode_data(data),
        sent_after=sent_after,
        idempotency_key=None if client_key is None else key_hash(event_type, stream, subject, client_key),
        request_hash=origin.request_hash if client_key is not None else None,
        actor=origin.actor,
        traceparent=origin.traceparent,
    )
