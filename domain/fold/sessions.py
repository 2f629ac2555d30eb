"""What changes one session without being a turn: restores, resume points, forks, attachments (fold.md, "By type")."""

from turnlog.domain.event_data import (
    AttachmentAdded,
    ResumePointData,
    ResumePointSaved,
    SessionForked,
)
from turnlog.domain.fold.decode import DecodedRecord
from turnlog.domain.fold.effects import AttachmentRow
from turnlog.domain.fold.outcome import ALREADY_LISTED, APPLIED, CONTEXT_ENDED, Outcome
from turnlog.domain.fold.state import Fork, Placement, SessionState
from turnlog.domain.fold.turns import add_messages, save_resume_point
from turnlog.domain.fold.work import Work
from turnlog.domain.positions import row_id


def restore_history(work: Work, at: DecodedRecord, state: SessionState) -> Outcome:
    """These messages replace what the model sees. No ending: the epoch stays."""
    if at.epoch is not None and at.epoch != state.epoch:
        return Outcome(409, CONTEXT_ENDED)
    first = row_id(at.offset, 0)
    add_messages(work, at, first, Placement.IN_CONTEXT, state, restores=True)
    state.context_floor = first - 1
    state.resume_point = None
    state.last = at.offset
    return APPLIED


def save_point(at: DecodedRecord, data: ResumePointSaved, state: SessionState) -> Outcome:
    """Set or clear the resume point, unless it was saved under an epoch that has ended."""
    if at.epoch is not None and at.epoch != state.epoch:
        return Outcome(409, CONTEXT_ENDED)
    save_resume_point(at, state, ResumePointData(data.runtime, data.resume_id))
    return APPLIED


def fork_session(at: DecodedRecord, data: SessionForked, state: SessionState) -> Outcome:
    """A new key starts from another's rows. Only the reference is kept: the fold never looks at the source."""
    if state.listed:
        return Outcome(409, ALREADY_LISTED)
    state.fork = Fork(data.source, data.at, at.offset)
    state.last = at.offset
    return APPLIED


def add_attachment(work: Work, at: DecodedRecord, data: AttachmentAdded, state: SessionState) -> Outcome:
    """Name and type belong to the reference; the bytes are kept elsewhere, once per content."""
    row = AttachmentRow(
        state.id, at.offset, data.message_id, data.name, data.mime_type, data.size, bytes.fromhex(data.sha256)
    )
    work.effects.attachments.append(row)
    return APPLIED
