"""A record made ready for the fold: decoded once, its structure checked once, its entries named once.

What can be refused without knowing any state is refused here, as `Unfoldable`: such a record can't have come from
turnlog's own commands, and a partition stops at it rather than guess (fold.md; fold-notes.md, "Structure").
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from turnlog.domain import event_data as d
from turnlog.domain.entries import entry_id_of
from turnlog.domain.errors import BadInput, Unfoldable
from turnlog.domain.event_json import decode_data
from turnlog.domain.events import TYPES_BY_WIRE_NAME, Event, EventType, Record, RecordKey
from turnlog.domain.fold.structure import check_structure
from turnlog.domain.history.message_facts import MessageFacts, facts_of
from turnlog.domain.session_key import check_name, entry_hash, session_id


class NamedEntry(NamedTuple):
    """An entry with a usable id: its place in the event's list, its hash within the session, its exact JSON."""

    ordinal: int
    hash: UUID
    text: str


class DecodedRecord(NamedTuple):
    """A record that the fold can judge. `offset` and `appended_ms` (Unix ms) are the log's.

    `subject_id` is the session's id, or that of the subject's text. `entries` are the usable ones of a turn, or a
    reset's divider; `messages` are those of a turn or a restore, None where the event names none. `epoch` and
    `if_position` are the conditions that travel in the event.
    """

    offset: int
    appended_ms: int
    key: RecordKey
    event: Event
    type: EventType
    data: d.EventData
    subject_id: UUID
    entries: Sequence[NamedEntry]
    messages: MessageFacts | None
    epoch: int | None
    if_position: int | None


def decode(record: Record) -> DecodedRecord | None:
    """The record, ready to be judged; None if there is nothing to judge: an erased value, or an unknown type that is
    marked ignorable. Raises Unfoldable for bad data, an unknown type, or a structure that breaks a rule.
    """
    event = record.event
    if event is None:
        if record.undecodable is not None:
            raise Unfoldable(record.undecodable)
        return None
    data = decode_data(event)
    if data is None:
        return None
    try:
        check_structure(event, data)
    except BadInput as error:
        raise Unfoldable(f"{event.type}: {error}") from None
    subject_id = session_id(event.subject)
    entries, messages = _content(data, subject_id)
    # In the order of the fields: names would cost a microsecond for every record.
    return DecodedRecord(
        record.position.offset,
        record.appended_ms,
        record.key,
        event,
        TYPES_BY_WIRE_NAME[event.type],
        data,
        subject_id,
        entries,
        messages,
        getattr(data, "epoch", None),
        getattr(data, "if_position", None),
    )


def _content(data: d.EventData, subject_id: UUID) -> tuple[Sequence[NamedEntry], MessageFacts | None]:
    match data:
        case d.TurnAppended() | d.TurnStarted():
            return _named(data.entries, subject_id), None if data.messages is None else facts_of(data.messages)
        case d.HistoryRestored():
            return (), facts_of(data.messages)
        case d.ContextReset(divider=msgspec.Raw() as divider) if data.notice_key is not None:
            return _named((divider,), subject_id), None
        case _:
            return (), None


def _named(items: Sequence[bytes], session: UUID) -> list[NamedEntry]:
    """The items with a usable id. The others are left out, but keep their index, so that row ids never shift."""
    found = []
    for ordinal, raw in enumerate(items):
        item = bytes(raw)
        entry_id = entry_id_of(item)
        if entry_id and _is_name(entry_id):
            found.append(NamedEntry(ordinal, entry_hash(session, entry_id), item.decode()))
    return found


def _is_name(entry_id: str) -> bool:
    try:
        check_name(entry_id, "entryId")
    except BadInput:
        return False
    return True
