"""Turns: what they add, where it stands, and who may run one (fold.md, "By type")."""

from turnlog.domain.event_data import ResumePointData, TurnAppended, TurnReleased, TurnStarted
from turnlog.domain.fold.decode import DecodedRecord
from turnlog.domain.fold.effects import EntryRow, MessagesRow
from turnlog.domain.fold.lease import ask, release
from turnlog.domain.fold.outcome import APPLIED, CONTEXT_ENDED, NOT_THE_LAST, RUN_ACTIVE, Outcome
from turnlog.domain.fold.state import Placement, ResumePoint, SessionState
from turnlog.domain.fold.work import Work
from turnlog.domain.positions import ROWS_PER_EVENT, row_id


def append_turn(work: Work, at: DecodedRecord, data: TurnAppended, state: SessionState) -> Outcome:
    """A turn is stored wherever its epoch puts it; only a condition that can't hold refuses it."""
    if at.if_position is not None and at.if_position != state.last:
        return Outcome(409, NOT_THE_LAST)
    if at.epoch is not None and at.epoch > state.epoch:
        return Outcome(409, CONTEXT_ENDED)
    placement = placement_of(at.epoch, state)
    stored = add_turn(work, at, state, placement, data)
    if data.resume_point is not None and placement is Placement.IN_CONTEXT:
        save_resume_point(at, state, data.resume_point)
    return Outcome(200, stored=stored)


def start_turn(work: Work, at: DecodedRecord, data: TurnStarted, state: SessionState) -> Outcome:
    """A run takes the lease or a place in the queue, and leaves its prompt; a refused one leaves nothing."""
    if at.if_position is not None and at.if_position != state.last:
        return Outcome(409, NOT_THE_LAST)
    if at.epoch is not None and at.epoch != state.epoch:
        return Outcome(409, CONTEXT_ENDED)
    answer = ask(state.lease, data.run_id, data.lease, data.policy, at.appended_ms)
    if answer.status == 409:
        return Outcome(409, RUN_ACTIVE)
    state.lease = answer.lease
    return Outcome(answer.status, stored=add_turn(work, at, state, Placement.IN_CONTEXT, data))


def release_turn(at: DecodedRecord, data: TurnReleased, state: SessionState) -> Outcome:
    """A run gives back what it holds."""
    state.lease = release(state.lease, data.run_id, at.appended_ms)
    return APPLIED


def placement_of(epoch: int | None, state: SessionState) -> Placement:
    """Where work that began under `epoch` stands now."""
    if epoch is None:
        return Placement.IN_CONTEXT
    if epoch < state.last_clear:
        return Placement.SET_ASIDE
    if epoch < state.last_reset:
        return Placement.OUTSIDE_CONTEXT
    return Placement.IN_CONTEXT


def add_turn(
    work: Work, at: DecodedRecord, state: SessionState, placement: Placement, data: TurnAppended | TurnStarted
) -> int:
    """Store the entries that are new to the session, and the messages. Answers how many entries were new."""
    stored = add_entries(work, at, state, placement, data.gateway_url)
    if at.messages is None:
        state.replayed_entries += stored
    else:
        # Messages are numbered after the entries; an empty list behind 4,096 entries must not leave the event's rows.
        first = row_id(at.offset, min(len(data.entries), ROWS_PER_EVENT - 1))
        based_on = data.based_on if isinstance(data, TurnAppended) else None
        add_messages(work, at, first, placement, state, based_on=based_on)
    if stored or at.messages is not None:
        state.last = at.offset
    return stored


def add_entries(work: Work, at: DecodedRecord, state: SessionState, placement: Placement, gateway_url: str) -> int:
    """Store the record's entries whose id is new to the session, wherever the known one stands; the first wins."""
    if not at.entries:
        return 0
    known = work.loaded.entry_hashes.setdefault(state.id, set())
    rows = work.effects.entries
    before = len(rows)
    for ordinal, entry_hash, text in at.entries:
        size = len(known)
        known.add(entry_hash)
        if len(known) > size:
            row = row_id(at.offset, ordinal)
            rows.append(EntryRow(state.id, row, entry_hash, placement, at.appended_ms, gateway_url, text))
    stored = len(rows) - before
    if stored:
        state.total_entries += stored
        if placement is not Placement.SET_ASIDE:
            state.visible_entries += stored
        work.hint(state.key, at, None)
    return stored


def add_messages(
    work: Work,
    at: DecodedRecord,
    first_row: int,
    placement: Placement,
    state: SessionState,
    *,
    based_on: int | None = None,
    restores: bool = False,
) -> None:
    """Store what replays of a turn or a restore: one row, even for an empty list."""
    assert at.messages is not None  # noqa: S101 - the callers' condition
    facts = at.messages
    row = MessagesRow(
        session_id=state.id,
        row_id=first_row,
        message_count=facts.count,
        user_messages=facts.users,
        placement=placement,
        appended_ms=at.appended_ms,
        based_on=based_on,
        restores=restores,
        valid=facts.valid,
        text=facts.text,
    )
    work.effects.messages.append(row)
    state.total_messages += facts.count


def save_resume_point(at: DecodedRecord, state: SessionState, point: ResumePointData) -> None:
    """Set the resume point, or clear it where there is no resume id."""
    if point.resume_id is None:
        state.resume_point = None
    else:
        state.resume_point = ResumePoint(point.runtime, point.resume_id, at.appended_ms, at.offset)
