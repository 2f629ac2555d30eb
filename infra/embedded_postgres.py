"""A real PostgreSQL as a child process, which needs no installation, no root and no TCP port, and ends when we do.

The defaults keep every promise of a durable server (fsync, full page writes, checksums); what is tuned is who may reach
it (a unix socket in a directory of mode 0700) and what it logs (no statement, no value: chat text is personal data).
"""

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

import anyio
import asyncpg
import structlog
from anyio.abc import Process

from turnlog.domain.errors import Misconfigured, Unavailable
from turnlog.infra.postgres_binaries import PostgresBinaries, copy_bundle, find_postgres
from turnlog.infra.postgres_directory import PORT, PostgresDirectory
from turnlog.infra.postgres_launcher import WATCH_BY_PIPE, launcher_command

USER = "turnlog"
DATABASE = "turnlog"
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "wal_compression": "off",
    # Old WAL files are deleted instead of renamed for later use: they hold content that may have been erased.
    "wal_recycle": "off",
    "shared_buffers": "128MB",
    "jit": "off",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
    "cluster_name": "turnlog",
    # One file per weekday, overwritten a week later. ERROR ranks below LOG in log_min_messages: the text of a failed
    # statement's error can quote what a user wrote, and the client gets it anyway.
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgres-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
    "log_timezone": "UTC",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}
_STOP_STEPS = ((signal.SIGINT, 10.0), (signal.SIGQUIT, 8.0), (signal.SIGKILL, 5.0))
_PREVIOUS_SERVER_S = 30.0
_PROGRESS_S = 5.0
_CONNECT_S = 30.0
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A running server and how to connect to it; there is no password, the socket's directory is what protects it."""

    host: str
    """The socket's directory, as libpq and asyncpg take it."""
    version: str
    data_dir: Path
    _process: Process
    port: int = PORT
    user: str = USER
    database: str = DATABASE
    password: None = None

    @property
    def dsn(self) -> str:
        """`postgresql://…`, for asyncpg and libpq."""
        return f"postgresql://{self.user}@/{self.database}?host={quote(self.host, safe='')}&port={self.port}"

    @property
    def url(self) -> str:
        """`postgresql+asyncpg://…`, for SQLAlchemy."""
        return self.dsn.replace("postgresql://", "postgresql+asyncpg://", 1)

    @property
    def pid(self) -> int:
        """Process id of the server (of its watcher, where the system has no parent death signal)."""
        return self._process.pid

    async def wait_stopped(self) -> int:
        """Return the exit status once the server has ended; inside the context only a fault ends it."""
        return await self._process.wait()


@asynccontextmanager
async def embedded_postgres(
    data_dir: Path, *, settings: Mapping[str, str] | None = None, watch_by_pipe: bool = WATCH_BY_PIPE
) -> AsyncIterator[EmbeddedPostgres]:
    """Start the server on `<data_dir>/postgres`, creating the cluster the first time, and stop it on the way out.

    `settings` are PostgreSQL settings that go over `SETTINGS`. There is no time limit on recovery after a crash: it
    waits while the server is alive and says so every few seconds.

    Raises `DataDirectoryInUse` when another process has the directory; `Misconfigured` when the directory can't be
    used, holds another major version, or no programs are found; `Unavailable` when the server does not start.
    """
    directory = await anyio.to_thread.run_sync(PostgresDirectory.open, data_dir)
    try:
        socket = await anyio.to_thread.run_sync(directory.make_socket_directory)
        server_lock = await _previous_server_gone(directory)
        try:
            binaries = await _programs(directory, socket)
            if directory_is_new := await anyio.to_thread.run_sync(directory.major) is None:
                await _create_cluster(directory, binaries)
            before = await anyio.to_thread.run_sync(_before_start, directory, socket)
            chosen = {**SETTINGS, "unix_socket_directories": str(socket), **(settings or {})}
            process = await _launch(directory, binaries, chosen, server_lock, watch_by_pipe=watch_by_pipe)
        finally:
            server_lock.close()  # PostgreSQL holds it now
        try:
            server = EmbeddedPostgres(str(socket), binaries.version, directory.data_dir, process)
            await _wait_until_ready(directory, process, before)
            await _wait_until_connectable(server)
            _log.info("PostgreSQL is ready", version=server.version, data_dir=str(data_dir), new=directory_is_new)
            yield server
        finally:
            await _stop(process)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(directory.drop_socket_directory, socket)
    finally:
        directory.close()


