"""What applying one record came to."""

from typing import NamedTuple

CONTEXT_ENDED = "the context was ended meanwhile"
SESSION_DELETED = "the session was deleted meanwhile"
NOT_THE_LAST = "ifPosition is not the position of the session's last change"
RUN_ACTIVE = "another run of this session is active"
ALREADY_LISTED = "sessionKey already exists"


class Outcome(NamedTuple):
    """HTTP-like `status`, why if it was refused, the entries added, and the session keys a clear ended."""

    status: int
    error: str | None = None
    stored: int = 0
    session_keys: tuple[str, ...] = ()

    @property
    def applied(self) -> bool:
        """True unless the record was refused: a refused record moves nothing."""
        return self.status < 400


APPLIED = Outcome(200)
"""Applied, nothing else to say."""
