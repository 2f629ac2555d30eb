"""The fold: the one place with a total order per stream, so the one place that decides (fold.md).

`fold(state of what the batch touches, records in log order) -> rows and verdicts`. Pure: no I/O, no clock, no ids
drawn. Folding record by record or in batches of any size ends in the same tables.
"""

from collections.abc import Sequence
from uuid import UUID

from turnlog.domain import event_data as d
from turnlog.domain.errors import Bug
from turnlog.domain.events import EventType
from turnlog.domain.fold.decode import DecodedRecord
from turnlog.domain.fold.effects import Effects, IndexRow, Verdict
from turnlog.domain.fold.endings import clear_chat, delete_session, reset_context
from turnlog.domain.fold.outcome import APPLIED, SESSION_DELETED, Outcome
from turnlog.domain.fold.sessions import add_attachment, fork_session, restore_history, save_point
from turnlog.domain.fold.state import Judged, Loaded, SessionState
from turnlog.domain.fold.turns import append_turn, release_turn, start_turn
from turnlog.domain.fold.work import Work
from turnlog.domain.session_key import Scope

_NEVER_JUDGED = (EventType.GENESIS, EventType.TICK)
_NO_VERDICT = (EventType.ERASURE_COMPLETED, EventType.QUARANTINE_DECIDED, EventType.PRODUCER_FENCED)
_ALWAYS_AWAITED = frozenset(
    {
        EventType.CONTEXT_RESET,
        EventType.CHAT_CLEARED,
        EventType.SESSION_DELETED,
        EventType.RESUMEPOINT_SAVED,
        EventType.HISTORY_RESTORED,
        EventType.SESSION_FORKED,
        EventType.TURN_STARTED,
    }
)


def fold(loaded: Loaded, decoded: Sequence[DecodedRecord]) -> Effects:
    """Judge records of one partition, in offset order. Takes over `loaded`, which must answer all of `touched`."""
    work = Work(loaded)
    judge(work, decoded)
    return work.settle()


def judge(work: Work, decoded: Sequence[DecodedRecord]) -> None:
    """Judge the next records of the batch that `work` is folding. All of them, then `settle`, are `fold`."""
    for at in decoded:
        _judge(work, at)


def _judge(work: Work, at: DecodedRecord) -> None:
    if work.is_fenced(at.event.producer, at.offset):
        work.erase(at)
        return
    if at.type.erasable:
        _judge_erasable(work, at)
    elif at.type not in _NEVER_JUDGED:
        _judge_lasting(work, at)


def _judge_lasting(work: Work, at: DecodedRecord) -> None:
    """An ending, a fence, a receipt or a decision: stays in the log for good, so nothing refuses it."""
    first = work.first_verdict(at)
    outcome = _apply(work, at) if first is None else Outcome(first.status)
    _index(work, at, outcome.status, first)
    if at.type not in _NO_VERDICT:
        _answer(work, at, outcome, _epoch(work, at), first)


def _judge_erasable(work: Work, at: DecodedRecord) -> None:
    state = work.session(at.event.subject)
    if _begun_before_a_delete(at, state.last_delete):
        # No index row: the record must be able to vanish from the log without a trace here.
        work.erase(at)
        _answer(work, at, Outcome(410, SESSION_DELETED), state.epoch)
        return
    first = work.first_verdict(at)
    if first is not None:
        outcome = Outcome(first.status)
    else:
        outcome = _apply_to_session(work, at, state)
        if outcome.applied:
            state.note_activity(at.appended_ms)
            work.keep(state)
    _index(work, at, outcome.status, first)
    _answer(work, at, outcome, state.epoch, first)


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
        case d.HistoryRestored():
            return restore_history(work, at, state)
        case d.ResumePointSaved() as data:
            return save_point(at, data, state)
        case d.AttachmentAdded() as data:
            return add_attachment(work, at, data, state)
        case d.SessionForked() as data:
            return fork_session(at, data, state)
        case _:
            raise Bug(f"{at.type.wire_name} isn't erasable")


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
    """The current epoch of an ending's subject: a scope's last clear, or a session's epoch."""
    if isinstance(at.data, d.ChatCleared):
        return work.loaded.clears.get(Scope(at.data.team_id, at.data.scope), 0)
    return work.session(at.event.subject).epoch


def _index(work: Work, at: DecodedRecord, status: int, first: Judged | None) -> None:
    """The record is judged. The row of a duplicate only lets its key be found when it must be erased."""
    key_hash = at.event.idempotency_key if first is None else None
    work.effects.index.append(IndexRow(at.subject_id, at.offset, at.key, key_hash, at.type, status))
    if first is None or first.event_id != at.event.id:
        work.remember(at, status, key_hash)


def _answer(work: Work, at: DecodedRecord, outcome: Outcome, epoch: int, first: Judged | None = None) -> None:
    event = at.event
    # In the order of the fields: names would cost as much as the rest of this function, for every record.
    verdict = Verdict(
        event.id,
        at.subject_id,
        at.offset if first is None else first.offset,
        at.type,
        outcome.status,
        outcome.error,
        epoch,
        event.idempotency_key,
        event.request_hash,
        None if first is None else first.event_id,
        outcome.session_keys,
        outcome.stored,
        _awaited(at),
    )
    work.effects.verdicts.append(verdict)


def _awaited(at: DecodedRecord) -> bool:
    event = at.event
    return (
        event.idempotency_key is not None
        or event.sent_after is not None
        or at.epoch is not None
        or at.if_position is not None
        or at.type in _ALWAYS_AWAITED
    )