async def _previous_server_gone(directory: PostgresDirectory) -> IO[bytes]:
    """The server lock, once the PostgreSQL of an owner that was killed has finished its shutdown (bounded)."""
    started = anyio.current_time()
    pid = ""
    while (lock := await anyio.to_thread.run_sync(directory.try_server_lock)) is None:
        waited = anyio.current_time() - started
        if waited > 1 and not pid:  # its log writer ends a moment after it
            pid = next(iter(await anyio.to_thread.run_sync(directory.postmaster)), "unknown")
            _log.info("waiting for the previous PostgreSQL to stop", pid=pid, data_dir=str(directory.data_dir))
        if waited > _PREVIOUS_SERVER_S:
            raise Unavailable(
                f"the PostgreSQL of a previous turnlog process (pid {pid}) on data directory {directory.data_dir} "
                f"has been shutting down for {_PREVIOUS_SERVER_S:.0f} s; try again, or end it"
            )
        await anyio.sleep(0.05)
    return lock


async def _programs(directory: PostgresDirectory, socket: Path) -> PostgresBinaries:
    """Programs of the cluster's version that the server's user can run."""
    existing = await anyio.to_thread.run_sync(directory.major)
    try:
        binaries = await find_postgres(existing)
    except Misconfigured as error:
        if existing is None:
            raise
        raise Misconfigured(
            f"data directory {directory.data_dir} was made by PostgreSQL {existing}, and another major version "
            f"can't open it: keep programs of version {existing}, or dump it with them and load it into a new "
            f"directory. {error}"
        ) from error
    if directory.user is None:
        return binaries
    places, programs = (directory.root, socket.parent), (binaries.initdb, binaries.postgres)
    closed = await _closed_to_user(directory, *places, *programs)
    if closed_place := next(filter(None, closed[: len(places)]), None):
        raise Misconfigured(
            f"PostgreSQL refuses to run as root, and as user {directory.user.name} it can't enter {closed_place}: "
            "choose with TURNLOG_DATA_DIR a data directory (and a TMPDIR) whose parents every user may enter, "
            "as /var/lib/turnlog"
        )
    if any(closed):
        if binaries.bundle is None:
            raise Misconfigured(f"user {directory.user.name}, which PostgreSQL runs as, can't enter {closed[-1]}")
        return await anyio.to_thread.run_sync(copy_bundle, binaries, directory.root / "programs")
    return binaries


async def _closed_to_user(directory: PostgresDirectory, *paths: Path) -> list[str]:
    """For each path what the server's user can't enter on the way to it, empty when nothing."""
    command = launcher_command(
        [], user=_ids(directory), death_signal=signal.SIGKILL, check=[str(path) for path in paths]
    )
    closed: list[str] = json.loads((await anyio.run_process(command, env=_environment())).stdout)
    return closed


async def _create_cluster(directory: PostgresDirectory, binaries: PostgresBinaries) -> None:
    """Run initdb beside the final place and rename, so that no kill leaves a half-made cluster behind."""
    _log.info("creating the PostgreSQL cluster", version=binaries.version, data_dir=str(directory.data_dir))
    partial = await anyio.to_thread.run_sync(directory.new_cluster)
    # Version 17 brought the builtin provider: code point order, the same on every system and C library.
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if binaries.major >= 17 else []
    initdb = [
        str(binaries.initdb), f"--pgdata={partial}", f"--username={USER}", "--encoding=UTF8", "--locale=C", *locale,
        "--data-checksums", "--auth-local=trust", "--auth-host=reject", "--no-instructions",
    ]  # fmt: skip
    command = launcher_command(initdb, user=_ids(directory), death_signal=signal.SIGTERM, watch=False)
    done = await anyio.run_process(command, check=False, env=_environment(), start_new_session=True)
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise Unavailable(f"can't create a PostgreSQL cluster in {directory.data_dir}: {' | '.join(last)}")
    await anyio.to_thread.run_sync(directory.install_cluster, partial)


