"""Which of the cases that the law of erasure names (fold.md, "The law") a log holds, as the naive model judges it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.model.naive_fold import NaiveFold
from tests.model.naive_records import ERASABLE, LogRecord, raw_members, scopes_of, subject_id, value_of

KEY_IN_TWO = "a key used in two sessions, one of them erased"
FORK_BEFORE = "a fork before its source's delete"
FORK_AFTER = "a fork after its source's delete"
UNKNOWN_DELETE = "a delete of an unknown key"
AROUND_DELETE = {
    "reset": "a reset before and after a delete",
    "general": "a clear of General before and after a delete",
    "room": "a clear of a room before and after a delete",
    "*": "a clear of the whole team before and after a delete",
}
REFUSED_BEFORE = "a refused record right before an ifPosition turn"
RESEND_WITH = "a resend after a delete, its original in the log"
RESEND_WITHOUT = "a resend after a delete, its original never there"
FENCED_LATE = "a fenced producer's record landing late"
CASES = (
    KEY_IN_TWO,
    FORK_BEFORE,
    FORK_AFTER,
    UNKNOWN_DELETE,
    *AROUND_DELETE.values(),
    REFUSED_BEFORE,
    RESEND_WITH,
    RESEND_WITHOUT,
    FENCED_LATE,
)


@dataclass(frozen=True)
class _Step:
    """One record, what became of it, its session's `last` before it, and whether the key had a row or a fence."""

    record: LogRecord
    fate: str
    last: int
    known: bool

    def is_applied(self, kind: str) -> bool:
        return self.fate == "applied" and self.record.type == kind


def cases_in(log: Sequence[LogRecord]) -> set[str]:
    """The cases of this log, counted only where they bear on the law: the session concerned has erased records."""
    fold = NaiveFold()
    steps = []
    for record in log:
        key = record.subject
        last, known = fold.session(key)["last"], key in fold.sessions or key in fold.fences
        fold.take(record)
        steps.append(_Step(record, fold.fates[record.offset], last, known))
    return {case for find in (_keys, _deletes, _forks, _refusals, _resends) for case in find(steps, fold)}


def _keys(steps: list[_Step], fold: NaiveFold) -> Iterator[str]:
    outbox = {row["offset"] for row in fold.outbox}
    uses = [
        (step.record.key_hash, step.record.subject, step.record.offset in outbox)
        for step in steps
        if step.fate == "applied" and step.record.key_hash is not None and step.record.type in ERASABLE
    ]
    if any(a[0] == b[0] and a[1] != b[1] and a[2] and not b[2] for a in uses for b in uses):
        yield KEY_IN_TWO
    if any(step.fate == "fenced" for step in steps):
        yield FENCED_LATE


def _deletes(steps: list[_Step], fold: NaiveFold) -> Iterator[str]:
    for delete in steps:
        if not delete.is_applied("session.deleted"):
            continue
        key, at = delete.record.subject, delete.record.offset
        if not delete.known and not any(s.record.subject == key and s.record.offset < at for s in steps):
            yield UNKNOWN_DELETE
        if not _has_erased(fold, key, before=at):
            continue
        before: set[str] = set()
        after: set[str] = set()
        for step in steps:
            if step.fate == "applied":
                (before if step.record.offset < at else after).update(_ends(step.record, key))
        yield from (AROUND_DELETE[scope] for scope in before & after)


def _ends(record: LogRecord, key: str) -> Iterator[str]:
    """The kind of reset or clear by which this record ends the key's context."""
    raw = raw_members((record.data or b"{}").decode())
    if record.type == "context.reset" and key in value_of(raw["sessionKeys"]):
        yield "reset"
    if record.type == "chat.cleared":
        scope: str = value_of(raw["scope"])
        if (value_of(raw["teamId"]), scope) in scopes_of(key):
            yield scope.partition(":")[0]


def _forks(steps: list[_Step], fold: NaiveFold) -> Iterator[str]:
    for fork in steps:
        if not fork.is_applied("session.forked"):
            continue
        source: str = value_of(raw_members((fork.record.data or b"").decode())["source"])
        # Only forks that are still in the tables can show a difference.
        if source == fork.record.subject or not fold.sessions.get(fork.record.subject, {}).get("fork"):
            continue
        for delete in steps:
            at = delete.record.offset
            deleted = delete.is_applied("session.deleted") and delete.record.subject == source
            if deleted and _has_erased(fold, source, before=at):
                yield FORK_BEFORE if fork.record.offset < at else FORK_AFTER


def _refusals(steps: list[_Step], fold: NaiveFold) -> Iterator[str]:
    for number, refused in enumerate(steps):
        if refused.fate != "gone":
            continue
        for turn in steps[number + 1 :]:
            same = turn.record.subject == refused.record.subject and turn.last == refused.last
            if same and turn.is_applied("turn.appended") and b'"ifPosition":' in (turn.record.data or b""):
                yield REFUSED_BEFORE


def _resends(steps: list[_Step], fold: NaiveFold) -> Iterator[str]:
    for resend in steps:
        record = resend.record
        if resend.fate != "gone" or record.attempt == 1 or record.sent_after is None:
            continue
        others = [step for step in steps if step.record.event_id == record.event_id and step is not resend]
        if not others:
            yield RESEND_WITHOUT
        if any(other.fate == "applied" and other.record.subject == record.subject for other in others):
            yield RESEND_WITH


def _has_erased(fold: NaiveFold, key: str, before: int) -> bool:
    return any(row["session_id"] == subject_id(key) and row["offset"] < before for row in fold.outbox)
