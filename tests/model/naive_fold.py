"""The fold once more, rule by rule from fold.md, one record at a time on plain dicts, to compare the real one with.

Slow on purpose: every question is answered by looking through all rows. It shares no code with `domain/`.
"""

from collections.abc import Sequence
from typing import Any

from tests.model.naive_lease import release, take_lease
from tests.model.naive_records import (
    ERASABLE,
    TYPE_NUMBERS,
    LogRecord,
    entry_hash,
    number_of,
    raw_elements,
    raw_members,
    scopes_of,
    subject_id,
    text_of,
    usable_entry_id,
    value_of,
)

Row = dict[str, Any]
IN_CONTEXT, OUTSIDE_CONTEXT, SET_ASIDE = 0, 1, 2
RESET, CLEAR, DELETE = 1, 2, 3
ROWS = 4096
ALWAYS_AWAITED = {
    "context.reset",
    "chat.cleared",
    "session.deleted",
    "resumepoint.saved",
    "history.restored",
    "session.forked",
    "turn.started",
}
NEVER_ANSWERED = {"erasure.completed", "quarantine.decided", "producer.fenced"}


class NaiveFold:
    """The tables, as dicts and lists of dicts. Sessions are kept under their session keys."""

    def __init__(self) -> None:
        self.sessions: dict[str, Row] = {}
        self.fences: dict[str, int] = {}
        self.clears: dict[tuple[str, str], int] = {}
        self.entries: list[Row] = []
        self.messages: list[Row] = []
        self.attachments: list[Row] = []
        self.endings: list[Row] = []
        self.index: list[Row] = []
        self.fenced_producers: dict[str, int] = {}
        self.outbox: list[Row] = []
        self.verdicts: list[Row] = []
        self.fates: dict[int, str] = {}
        """Offset → applied, refused, gone, duplicate, fenced, or nothing."""

    def take_all(self, log: Sequence[LogRecord]) -> "NaiveFold":
        """Fold a whole log; returns itself."""
        for record in log:
            self.take(record)
        return self

    def take(self, record: LogRecord) -> None:
        """Fold one record."""
        self.fates[record.offset] = self._take(record)

    def _take(self, record: LogRecord) -> str:
        if record.data is None or record.type not in TYPE_NUMBERS:
            # Of types unknown to it, the fold gets to see only those that may be skipped.
            return "nothing"
        if record.producer is not None and record.producer in self.fenced_producers:
            self._to_outbox(record.offset, record.event_id, record.attempt, subject_id(record.subject))
            return "fenced"
        if record.type in ("genesis", "tick"):
            return "nothing"
        raw = raw_members(record.data.decode())
        if self._is_gone(record, raw):
            self._to_outbox(record.offset, record.event_id, record.attempt, subject_id(record.subject))
            self._answer(record, raw, 410)
            return "gone"
        first = self._first_like(record)
        if first is not None:
            self._to_index(record, first["status"], None)
            self._answer(record, raw, first["status"], first=first)
            return "duplicate"
        status, stored, keys = self._judge(record, raw)
        self._to_index(record, status, record.key_hash)
        self._answer(record, raw, status, stored=stored, session_keys=keys)
        return "refused" if status == 409 else "applied"

    def session(self, key: str) -> Row:
        """The key's row, or what a row of a key not seen yet would start from."""
        if key in self.sessions:
            return self.sessions[key]
        last_delete = self.fences.get(key, 0)
        last_clear = max((self.clears.get(scope, 0) for scope in scopes_of(key)), default=0)
        floor = last_clear * ROWS + ROWS - 1 if last_clear else 0
        return {
            "key": key,
            "last_delete": last_delete,
            "last_clear": last_clear,
            "last_reset": 0,
            "context_floor": floor,
            "cleared_floor": floor,
            "last": max(last_delete, last_clear),
            "visible_entries": 0,
            "total_entries": 0,
            "total_messages": 0,
            "replayed_entries": 0,
            "first_activity_ms": 0,
            "last_activity_ms": 0,
            "resume_point": None,
            "fork": None,
            "lease": None,
        }

    def epoch(self, key: str) -> int:
        """The position of the last ending that touched the key, 0 if none."""
        session = self.session(key)
        return int(max(session["last_delete"], session["last_clear"], session["last_reset"]))

    def _is_gone(self, record: LogRecord, raw: dict[str, str]) -> bool:
        if record.type not in ERASABLE:
            return False
        deleted_at = self.session(record.subject)["last_delete"]
        if deleted_at and record.sent_after is not None and record.sent_after <= deleted_at:
            return True
        epoch = number_of(raw, "epoch")
        return epoch is not None and epoch < deleted_at

    def _first_like(self, record: LogRecord) -> Row | None:
        """The first judged record with the same event id, else with the same key hash; of this subject and type."""
        alike = [
            row
            for row in self.index
            if row["subject_id"] == subject_id(record.subject) and row["type"] == TYPE_NUMBERS[record.type]
        ]
        for row in alike:
            if row["event_id"] == record.event_id:
                return row
        for row in alike:
            if record.key_hash is not None and row["key_hash"] == record.key_hash:
                return row
        return None

    def _judge(self, record: LogRecord, raw: dict[str, str]) -> tuple[int, int, list[str]]:
        """Rule 4: status, entries stored, session keys of a clear."""
        kind = record.type
        if kind == "chat.cleared":
            return 200, 0, self._clear(record, raw)
        if kind == "context.reset":
            return 200, self._reset(record, raw), []
        if kind == "session.deleted":
            self._delete(record, raw)
            return 200, 0, []
        if kind == "producer.fenced":
            self.fenced_producers.setdefault(value_of(raw["producer"]), record.offset)
            return 200, 0, []
        if kind in ERASABLE:
            return *self._judge_erasable(record, raw), []
        return 200, 0, []

    def _judge_erasable(self, record: LogRecord, raw: dict[str, str]) -> tuple[int, int]:
        kind, key, at = record.type, record.subject, record.offset
        session = self.session(key)
        epoch, current = number_of(raw, "epoch"), self.epoch(key)
        if epoch is not None and epoch > current:
            return 409, 0
        if epoch is not None and epoch != current and kind != "turn.appended":
            return 409, 0
        if number_of(raw, "ifPosition") not in (None, session["last"]):
            return 409, 0
        if kind == "session.forked" and self._listed(session):
            return 409, 0
        status = 200
        if kind == "turn.started":
            status, lease = take_lease(session["lease"], record, raw)
            if status == 409:
                return 409, 0
            session["lease"] = lease

        self.sessions[key] = session
        session["first_activity_ms"] = session["first_activity_ms"] or record.appended_ms
        session["last_activity_ms"] = max(session["last_activity_ms"], record.appended_ms)
        stored = 0
        if kind in ("turn.appended", "turn.started"):
            placement = IN_CONTEXT
            if epoch is not None and epoch < session["last_clear"]:
                placement = SET_ASIDE
            elif epoch is not None and epoch < session["last_reset"]:
                placement = OUTSIDE_CONTEXT
            entries = raw_elements(raw.get("entries", "[]"))
            stored = self._store_entries(record, key, entries, placement, text_of(raw, "gatewayUrl") or "")
            has_messages = raw.get("messages", "null") != "null"
            if has_messages:
                based_on = number_of(raw, "basedOn") if kind == "turn.appended" else None
                self._store_messages(record, raw_elements(raw["messages"]), len(entries), placement, based_on)
            else:
                session["replayed_entries"] += stored
            if stored or has_messages:
                session["last"] = at
            if placement == IN_CONTEXT and raw.get("resumePoint", "null") != "null":
                _set_resume_point(session, record, raw_members(raw["resumePoint"]))
        elif kind == "turn.released":
            session["lease"] = release(session["lease"], record, raw)
        elif kind == "history.restored":
            self._store_messages(record, raw_elements(raw["messages"]), 0, IN_CONTEXT)
            self.messages[-1]["restores"] = True
            session["context_floor"] = at * ROWS - 1
            session["resume_point"] = None
            session["last"] = at
        elif kind == "resumepoint.saved":
            _set_resume_point(session, record, raw)
        elif kind == "session.forked":
            session["fork"] = (text_of(raw, "source"), number_of(raw, "at"), at)
            session["last"] = at
        elif kind == "attachment.added":
            row: Row = {"session_id": subject_id(key), "offset": at, "message_id": text_of(raw, "messageId")}
            row |= {"name": text_of(raw, "name"), "mime_type": text_of(raw, "mimeType"), "size": number_of(raw, "size")}
            self.attachments.append(row | {"sha256": text_of(raw, "sha256")})
        return status, stored

    def _store_entries(self, record: LogRecord, key: str, entries: list[str], placement: int, gateway: str) -> int:
        stored = 0
        for number, text in enumerate(entries):
            entry_id = usable_entry_id(text)
            if entry_id is None:
                continue
            known = entry_hash(key, entry_id)
            if any(row["entry_hash"] == known for row in self.entries):
                continue
            row: Row = {"session_id": subject_id(key), "row_id": record.offset * ROWS + number, "entry_hash": known}
            row |= {"placement": placement, "arrived_ms": record.appended_ms, "gateway_url": gateway, "text": text}
            self.entries.append(row)
            stored += 1
        self.sessions[key]["total_entries"] += stored
        self.sessions[key]["visible_entries"] += stored if placement != SET_ASIDE else 0
        return stored

    def _store_messages(
        self, record: LogRecord, messages: list[str], after: int, placement: int, based_on: int | None = None
    ) -> None:
        row: Row = {"session_id": subject_id(record.subject), "row_id": record.offset * ROWS + after}
        row |= {"message_count": len(messages), "placement": placement, "text": "[" + ",".join(messages) + "]"}
        row |= {"based_on": based_on, "restores": False, "appended_ms": record.appended_ms}
        values = [value_of(message) for message in messages]
        row["user_messages"] = sum(isinstance(value, dict) and value.get("role") == "user" for value in values)
        self.messages.append(row)
        self.sessions[record.subject]["total_messages"] += len(messages)

    def _reset(self, record: LogRecord, raw: dict[str, str]) -> int:
        keys = list(dict.fromkeys(value_of(raw["sessionKeys"])))
        for ordinal, key in enumerate(keys):
            session = self.sessions[key] = self.session(key)
            session |= {"last_reset": record.offset, "last": record.offset, "resume_point": None, "lease": None}
            session["context_floor"] = record.offset * ROWS + ROWS - 1
            self._ended(record, ordinal, RESET, session_id=subject_id(key))
        notice = text_of(raw, "noticeKey")
        if notice is None or raw.get("divider", "null") == "null":
            return 0
        stored = self._store_entries(record, notice, [raw["divider"]], IN_CONTEXT, "")
        if usable_entry_id(raw["divider"]) is not None:
            session = self.sessions[notice]
            session["first_activity_ms"] = session["first_activity_ms"] or record.appended_ms
            session["last_activity_ms"] = max(session["last_activity_ms"], record.appended_ms)
        return stored

    def _clear(self, record: LogRecord, raw: dict[str, str]) -> list[str]:
        scope = (value_of(raw["teamId"]), value_of(raw["scope"]))
        keys = [key for key in self.sessions if scope in scopes_of(key)]
        listed = sorted(key for key in keys if self._listed(self.sessions[key]))
        floor = record.offset * ROWS + ROWS - 1
        for key in keys:
            self.sessions[key] |= {"last_clear": record.offset, "last": record.offset, "visible_entries": 0}
            self.sessions[key] |= {"context_floor": floor, "cleared_floor": floor, "resume_point": None, "lease": None}
        self.clears[scope] = record.offset
        self._ended(record, 0, CLEAR, scope=scope, cleared_at_ms=number_of(raw, "clearedAt"))
        return listed

    def _delete(self, record: LogRecord, raw: dict[str, str]) -> None:
        key, gone = record.subject, subject_id(record.subject)
        self.sessions.pop(key, None)
        self.fences[key] = record.offset
        self.entries = [row for row in self.entries if row["session_id"] != gone]
        self.messages = [row for row in self.messages if row["session_id"] != gone]
        self.attachments = [row for row in self.attachments if row["session_id"] != gone]
        erasable = {TYPE_NUMBERS[name] for name in ERASABLE}
        for row in self.index:
            if row["subject_id"] == gone and row["type"] in erasable:
                self._to_outbox(row["offset"], row["event_id"], row["attempt"], gone)
        self.index = [row for row in self.index if not (row["subject_id"] == gone and row["type"] in erasable)]
        # Who asked, as the event's data says, else as its envelope does.
        actor = record.actor if text_of(raw, "actor") is None else text_of(raw, "actor")
        self._ended(record, 0, DELETE, session_id=gone, actor=actor, reason=text_of(raw, "reason"))

    def _ended(self, record: LogRecord, ordinal: int, kind: int, **more: Any) -> None:  # noqa: ANN401 - row fields
        row: Row = {"offset": record.offset, "ordinal": ordinal, "kind": kind, "session_id": None, "scope": None}
        row |= {"actor": record.actor, "reason": None, "cleared_at_ms": None, "appended_ms": record.appended_ms}
        self.endings.append(row | more)

    def _listed(self, session: Row) -> bool:
        rows = session["total_entries"] + session["total_messages"]
        return bool(rows or session["resume_point"] is not None or session["fork"] is not None)

    def _to_outbox(self, offset: int, event_id: str, attempt: int, session: str) -> None:
        self.outbox.append({"offset": offset, "event_id": event_id, "attempt": attempt, "session_id": session})

    def _to_index(self, record: LogRecord, status: int, key_hash: bytes | None) -> None:
        row: Row = {"subject_id": subject_id(record.subject), "offset": record.offset, "event_id": record.event_id}
        row |= {"attempt": record.attempt, "key_hash": key_hash, "type": TYPE_NUMBERS[record.type], "status": status}
        self.index.append(row)

    def _answer(
        self,
        record: LogRecord,
        raw: dict[str, str],
        status: int,
        *,
        first: Row | None = None,
        stored: int = 0,
        session_keys: list[str] | None = None,
    ) -> None:
        if record.type in NEVER_ANSWERED:
            return
        conditions = [record.key_hash, record.sent_after]
        if record.type in ERASABLE:
            conditions += [number_of(raw, "epoch"), number_of(raw, "ifPosition")]
        row: Row = {"event_id": record.event_id, "subject_id": subject_id(record.subject), "status": status}
        row |= {"type": TYPE_NUMBERS[record.type], "key_hash": record.key_hash, "request_hash": record.request_hash}
        row |= {"offset": first["offset"] if first else record.offset, "first": first["event_id"] if first else None}
        row |= {"stored": stored, "session_keys": session_keys or []}
        row["epoch"] = self.epoch(record.subject) if record.type in ERASABLE else None
        row["awaited"] = record.type in ALWAYS_AWAITED or any(value is not None for value in conditions)
        self.verdicts.append(row)


def _set_resume_point(session: Row, record: LogRecord, raw: dict[str, str]) -> None:
    resume_id = text_of(raw, "resumeId")
    if resume_id is None:
        session["resume_point"] = None
    else:
        session["resume_point"] = (text_of(raw, "runtime"), resume_id, record.appended_ms, record.offset)