def _before_start(directory: PostgresDirectory, socket: Path) -> list[str]:
    """Clear what a crash left behind; returns the identity that postmaster.pid holds before the start, if any."""
    directory.remove_stale_pid_file()
    directory.remove_stale_socket_lock(socket)
    directory.prune_log()
    return directory.postmaster()[:3]


async def _launch(
    directory: PostgresDirectory,
    binaries: PostgresBinaries,
    settings: Mapping[str, str],
    server_lock: IO[bytes],
    *,
    watch_by_pipe: bool,
) -> Process:
    options = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
    command = launcher_command(
        [str(binaries.postgres), "-D", str(directory.data), *options],
        user=_ids(directory),
        death_signal=signal.SIGINT,
        inherit=server_lock.fileno(),
        watch=watch_by_pipe,
    )
    startup_log = await anyio.to_thread.run_sync((directory.root / "startup.log").open, "wb")
    with startup_log:
        return await anyio.open_process(
            command,
            stdin=subprocess.PIPE if watch_by_pipe else subprocess.DEVNULL,
            stdout=startup_log,
            stderr=startup_log,
            env=_environment(),
            start_new_session=True,
            pass_fds=[server_lock.fileno()],
        )


async def _wait_until_ready(directory: PostgresDirectory, process: Process, before: Sequence[str]) -> None:
    """Wait for the status in the last line of postmaster.pid, as pg_ctl does, for as long as the server lives."""
    started = anyio.current_time()
    next_report = _PROGRESS_S
    while True:
        exited = process.returncode
        lines = await anyio.to_thread.run_sync(directory.postmaster)
        if exited is not None:
            reason = await anyio.to_thread.run_sync(directory.startup_failure)
            raise Unavailable(f"PostgreSQL did not start on {directory.data_dir} (exit status {exited}): {reason}")
        if len(lines) >= 8 and lines[:3] != before and lines[7].strip() == "ready":
            return
        waited = anyio.current_time() - started
        if waited >= next_report:
            next_report += _PROGRESS_S
            _log.info("PostgreSQL is starting; after a crash it recovers first", waited_s=round(waited))
        await anyio.sleep(0.01 if waited < 1 else 0.1)


async def _wait_until_connectable(server: EmbeddedPostgres) -> None:
    """Prove it with a real connection, and create the database where the first start did not get to it."""
    try:
        connection = await _connect(server, DATABASE)
    except asyncpg.InvalidCatalogNameError:
        maintenance = await _connect(server, "postgres")
        try:
            await maintenance.execute(f'CREATE DATABASE "{DATABASE}"')
        finally:
            await maintenance.close()
        connection = await _connect(server, DATABASE)
    await connection.close()


async def _connect(server: EmbeddedPostgres, database: str) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            password="",  # else asyncpg reads ~/.pgpass, which blocks the loop
            database=database,
            timeout=_CONNECT_S,
        )
    except (OSError, TimeoutError, asyncpg.CannotConnectNowError) as error:
        raise Unavailable(f"PostgreSQL on {server.data_dir} started but can't be connected to: {error}") from error


async def _stop(process: Process) -> None:
    """Fast shutdown, then immediate, then kill; each bounded, none of it cancellable."""
    for number, grace_s in _STOP_STEPS:
        if process.returncode is not None:
            return
        process.send_signal(number)
        with anyio.move_on_after(grace_s, shield=True):
            await process.wait()
            return
        _log.warning("PostgreSQL is slow to stop", signal=number.name, waited_s=grace_s)


def _ids(directory: PostgresDirectory) -> tuple[int, int] | None:
    return (directory.user.uid, directory.user.gid) if directory.user else None


def _environment() -> dict[str, str]:
    """What a program needs to load, and nothing else: no PG* variable, no token of ours."""
    kept = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"} | {
        name: os.environ[name] for name in kept if name in os.environ
    }
