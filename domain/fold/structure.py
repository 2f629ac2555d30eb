"""The rules of structure that every record must obey before the fold looks at it (fold-notes.md, "Structure")."""

from collections.abc import Iterable
from functools import lru_cache
from uuid import UUID

from turnlog.domain import event_data as d
from turnlog.domain.errors import BadInput
from turnlog.domain.events import Event
from turnlog.domain.positions import ROWS_PER_EVENT
from turnlog.domain.session_key import ALL, GENERAL, Scope, check_name, is_reserved, stream_of, team_stream

_ROOM_PREFIX = "room:"
_ESCAPED_NUL = b"\\u0000"


def check_structure(event: Event, data: d.EventData) -> None:
    """Refuse a record whose keys, subject, stream, sizes or texts break a rule. Raises BadInput naming the field."""
    match data:
        case d.TurnAppended() | d.TurnStarted():
            _check_session(data.session_key, event.subject, event.stream)
            _check_rows(len(data.entries) + len(data.messages or ()))
        case d.HistoryRestored():
            _check_session(data.session_key, event.subject, event.stream)
            _check_rows(len(data.messages))
        case d.SessionForked():
            _check_session(data.session_key, event.subject, event.stream)
            _check_key("source", data.source)
        case d.TurnReleased() | d.ResumePointSaved() | d.AttachmentAdded() | d.SessionDeleted() | d.QuarantineDecided():
            _check_session(data.session_key, event.subject, event.stream)
        case d.ContextReset():
            _check_reset(event, data)
        case d.ChatCleared():
            _check_clear(event, data)
        case d.ProducerFenced():
            _check_fence(event, data)
        case d.ErasureCompleted() | d.Genesis() | d.Tick():
            pass
    _check_texts(event, data)


@lru_cache(maxsize=4096)
def _check_session(key: str, subject: str, stream: str) -> None:
    _check_key("sessionKey", key)
    _check_subject(subject, key)
    _check_stream(stream, stream_of(key))


def _check_key(field: str, key: str) -> None:
    check_name(key, field)
    if is_reserved(key):
        raise BadInput(f"{field} is reserved")


def _check_subject(subject: str, wanted: str) -> None:
    if subject != wanted:
        raise BadInput("the event's subject isn't what its data names")


def _check_stream(stream: str, wanted: str) -> None:
    if stream != wanted:
        raise BadInput("the event's stream isn't the one its data belongs to")


def _check_rows(count: int) -> None:
    if count > ROWS_PER_EVENT:
        raise BadInput(f"entries and messages are more than {ROWS_PER_EVENT}")


def _check_reset(event: Event, data: d.ContextReset) -> None:
    for key in data.session_keys:
        _check_key("sessionKeys", key)
        _check_stream(event.stream, stream_of(key))
    if data.notice_key is None:
        _check_subject(event.subject, data.session_keys[0])
    else:
        _check_key("noticeKey", data.notice_key)
        _check_subject(event.subject, data.notice_key)
        _check_stream(event.stream, stream_of(data.notice_key))


def _check_clear(event: Event, data: d.ChatCleared) -> None:
    room = data.scope.startswith(_ROOM_PREFIX) and data.scope != _ROOM_PREFIX
    if data.scope not in (GENERAL, ALL) and not room:
        raise BadInput("scope must be general, * or room:<id>")
    check_name(data.team_id, "teamId")
    check_name(data.scope, "scope")
    _check_subject(event.subject, Scope(data.team_id, data.scope).subject())
    _check_stream(event.stream, team_stream(data.team_id))


def _check_fence(event: Event, data: d.ProducerFenced) -> None:
    try:
        UUID(data.producer)
    except ValueError:
        raise BadInput("producer must be a UUID") from None
    _check_subject(event.subject, f"producer:{data.producer}")


def _check_texts(event: Event, data: d.EventData) -> None:
    """No U+0000 in a text that reaches a table: Postgres can't store it."""
    if event.actor is not None and "\x00" in event.actor:
        raise BadInput("actor must not contain U+0000")
    # JSON can hold the character only as this escape, so most events need no closer look.
    if _ESCAPED_NUL not in event.data:
        return
    for text in _table_texts(data):
        if text is not None and "\x00" in text:
            raise BadInput("a stored text must not contain U+0000")


def _table_texts(data: d.EventData) -> Iterable[str | None]:
    """The texts of the data, session keys aside, that become columns of a table."""
    match data:
        case d.TurnAppended(gateway_url=gateway_url, resume_point=None):
            return (gateway_url,)
        case d.TurnAppended(gateway_url=gateway_url, resume_point=d.ResumePointData() as point):
            return (gateway_url, point.runtime, point.resume_id)
        case d.TurnStarted():
            return (data.gateway_url, data.run_id)
        case d.TurnReleased():
            return (data.run_id,)
        case d.ResumePointSaved():
            return (data.runtime, data.resume_id)
        case d.AttachmentAdded():
            return (data.message_id, data.name, data.mime_type)
        case d.SessionDeleted():
            return (data.reason, data.actor)
        case d.QuarantineDecided():
            return (data.position, data.why)
        case d.ErasureCompleted():
            return (*data.counts, *data.positions)
        case _:
            return ()
