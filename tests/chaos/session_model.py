"""What clients may see of sessions after each operation, in a few lines of plain Python; positions are offsets."""

from dataclasses import dataclass, field

from tests.model.naive_records import scopes_of


@dataclass
class Session:
    """One session key. `known` are the entry ids since its last delete, cleared ones included."""

    key: str
    shown: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    resume_id: str | None = None
    last_delete: int = 0
    last_clear: int = 0
    last_reset: int = 0

    @property
    def epoch(self) -> int:
        """The last ending that touched it."""
        return max(self.last_delete, self.last_clear, self.last_reset)

    @property
    def listed(self) -> bool:
        """Whether a clear names it."""
        return bool(self.known or self.resume_id)


class SessionModel:
    """All sessions. Every method is one applied event at `at`."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.sessions = {key: Session(key) for key in keys}

    def save(self, key: str, entry_ids: list[str], *, epoch: int | None = None) -> None:
        """A turn, begun under `epoch` if that is given; an entry id counts once."""
        session = self.sessions[key]
        if epoch is not None and epoch < session.last_delete:
            return
        for entry_id in entry_ids:
            if entry_id not in session.known:
                session.known.add(entry_id)
                if epoch is None or epoch >= session.last_clear:
                    session.shown.append(entry_id)

    def reset(self, keys: list[str], at: int) -> None:
        """No message moves."""
        for key in keys:
            self.sessions[key].last_reset = at
            self.sessions[key].resume_id = None

    def clear(self, team: str, scope: str, at: int) -> list[str]:
        """Nothing of the scope is shown any more, and nothing comes back; which sessions it named."""
        ended = [session for session in self.sessions.values() if (team, scope) in scopes_of(session.key)]
        listed = sorted(session.key for session in ended if session.listed)
        for session in ended:
            session.last_clear = at
            session.shown = []
            session.resume_id = None
        return listed

    def delete(self, key: str, at: int) -> None:
        """As if it had never been, except for its epoch."""
        before = self.sessions[key]
        self.sessions[key] = Session(key, last_delete=at, last_clear=before.last_clear, last_reset=0)

    def resume(self, key: str, resume_id: str) -> None:
        """The context continues from there."""
        self.sessions[key].resume_id = resume_id
