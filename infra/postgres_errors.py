"""Errors of the database driver, translated into the one tree. The only place that knows SQLSTATEs.

No translated text holds a row's values: the server's messages and details can quote what somebody wrote.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from sqlalchemy import ExceptionContext, event
from sqlalchemy.ext.asyncio import AsyncEngine

from turnlog.domain.errors import Bug, Misconfigured, TurnlogError, Unavailable

# https://www.postgresql.org/docs/current/errcodes-appendix.html
_CONNECTION_LOST = ("08", "57P", "25P03")
# 55000: the database accepts no connections, which an operator has asked for and will end.
_BUSY_OR_BROKEN = ("53", "58", "40001", "40P01", "55P03", "55000", "25006")
_QUERY_CANCELED = "57014"
_REFUSED = {
    "28": "the database refuses the user or password: check TURNLOG_DATABASE_URL",
    "3D000": "the database named in TURNLOG_DATABASE_URL does not exist: create it",
    "42501": "the database user lacks a privilege: it must own the database, or at least the schemas turnlog*",
}
DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
_DRIVER_CLOSED = ("closed", "closing", "released back", "not connected")


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of asyncpg and of the network into errors of the tree.

    Raises Unavailable if a later try may work, Misconfigured if a setting must change, Bug for anything else that the
    database refuses. Errors of the tree and those that have nothing to do with a database pass as they are.
    """
    try:
        yield
    except TurnlogError:
        raise
    except DRIVER_ERRORS as error:
        raise _translation(error) from error


def translate_errors_of(engine: AsyncEngine) -> None:
    """The same for whatever is executed through this engine. Connecting is up to its creator."""
    event.listen(engine.sync_engine, "handle_error", _on_engine_error)


def connection_was_lost(error: Unavailable) -> bool:
    """Whether a translated error says that the connection itself is gone, so that another one may serve at once."""
    cause = error.__cause__
    if isinstance(cause, asyncpg.PostgresError):
        return _state(cause).startswith(_CONNECTION_LOST)
    lost = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
    return isinstance(cause, lost) and not isinstance(cause, TimeoutError)


def table_was_missing(error: Bug) -> bool:
    """Whether a translated error says that a table that a statement names isn't there (any more)."""
    return isinstance(error.__cause__, asyncpg.UndefinedTableError)


def _on_engine_error(context: ExceptionContext) -> None:
    error = context.original_exception
    driver_error = error.__cause__ or error  # the dialect wraps the driver's
    if isinstance(driver_error, DRIVER_ERRORS):
        raise _translation(driver_error) from driver_error


def _translation(error: BaseException) -> TurnlogError:
    match error:
        case asyncpg.PostgresError():
            return _of_server(error)
        case asyncpg.exceptions.ClientConfigurationError():
            return Misconfigured(f"TURNLOG_DATABASE_URL can't be used: {error}")
        case asyncpg.InterfaceError() if any(word in str(error) for word in _DRIVER_CLOSED):
            return Unavailable("the database connection is closed")
        case asyncpg.InternalClientError():
            # The server ended an idle connection and the driver has read its last words, but not yet the end.
            return Unavailable("the database connection broke")
        case TimeoutError():
            return Unavailable("the database did not answer in time")
        case OSError():
            return Unavailable(f"the database can't be reached: {error.strerror or type(error).__name__}")
        case _:
            # A client side DataError quotes the argument that it can't encode.
            return Bug(f"the database driver refused a call: {type(error).__name__}")


def _of_server(error: asyncpg.PostgresError) -> TurnlogError:
    state = _state(error)
    if state == _QUERY_CANCELED:
        return Unavailable("the database did not finish a statement in time")
    if state.startswith(_CONNECTION_LOST) or state.startswith(_BUSY_OR_BROKEN):
        return Unavailable(f"the database is unavailable (SQLSTATE {state}, {type(error).__name__})")
    for prefix, advice in _REFUSED.items():
        if state.startswith(prefix):
            return Misconfigured(f"{advice} (SQLSTATE {state})")
    place = getattr(error, "constraint_name", None) or getattr(error, "table_name", None)
    return Bug(f"the database refused a statement: SQLSTATE {state} ({type(error).__name__})" + _on(place))


def _state(error: asyncpg.PostgresError) -> str:
    return getattr(error, "sqlstate", None) or "?"


def _on(place: str | None) -> str:
    return f" on {place}" if place else ""
