"""The fold: the one place with a total order per stream, so the one place that decides (fold.md).

`fold(state of what the batch touches, records in log order) -> rows and verdicts`. Pure: no I/O, no clock, no ids
drawn. Folding record by record or in batches of any size ends in the same tables.
"""

from collections.abc import Sequence
from uuid import UUID

from turnlog.domain import event_data as d
from turnlog.domain.events import EventType
from turnlog.domain.fold_decode import DecodedRecord
from turnlog.domain.fold_effects import Effects, IndexRow, Verdict
from turnlog.domain.fold_endings import clear_chat, delete_session, reset_context
from turnlog.domain.fold_outcome import APPLIED, SESSION_DELETED, Outcome
from turnlog.domain.fold_sessions import add_attachment, fork_session, restore_history, save_point
from turnlog.domain.fold_state import Judged, Loaded, SessionState
from turnlog.domain.fold_turns import append_turn, release_turn, start_turn
from turnlog.domain.fold_work import Work
from turnlog.domain.session_key import Scope

_NEVER_JUDGED = (EventType.GENESIS, EventType.TICK)
_NO_VERDICT = (EventType.ERASURE_COMPLETED, EventType.QUARANTINE_DECIDED, EventType.PRODUCER_FENCED)
_ALWAYS_AWAITED = (
    EventType.CONTEXT_RESET,
    EventType.CHAT_CLEARED,
    EventType.SESSION_DELETED,
    EventType.RESUMEPOINT_SAVED,
    EventType.HISTORY_RESTORED,
    EventType.SESSION_FORKED,
    EventType.TURN_STARTED,
)


def fold(loaded: Loaded, decoded: Sequence[DecodedRecord]) -> Effects:
    """Judge records of one partition, in offset order. Takes over `loaded`, which must answer all of `touched`."""
    work = Work(loaded)
    for at in decoded:
        _judge(work, at)
    return work.settle()


def _judge(work: Work, at: DecodedRecord) -> None:
    if work.is_fenced(at.event.producer, at.offset):
        work.erase(at)
        return
    if at.type in _NEVER_JUDGED:
        return
    if at.type.erasable:
        _judge_erasable(work, at)
        return
    first = work.first_verdict(at)
    if first is not None:
        _repeat(work, at, first, _epoch(work, at))
        return
    outcome = _apply(work, at)
    _conclude(work, at, outcome, _epoch(work, at))


def _judge_erasable(work: Work, at: DecodedRecord) -> None:
    state = work.session(at.event.subject)
    if _begun_before_a_delete(at, state.last_delete):
        # No index row: the record must be able to vanish from the log without a trace here.
        work.erase(at)
        _answer(work, at, Outcome(410, SESSION_DELETED), state.epoch)
        return
    first = work.first_verdict(at)
    if first is not None:
        _repeat(work, at, first, state.epoch)
        return
    outcome = _apply_to_session(work, at, state)
    if outcome.applied:
        state.note_activity(at.appended_ms)
        work.keep(state)
    _conclude(work, at, outcome, state.epoch)


def _begun_before_a_delete(at: DecodedRecord, last_delete: int) -> bool:
    if not last_delete:
        return False
    sent_after = at.event.sent_after
    return (sent_after is not None and sent_after <= last_delete) or (at.epoch is not None and at.epoch < last_delete)


def _apply_to_session(work: Work, at: DecodedRecord, state: SessionState) -> Outcome:
    match at.data:
        case d.TurnAppended() as data:
            return append_turn(work, at, data, state)
        case d.TurnStarted() as data:
            return start_turn(work, at, data, state)
        case d.TurnReleased() as data:
            return release_turn(at, data, state)
        case d.HistoryRestored() as data:
            return restore_history(work, at, data, state)
        case d.ResumePointSaved() as data:
            return save_point(at, data, state)
        case d.AttachmentAdded() as data:
            return add_attachment(work, at, data, state)
        case d.SessionForked() as data:
            return fork_session(at, data, state)
        case _:
            raise AssertionError(f"{at.type.wire_name} isn't erasable")


def _apply(work: Work, at: DecodedRecord) -> Outcome:
    match at.data:
        case d.ContextReset() as data:
            return reset_context(work, at, data)
        case d.ChatCleared() as data:
            return clear_chat(work, at, data)
        case d.SessionDeleted() as data:
            return delete_session(work, at, data)
        case d.ProducerFenced() as data:
            work.fence_producer(UUID(data.producer), at.offset)
            return APPLIED
        case _:
            return APPLIED  # a receipt or a decision: it stands in the log and the index


def _epoch(work: Work, at: DecodedRecord) -> int:
    """The current epoch of a record's subject: a scope's last clear, or a session's epoch."""
    if isinstance(at.data, d.ChatCleared):
        return work.loaded.clears.get(Scope(at.data.team_id, at.data.scope), 0)
    if at.type in _NO_VERDICT:
        return 0
    return work.session(at.event.subject).epoch


def _conclude(work: Work, at: DecodedRecord, outcome: Outcome, epoch: int) -> None:
    """The first verdict on this event."""
    key_hash = at.event.idempotency_key
    work.remember(at, outcome.status, key_hash)
    work.effects.index.append(IndexRow(at.subject_id, at.offset, at.key, key_hash, at.type, outcome.status))
    _answer(work, at, outcome, epoch)


def _repeat(work: Work, at: DecodedRecord, first: Judged, epoch: int) -> None:
    """A duplicate: the first verdict stands. Its index row only lets its key be found when it must be erased."""
    if first.event_id != at.event.id:
        work.remember(at, first.status, None)
    work.effects.index.append(IndexRow(at.subject_id, at.offset, at.key, None, at.type, first.status))
    _answer(work, at, Outcome(first.status), epoch, first)


def _answer(work: Work, at: DecodedRecord, outcome: Outcome, epoch: int, first: Judged | None = None) -> None:
    if at.type in _NO_VERDICT:
        return
    event = at.event
    work.effects.verdicts.append(
        Verdict(
            event_id=event.id,
            subject_id=at.subject_id,
            offset=at.offset if first is None else first.offset,
            type=at.type,
            status=outcome.status,
            error=outcome.error,
            epoch=epoch,
            key_hash=event.idempotency_key,
            request_hash=event.request_hash,
            first=None if first is None else first.event_id,
            session_keys=outcome.session_keys,
            stored=outcome.stored,
            awaited=_awaited(at),
        )
    )


def _awaited(at: DecodedRecord) -> bool:
    event = at.event
    return (
        event.idempotency_key is not None
        or event.sent_after is not None
        or at.epoch is not None
        or at.if_position is not None
        or at.type in _ALWAYS_AWAITED
    )
