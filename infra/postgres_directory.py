"""The embedded PostgreSQL's directory: its layout, who may use it, and what a crash can leave behind in it.

    <data_dir>/postgres/          ours
        owner.lock                flock held by the turnlog process; its text is that process's pid
        server.lock               flock held by PostgreSQL and all its children, so that it ends with the last of them
        startup.log               what PostgreSQL prints before its own log opens
        socket/                   mode 0700, the only way in (elsewhere when this path is too long for a socket)
        data/                     the cluster; renamed here whole once initdb is done
        programs/                 root only: a copy of programs that the server's user can't reach
        initdb-*/                 an initdb under way, or one that was killed

Functions here block (flock, stat, small reads): call them in a worker thread.
"""

import contextlib
import fcntl
import hashlib
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import platformdirs

from turnlog.domain.errors import DataDirectoryInUse, Misconfigured

PORT = 5432  # only part of the socket's name: nothing listens on TCP
# sun_path holds 104 bytes on macOS and 108 on Linux (unix(7)), the ending NUL included.
_LONGEST_SOCKET_PATH = 100
_LOG_AGE_S = 6 * 86_400
_LOG_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class OsUser:
    """The operating system user that PostgreSQL runs as."""

    name: str
    uid: int
    gid: int


def default_data_dir() -> Path:
    """`/var/lib/turnlog` for root (open to the server's unprivileged user), else the platform's user data directory."""
    return Path("/var/lib/turnlog") if os.geteuid() == 0 else platformdirs.user_data_path("turnlog", appauthor=False)


