"""One connection to the database: how it is opened, which settings it runs with, and which servers are refused."""

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import asyncpg
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from turnlog.domain.errors import Misconfigured

LEDGER_SCHEMA = "turnlog"
OLDEST_SERVER = 16
"""Major version; `IS JSON` came with it."""
CONNECT_S = 10.0
STATEMENT_S = 30.0
"""How long one statement may take, waiting for locks included, on a connection that isn't patient."""
_ANSWER_S = STATEMENT_S + 5.0
_IDLE_IN_TRANSACTION_S = 60
_STATEMENTS_KEPT = 1024
_STATEMENT_BYTES_KEPT = 128 * 1024
_BY_KEY = {"enable_seqscan": "off", "enable_bitmapscan": "off", "plan_cache_mode": "force_generic_plan"}
"""Runtime statements look things up by key. A plan made while a table was small, or was never analysed, must not read
the whole table until autovacuum comes by; and the large ones aren't planned anew at every call."""
_SERVER_FACTS = """
SELECT current_setting('server_version_num')::int / 10000 AS major, current_setting('server_version') AS version,
  current_setting('fsync')::bool AS fsync, current_setting('full_page_writes')::bool AS full_page_writes
"""

Connection: TypeAlias = "asyncpg.Connection[Any]"

if TYPE_CHECKING:
    _DriverConnection = asyncpg.Connection[asyncpg.Record]
else:
    _DriverConnection = asyncpg.Connection  # generic in its stubs only


class PooledConnection(_DriverConnection):
    """A connection that goes back to the pool without a round trip, for nothing here leaves session state behind."""

    def get_reset_query(self) -> str:
        """No statement. A transaction left open is still rolled back, and listeners are dropped."""
        return ""


def driver_dsn(url: str) -> str:
    """The URL as asyncpg takes it (`postgresql://…`). Raises Misconfigured, without the password in its text."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise Misconfigured("TURNLOG_DATABASE_URL is not a URL: postgresql://user:password@host:5432/name") from None
    if parsed.drivername not in ("postgresql", "postgres", "postgresql+asyncpg"):
        raise Misconfigured(f"TURNLOG_DATABASE_URL must begin with postgresql://, not with {parsed.drivername}://")
    return parsed.set(drivername="postgresql").render_as_string(hide_password=False)


async def connect(dsn: str, *search_path: str, patient: bool = False, **options: Any) -> Connection:  # noqa: ANN401
    """Open a connection within `CONNECT_S`. Its commits wait for the disk, whatever the server's default is.

    `patient`: statements may take as long as they need (rewrites, hashes, migrations). `options` are for asyncpg.
    """
    settings = {
        "application_name": "turnlog",
        "search_path": ", ".join((*search_path, LEDGER_SCHEMA)),
        "synchronous_commit": "on",
        "default_transaction_isolation": "read committed",
        "statement_timeout": "0" if patient else f"{STATEMENT_S:.0f}s",
        "idle_in_transaction_session_timeout": f"{_IDLE_IN_TRANSACTION_S}s",
        "jit": "off",
        "timezone": "UTC",
    }
    if not patient:
        settings |= _BY_KEY
    connection = await asyncpg.connect(
        dsn,
        server_settings=settings,
        timeout=CONNECT_S,
        command_timeout=None if patient else _ANSWER_S,
        statement_cache_size=_STATEMENTS_KEPT,
        max_cached_statement_lifetime=0,
        max_cacheable_statement_size=_STATEMENT_BYTES_KEPT,
        **options,
    )
    return cast(Connection, connection)


async def check_server(connection: Connection) -> None:
    """Raise Misconfigured if this server is too old, or if a crash of it could lose acknowledged commits."""
    facts = await connection.fetchrow(_SERVER_FACTS)
    assert facts is not None  # noqa: S101 - a SELECT without FROM has one row
    if facts["major"] < OLDEST_SERVER:
        raise Misconfigured(f"PostgreSQL {facts['version']} is too old: turnlog needs {OLDEST_SERVER} or newer")
    for setting in ("fsync", "full_page_writes"):
        if not facts[setting]:
            raise Misconfigured(
                f"the PostgreSQL server runs with {setting} = off, so a crash can destroy what was acknowledged: "
                f"set {setting} = on in its postgresql.conf and reload it"
            )
