"""Driver errors to errors of the tree, in one place. The texts never hold row values."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from turnlog.domain.errors import Bug, TurnlogError, Unavailable

_UNREACHABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.CannotConnectNowError,
    asyncpg.InterfaceError,
    asyncpg.ObjectInUseError,
    asyncpg.LockNotAvailableError,
    OSError,
    TimeoutError,
)
"""Classes 08, 53, 57, 40, 55 and what the driver and the socket raise when the server is out of reach."""


@contextmanager
def translated() -> Iterator[None]:
    """Raise Unavailable for what a retry may mend, Bug for any other database error."""
    try:
        yield
    except TurnlogError:
        raise
    except _UNREACHABLE as error:
        raise Unavailable(f"the database is out of reach ({_name(error)})") from error
    except asyncpg.PostgresError as error:
        raise Bug(f"the database refused a statement ({_name(error)})") from error


def _name(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None)
    return f"{type(error).__name__} {state}" if state else type(error).__name__