@dataclass(frozen=True, slots=True)
class PostgresDirectory:
    """`<data_dir>/postgres`, owned by this process from `open` until `close`."""

    data_dir: Path
    user: OsUser | None
    _owner_lock: IO[bytes]

    @classmethod
    def open(cls, data_dir: Path) -> "PostgresDirectory":
        """Create what is missing and take the owner lock.

        Raises `DataDirectoryInUse` when another process has it, `Misconfigured` when the directory can't be used.
        """
        data_dir = data_dir.absolute()
        root = data_dir / "postgres"
        try:
            _make_directories(root)
            user = _server_user(root / "data")
            owner_lock = (root / "owner.lock").open("a+b")
        except OSError as error:
            raise Misconfigured(f"can't use data directory {data_dir}: {error.filename}: {error.strerror}") from error
        if not _locked(owner_lock):
            owner = _pid_in(owner_lock)
            owner_lock.close()
            raise DataDirectoryInUse(
                f"data directory {data_dir} is in use by another turnlog process (pid {owner or 'unknown'}); "
                "stop that one, or choose another directory with TURNLOG_DATA_DIR"
            )
        owner_lock.truncate(0)
        owner_lock.write(b"%d\n" % os.getpid())
        owner_lock.flush()
        for leftover in root.glob("initdb-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        return cls(data_dir, user, owner_lock)

    def close(self) -> None:
        """Let another process have the directory."""
        self._owner_lock.truncate(0)
        self._owner_lock.close()

    @property
    def root(self) -> Path:
        """`<data_dir>/postgres`."""
        return self.data_dir / "postgres"

    @property
    def data(self) -> Path:
        """The cluster's own directory (PGDATA)."""
        return self.root / "data"

    def major(self) -> int | None:
        """Major version of the cluster, None before the first start; `Misconfigured` when `data` is no cluster."""
        try:
            return int((self.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            if self.data.exists():
                raise Misconfigured(f"{self.data} exists but is no PostgreSQL data directory") from None
            return None
        except ValueError as error:
            raise Misconfigured(f"{self.data / 'PG_VERSION'} names no version") from error

    def new_cluster(self) -> Path:
        """An empty directory of the server's user for initdb to fill; see `install_cluster`."""
        partial = Path(tempfile.mkdtemp(prefix="initdb-", dir=self.root))
        self._give_to_user(partial)
        return partial

    def install_cluster(self, partial: Path) -> None:
        """Make a finished cluster the one: a rename, made durable, so a crash leaves all of it or nothing."""
        partial.rename(self.data)
        handle = os.open(self.root, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def try_server_lock(self) -> IO[bytes] | None:
        """The server lock, or None while a PostgreSQL of a previous owner (or a child of it) still runs."""
        lock = (self.root / "server.lock").open("a+b")
        if _locked(lock):
            return lock
        lock.close()
        return None

    def postmaster(self) -> list[str]:
        """Lines of postmaster.pid (pid, data, start time, port, socket directory, …, status), empty without one."""
        try:
            return (self.data / "postmaster.pid").read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def remove_stale_pid_file(self) -> None:
        """Remove a postmaster.pid that names a live process which is not our server; needs the server lock.

        PostgreSQL refuses to start when the pid in it is alive, as any process's may be after a container restart.
        Raises `DataDirectoryInUse` when it really is a PostgreSQL on this directory, started by somebody else.
        """
        lines = self.postmaster()
        pid = abs(int(lines[0])) if lines and lines[0].lstrip("-").isdigit() else 0
        if pid == 0 or not _is_alive(pid):
            return  # PostgreSQL recognises these itself
        if _is_postgres_in(pid, self.data):
            raise DataDirectoryInUse(
                f"data directory {self.data_dir} is in use by a PostgreSQL that turnlog did not start (pid {pid})"
            )
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def remove_stale_socket_lock(self, socket: Path) -> None:
        """Remove what a killed server left beside its socket: the same refusal as above, for the same reason.

        Nobody else has a socket in this directory, and who has the server lock knows that ours is gone.
        """
        (socket / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)

    def prune_log(self) -> None:
        """Delete log files that a later weekday of the same name would append to, and oversized ones."""
        for path in (self.data / "log").glob("*.log"):
            state = path.lstat()
            if state.st_mtime < time.time() - _LOG_AGE_S or state.st_size > _LOG_BYTES:
                path.unlink(missing_ok=True)

    def startup_failure(self) -> str:
        """The last lines PostgreSQL printed or logged on its way down, for an error text."""
        newest = sorted((self.data / "log").glob("*.log"), key=lambda path: path.stat().st_mtime)[-1:]
        lines = [line for path in (self.root / "startup.log", *newest) for line in _last_lines(path)]
        fatal = [line for line in lines if re.search(r"FATAL|PANIC|error", line)]
        return " | ".join((fatal or lines)[-3:]) or "it printed nothing"

    def make_socket_directory(self) -> Path:
        """A directory of mode 0700 whose socket path fits the system's limit.

        Inside `root` when that is short enough, else a name in the temporary directory derived from `root`.
        """
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        short = f"turnlog-{os.geteuid()}-{digest}"
        for wanted in (self.root / "socket", Path(tempfile.gettempdir()) / short, Path("/tmp") / short):  # noqa: S108 - owner and type are checked
            # unix_socket_directories is a list: keep to characters that need no quoting in it.
            if _socket_fits(wanted) and re.fullmatch(r"[\w./+@-]+", str(wanted)):
                return self._private_directory(wanted)
        raise Misconfigured("no directory has a path short enough for a socket: set TMPDIR to a short one")

    def drop_socket_directory(self, path: Path) -> None:
        """Remove a socket directory outside `root`; what can't be removed stays."""
        if path.parent != self.root:
            with contextlib.suppress(OSError):
                path.rmdir()

    def _private_directory(self, path: Path) -> Path:
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            state = path.lstat()
            if not stat.S_ISDIR(state.st_mode) or state.st_uid not in {os.geteuid(), self._uid}:
                path = Path(tempfile.mkdtemp(prefix="turnlog-", dir=path.parent))  # somebody else took the name
        path.chmod(0o700)
        self._give_to_user(path)
        return path

    @property
    def _uid(self) -> int:
        return self.user.uid if self.user else os.geteuid()

    def _give_to_user(self, path: Path) -> None:
        if self.user:
            os.chown(path, self.user.uid, self.user.gid, follow_symlinks=False)


def _make_directories(path: Path) -> None:
    """Like `mkdir -p`; what is created can be entered by the server's user, whatever root's umask says."""
    mode = 0o711 if os.geteuid() == 0 else 0o700
    for directory in (*reversed(path.parents), path):
        if not directory.is_dir():
            directory.mkdir(mode=mode, exist_ok=True)
            directory.chmod(mode)


def _server_user(data: Path) -> OsUser | None:
    """None unless we are root: then the owner of an existing cluster, else `nobody`."""
    if os.geteuid() != 0:
        return None
    try:
        if data.exists():
            state = data.stat()
            if state.st_uid == 0:
                raise Misconfigured(f"{data} belongs to root, and PostgreSQL refuses to run as root: chown -R it")
            return OsUser(_user_name(state.st_uid), state.st_uid, state.st_gid)
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise Misconfigured("PostgreSQL refuses to run as root and there is no user nobody to run it as") from None
    return OsUser(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid_in(lock: IO[bytes]) -> int | None:
    """The pid a lock's owner wrote; it does so just after locking, so an empty file is read again for a while."""
    for _ in range(20):
        lock.seek(0)
        text = lock.read().strip()
        if text.isdigit():
            return int(text)
        time.sleep(0.025)
    return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # another user's can't be our server, and PostgreSQL ignores it
        return False
    return True


def _is_postgres_in(pid: int, data: Path) -> bool:
    """Whether `pid` is a PostgreSQL server whose working directory is `data`, as a postmaster's always is."""
    process = Path(f"/proc/{pid}")
    if not Path("/proc/self").exists():
        return _is_postgres_by_name(pid)
    try:
        name = (process / "comm").read_text()
        return name.startswith(("postgres", "postmaster")) and (process / "cwd").samefile(data)
    except OSError:  # gone, or another user's: then it can't be a server on our cluster, whose owner is the user
        return False


def _is_postgres_by_name(pid: int) -> bool:
    ps = subprocess.run(["/bin/ps", "-o", "comm=", "-p", str(pid)], capture_output=True, check=False)  # noqa: S603 - fixed command, a number
    return b"postgres" in ps.stdout or b"postmaster" in ps.stdout


def _socket_fits(directory: Path) -> bool:
    return len(os.fsencode(directory / f".s.PGSQL.{PORT}")) <= _LONGEST_SOCKET_PATH


def _last_lines(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            yield from file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return
