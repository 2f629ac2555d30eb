"""Event data to and from JSON bytes, exactly: raw parts are never re-serialised (events.md, "Record layout")."""

from typing import Any

import msgspec

from turnlog.domain import event_data as d
from turnlog.domain.errors import BadInput, Unfoldable
from turnlog.domain.events import TYPES_BY_WIRE_NAME, Event, EventType
from turnlog.domain.raw_json import check_text, split_array, split_object

DATA_TYPES: dict[EventType, type[msgspec.Struct]] = {
    EventType.GENESIS: d.Genesis,
    EventType.TURN_APPENDED: d.TurnAppended,
    EventType.TURN_STARTED: d.TurnStarted,
    EventType.TURN_RELEASED: d.TurnReleased,
    EventType.HISTORY_RESTORED: d.HistoryRestored,
    EventType.RESUMEPOINT_SAVED: d.ResumePointSaved,
    EventType.ATTACHMENT_ADDED: d.AttachmentAdded,
    EventType.SESSION_FORKED: d.SessionForked,
    EventType.CONTEXT_RESET: d.ContextReset,
    EventType.CHAT_CLEARED: d.ChatCleared,
    EventType.SESSION_DELETED: d.SessionDeleted,
    EventType.ERASURE_COMPLETED: d.ErasureCompleted,
    EventType.QUARANTINE_DECIDED: d.QuarantineDecided,
    EventType.PRODUCER_FENCED: d.ProducerFenced,
    EventType.TICK: d.Tick,
}
"""The struct of every event type."""

_encoder = msgspec.json.Encoder()
_decoders: dict[EventType, msgspec.json.Decoder[Any]] = {
    event_type: msgspec.json.Decoder(struct) for event_type, struct in DATA_TYPES.items()
}
_RAW_LISTS = ("entries", "messages")
_RAW_VALUES = ("divider", "usage")


def encode_data(data: d.EventData) -> bytes:
    """The event's JSON value. Raw parts stand in it byte for byte."""
    return _encoder.encode(data)


def decode_data(event: Event) -> d.EventData | None:
    """The event's data, or None for an unknown type that is marked ignorable. Raises Unfoldable."""
    event_type = TYPES_BY_WIRE_NAME.get(event.type)
    if event_type is None:
        if event.ignorable:
            return None
        raise Unfoldable(f"unknown event type {event.type[:200]!r}, not marked ignorable")
    decoder = _decoders[event_type]
    try:
        check_text(event.data)
        try:
            decoded: d.EventData = decoder.decode(event.data)
        except (msgspec.DecodeError, RecursionError) as error:
            if isinstance(error, msgspec.ValidationError):
                raise
            decoded = _decode_exactly(decoder, event.data)
    except (msgspec.MsgspecError, BadInput) as error:
        raise Unfoldable(f"{event.type}: {error}") from None
    return decoded


def _decode_exactly(decoder: msgspec.json.Decoder[Any], data: bytes) -> Any:  # noqa: ANN401 - one of EventData
    """The road for documents with lone-surrogate escapes: raw parts apart, the rest by msgspec, unknown fields out."""
    members = split_object(data)
    raw: dict[str, Any] = {}
    stand_ins: dict[str, bytes] = {}
    for name in decoder.type.__struct_encode_fields__:
        value = members.get(name)
        if value is None:
            continue
        if name in _RAW_LISTS and value != b"null":
            raw[name] = [msgspec.Raw(part) for part in split_array(value)]
            value = b"[]"
        elif name in _RAW_VALUES:
            raw[name] = msgspec.Raw(value)
            value = b"0"
        stand_ins[name] = value
    rest = b",".join(b'"%b":%b' % (name.encode(), value) for name, value in stand_ins.items())
    return msgspec.structs.replace(decoder.decode(b"{" + rest + b"}"), **raw)
