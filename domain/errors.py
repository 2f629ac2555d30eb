"""The one error tree.

    TurnlogError
    ├── BadInput            the caller sent something that can never work        400
    │   ├── TooLarge        a body or record beyond its limit                    413
    │   └── KeyReused       an idempotency key came back with another body       422
    ├── Conflict            a condition did not hold; the log decided            409
    │   └── Gone            the session was deleted at or after the request      410
    ├── NotYet              not applied within the wait; ask again               503
    ├── Unavailable         database, log or disk out of reach; retry            503
    │   └── OutcomeUnknown  an append that may or may not have happened          503
    └── Bug                 turnlog itself is wrong; never retried               500
        └── Unfoldable      a record the fold can't read; stops its partition    500

A category alone decides the HTTP status, whether a retry can help, and whether a record is a dead letter.
"""

from enum import Enum


class Category(Enum):
    """What kind of failure this is; see `HTTP_STATUS` and `RETRIABLE`."""

    BAD_INPUT = "bad input"
    TOO_LARGE = "too large"
    KEY_REUSED = "key reused"
    CONFLICT = "conflict"
    GONE = "gone"
    NOT_YET = "not yet"
    UNAVAILABLE = "unavailable"
    BUG = "bug"


HTTP_STATUS: dict[Category, int] = {
    Category.BAD_INPUT: 400,
    Category.TOO_LARGE: 413,
    Category.KEY_REUSED: 422,
    Category.CONFLICT: 409,
    Category.GONE: 410,
    Category.NOT_YET: 503,
    Category.UNAVAILABLE: 503,
    Category.BUG: 500,
}

RETRIABLE: frozenset[Category] = frozenset({Category.NOT_YET, Category.UNAVAILABLE})


class TurnlogError(Exception):
    """Root of the tree. `str(error)` is safe to show to a caller: it holds no message text and no token."""

    category: Category = Category.BUG

    @classmethod
    def status(cls) -> int:
        """The HTTP status of this kind of error."""
        return HTTP_STATUS[cls.category]


class BadInput(TurnlogError):  # noqa: N818 - the tree names conditions, not "errors"
    """The caller's input breaks a rule; the text names the field."""

    category = Category.BAD_INPUT


class TooLarge(BadInput):
    """A body (bytes), record (bytes) or batch (entries) beyond its limit."""

    category = Category.TOO_LARGE


class KeyReused(BadInput):
    """The idempotency key is known with another body."""

    category = Category.KEY_REUSED


class Conflict(TurnlogError):  # noqa: N818
    """A condition in the event did not hold when the fold judged it. `epoch` is the session's current one."""

    category = Category.CONFLICT

    def __init__(self, message: str, *, epoch: int | None = None) -> None:
        super().__init__(message)
        self.epoch = epoch


class Gone(Conflict):
    """The session was deleted at or after the time the request was first sent."""

    category = Category.GONE


class NotYet(TurnlogError):  # noqa: N818
    """The tables have not caught up within the allowed wait. `retry_after_s` is in seconds."""

    category = Category.NOT_YET

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unavailable(TurnlogError):  # noqa: N818
    """Something turnlog depends on is out of reach; the same call may work later."""

    category = Category.UNAVAILABLE


class OutcomeUnknown(Unavailable):
    """An append that was sent and never answered. It may still land: retry with the same idempotency key."""


class Misconfigured(Unavailable):
    """A setting, topic or data directory that turnlog refuses to run with; the text says what to set."""


class DataDirectoryInUse(Unavailable):
    """Another process has the data directory; the text names the directory and that process's pid."""


class Fenced(Unavailable):
    """Another projector owns the partition now; whatever this one was doing is void."""


class Bug(TurnlogError):  # noqa: N818
    """An invariant broke."""

    category = Category.BUG


class Unfoldable(Bug):
    """A record the fold can't read (bad schema, unknown type not marked ignorable): its partition stops there."""
