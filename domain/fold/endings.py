"""The three endings: reset, clear, delete (fold.md, "By type"). They touch no row, whatever a session's length."""

from turnlog.domain.event_data import ChatCleared, ContextReset, SessionDeleted
from turnlog.domain.fold.decode import DecodedRecord
from turnlog.domain.fold.effects import EndingKind, EndingRow
from turnlog.domain.fold.outcome import APPLIED, Outcome
from turnlog.domain.fold.state import Placement
from turnlog.domain.fold.turns import add_entries
from turnlog.domain.fold.work import Work
from turnlog.domain.positions import last_row_id
from turnlog.domain.session_key import Scope


def reset_context(work: Work, at: DecodedRecord, data: ContextReset) -> Outcome:
    """Ends the context of each listed key; the divider becomes a row of the notice key."""
    for ordinal, key in enumerate(dict.fromkeys(data.session_keys)):
        state = work.session(key)
        state.last_reset = state.last = at.offset
        state.context_floor = last_row_id(at.offset)
        state.resume_point = None
        state.lease = None
        work.keep(state)
        work.effects.endings.append(_ending(at, EndingKind.RESET, ordinal)._replace(session_id=state.id))
        work.hint(key, at, EndingKind.RESET)
    if not at.entries:
        return APPLIED
    notice = work.session(at.event.subject)
    stored = add_entries(work, at, notice, Placement.IN_CONTEXT, "")
    notice.note_activity(at.appended_ms)
    work.keep(notice)
    return Outcome(200, stored=stored)


def clear_chat(work: Work, at: DecodedRecord, data: ChatCleared) -> Outcome:
    """Sets aside everything its scope holds; keys of the scope that come later start from here."""
    scope = Scope(data.team_id, data.scope)
    work.loaded.clears[scope] = work.effects.clears[scope] = at.offset
    ended = []
    for state in work.members(scope):
        if state.listed:
            ended.append(state.key)
            work.hint(state.key, at, EndingKind.CLEAR)
        state.last_clear = state.last = at.offset
        state.context_floor = state.cleared_floor = last_row_id(at.offset)
        state.visible_entries = 0
        state.resume_point = None
        state.lease = None
        work.keep(state)
    work.effects.endings.append(_ending(at, EndingKind.CLEAR)._replace(scope=scope, cleared_at_ms=data.cleared_at))
    return Outcome(200, session_keys=tuple(ended))


def delete_session(work: Work, at: DecodedRecord, data: SessionDeleted) -> Outcome:
    """Everything of the session goes, its fence stays; also for a key never seen."""
    work.forget(work.session(data.session_key), at.offset)
    actor = at.event.actor if data.actor is None else data.actor
    work.effects.endings.append(
        _ending(at, EndingKind.DELETE)._replace(session_id=at.subject_id, actor=actor, reason=data.reason)
    )
    work.hint(data.session_key, at, EndingKind.DELETE)
    return APPLIED


def _ending(at: DecodedRecord, kind: EndingKind, ordinal: int = 0) -> EndingRow:
    return EndingRow(
        offset=at.offset,
        ordinal=ordinal,
        kind=kind,
        session_id=None,
        scope=None,
        actor=at.event.actor,
        reason=None,
        cleared_at_ms=None,
        appended_ms=at.appended_ms,
    )
