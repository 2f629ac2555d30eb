"""A batch while it is being folded: the state as of the last judged record, and the changes so far."""

from uuid import UUID

from turnlog.domain.fold.decode import DecodedRecord
from turnlog.domain.fold.effects import Effects, EndingKind, OutboxRow, SessionChange
from turnlog.domain.fold.state import Judged, Loaded, SessionState
from turnlog.domain.positions import last_row_id, offset_of
from turnlog.domain.session_key import Scope, scopes_of, session_id


class Work:
    """The loaded state, taken over and changed record by record, with the effects it adds up to."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.effects = Effects()
        self._members: dict[Scope, dict[UUID, SessionState]] | None = None

    def session(self, key: str) -> SessionState:
        """The key's state; a key without a row starts from its fence and from the endings of its scopes.

        A fresh state stays out of the tables until `keep` is called with it.
        """
        id_ = session_id(key)
        state = self.loaded.sessions.get(id_)
        if state is not None:
            return state
        last_delete = self.loaded.fences.get(id_, 0)
        last_clear = max((self.loaded.clears.get(scope, 0) for scope in scopes_of(key)), default=0)
        floor = last_row_id(last_clear) if last_clear else 0
        return SessionState(
            key,
            id_,
            last_delete=last_delete,
            last_clear=last_clear,
            context_floor=floor,
            cleared_floor=floor,
            last=max(last_delete, last_clear),
        )

    def keep(self, state: SessionState) -> None:
        """Something was applied to this session: its row is written at the end of the batch."""
        if state.id in self.effects.sessions:
            return
        self.effects.sessions[state.id] = state
        if state.id not in self.loaded.sessions:
            self.loaded.sessions[state.id] = state
            if self._members is not None:
                self._enter(self._members, state)

    def forget(self, state: SessionState, offset: int) -> None:
        """The session was deleted at `offset`; only its fence stays. What this batch wrote for it goes in `settle`."""
        self.loaded.sessions.pop(state.id, None)
        self.loaded.entry_hashes.pop(state.id, None)
        self.loaded.fences[state.id] = offset
        self.effects.sessions.pop(state.id, None)
        self.effects.fences[state.id] = offset
        self.effects.deleted.add(state.id)
        if self._members is not None:
            for scope in scopes_of(state.key):
                self._members.get(scope, {}).pop(state.id, None)

    def members(self, scope: Scope) -> list[SessionState]:
        """The sessions of a scope that have a row, by key. Complete for the scopes that the batch clears."""
        if self._members is None:
            self._members = {}
            for state in self.loaded.sessions.values():
                self._enter(self._members, state)
        return sorted(self._members.get(scope, {}).values(), key=lambda state: state.key)

    @staticmethod
    def _enter(members: dict[Scope, dict[UUID, SessionState]], state: SessionState) -> None:
        for scope in scopes_of(state.key):
            members.setdefault(scope, {})[state.id] = state

    def first_verdict(self, at: DecodedRecord) -> Judged | None:
        """The first verdict on this event id or key hash, for the same subject and type."""
        first = self.loaded.judged.get((at.subject_id, at.type, at.event.id))
        if first is not None and not self._buried(at, first):
            return first
        if at.event.idempotency_key is None:
            return None
        first = self.loaded.judged_keys.get((at.subject_id, at.type, at.event.idempotency_key))
        return None if first is None or self._buried(at, first) else first

    def _buried(self, at: DecodedRecord, first: Judged) -> bool:
        """True if a delete in this batch took that record, and with it what was known of it."""
        return at.type.erasable and first.offset < self.loaded.fences.get(at.subject_id, 0)

    def remember(self, at: DecodedRecord, status: int, key_hash: bytes | None) -> None:
        """This event id (and key hash, if it is the first with it) is judged from here on."""
        judged = Judged(at.event.id, at.offset, status)
        self.loaded.judged[at.subject_id, at.type, at.event.id] = judged
        if key_hash is not None:
            self.loaded.judged_keys[at.subject_id, at.type, key_hash] = judged

    def is_fenced(self, producer: UUID | None, offset: int) -> bool:
        """True if the producer was fenced at an earlier position of this partition."""
        fenced_producers = self.loaded.fenced_producers
        if producer is None or not fenced_producers:
            return False
        return fenced_producers.get(producer, offset) < offset

    def fence_producer(self, producer: UUID, offset: int) -> None:
        """Records of this producer are ignored from here on; the first fence counts."""
        if producer not in self.loaded.fenced_producers:
            self.loaded.fenced_producers[producer] = self.effects.fenced_producers[producer] = offset

    def erase(self, at: DecodedRecord) -> None:
        """The record's value must go from the log."""
        self.effects.outbox.append(OutboxRow(at.offset, at.key, at.subject_id))

    def hint(self, key: str, at: DecodedRecord, what: EndingKind | None) -> None:
        """Tell open streams that a session changed."""
        self.effects.changes.append(SessionChange(key, at.offset, what))

    def settle(self) -> Effects:
        """The net effects. Rows that sessions got before they were deleted in this batch go; their records' keys move
        to the outbox.
        """
        effects, graves = self.effects, self.effects.fences
        if graves:
            effects.entries = [row for row in effects.entries if offset_of(row.row_id) > graves.get(row.session_id, -1)]
            effects.messages = [
                row for row in effects.messages if offset_of(row.row_id) > graves.get(row.session_id, -1)
            ]
            effects.attachments = [row for row in effects.attachments if row.offset > graves.get(row.session_id, -1)]
            kept = []
            for row in effects.index:
                if row.type.erasable and row.offset < graves.get(row.subject_id, -1):
                    effects.outbox.append(OutboxRow(row.offset, row.key, row.subject_id))
                else:
                    kept.append(row)
            effects.index = kept
        return effects
