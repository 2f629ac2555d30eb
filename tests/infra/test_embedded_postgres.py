"""The embedded PostgreSQL, proven by killing it and its owner in every phase."""

import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import asyncpg
import platformdirs
import psutil
import pytest
from anyio.streams.text import TextReceiveStream
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

import turnlog
from tests.postgres_server import temporary_data_dir
from turnlog.domain.errors import Category, DataDirectoryInUse, Misconfigured, Unavailable
from turnlog.infra import postgres_binaries, postgres_directory
from turnlog.infra.embedded_postgres import embedded_postgres
from turnlog.infra.postgres_binaries import find_postgres

AS_ROOT = os.geteuid() == 0
OWNER_SCRIPT = Path(__file__).with_name("embedded_postgres_owner.py")


@pytest.fixture
def empty_dir() -> Iterator[Path]:
    """For the tests of a first start."""
    with temporary_data_dir() as path:
        yield path


@pytest.fixture(scope="session")
async def stopped_cluster() -> AsyncIterator[Path]:
    with temporary_data_dir() as path:
        async with embedded_postgres(path):
            pass
        yield path


@pytest.fixture
async def data_dir(stopped_cluster: Path, empty_dir: Path) -> Path:
    """A copy of a cluster that was started once, which is cheaper to have than a first start."""
    await anyio.run_process(["cp", "-a", f"{stopped_cluster}/postgres", str(empty_dir)])
    return empty_dir


@dataclass
class Owner:
    """Another process that started, or failed to start, the server."""

    process: anyio.abc.Process
    said: dict[str, str]

    @property
    def dsn(self) -> str:
        return self.said["dsn"]

    @property
    def server_pid(self) -> int:
        return int(self.said["pid"])


@asynccontextmanager
async def owner_process(
    data_dir: Path, *arguments: str, python: str = sys.executable, user: int | None = None
) -> AsyncIterator[anyio.abc.Process]:
    """The owner script in a process of its own; it gets end of file at the end, and must then leave by itself."""
    source = Path(turnlog.__file__).parent.parent
    packages = Path(anyio.__file__).parent.parent
    process = await anyio.open_process(
        [python, str(OWNER_SCRIPT), str(data_dir), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None,
        cwd="/",
        env={"PATH": os.defpath, "PYTHONPATH": f"{source}:{packages}", "PYTHONDONTWRITEBYTECODE": "1"},
        user=user,
        group=user,
        extra_groups=[] if user else None,
    )
    async with process:
        yield process
        assert process.stdin is not None
        await process.stdin.aclose()
        with anyio.fail_after(30):
            await process.wait()


@asynccontextmanager
async def other_process(command: list[str], *, user: int | None) -> AsyncIterator[anyio.abc.Process]:
    """A process that is not turnlog's, of the given user, interrupted at the end."""
    null = subprocess.DEVNULL
    process = await anyio.open_process(command, user=user, group=user, stdin=null, stdout=null, stderr=null, cwd="/")
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        with anyio.move_on_after(10, shield=True):
            await process.wait()


async def what_it_said(process: anyio.abc.Process) -> Owner:
    """Wait for the owner's one line."""
    assert process.stdout is not None
    said = ""
    with anyio.fail_after(60):
        async for part in TextReceiveStream(process.stdout):
            said += part
            lines = [line for line in said.splitlines() if line.startswith("{")]
            if lines and said.endswith("\n"):
                return Owner(process, json.loads(lines[0]))
    raise AssertionError(f"the owner ended with {process.returncode} and said {said!r}")


async def eventually(condition: Callable[[], Awaitable[bool] | bool], within_s: float = 15) -> None:
    with anyio.fail_after(within_s):
        while True:
            holds = condition()
            if holds is True or (not isinstance(holds, bool) and await holds):
                return
            await anyio.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def mode_of(path: Path) -> int | None:
    """Permission bits, None when there is nothing."""
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else None


async def write_row(dsn: str, value: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE IF NOT EXISTS kept (value text)")
    await connection.execute("INSERT INTO kept VALUES ($1)", value)
    await connection.close()


async def rows(dsn: str) -> list[str]:
    connection = await asyncpg.connect(dsn)
    found = await connection.fetch("SELECT value FROM kept ORDER BY value")
    await connection.close()
    return [row["value"] for row in found]


async def test_a_first_start_gives_a_durable_server_that_only_its_socket_directory_leads_to(empty_dir: Path) -> None:
    async with embedded_postgres(empty_dir) as server:
        connection = await asyncpg.connect(
            host=server.host, port=server.port, user=server.user, database=server.database, password=server.password
        )
        shown = {
            name: await connection.fetchval("SELECT current_setting($1)", name)
            for name in ("fsync", "synchronous_commit", "full_page_writes", "data_checksums", "listen_addresses")
        }
        provider = await connection.fetchrow(
            "SELECT datlocprovider, pg_encoding_to_char(encoding) AS encoding FROM pg_database WHERE datname = $1",
            server.database,
        )
        await connection.close()
        engine = create_async_engine(server.url)
        async with engine.connect() as by_sqlalchemy:
            assert (await by_sqlalchemy.execute(text("SELECT current_database()"))).scalar_one() == "turnlog"
        await engine.dispose()
        socket_mode = mode_of(Path(server.host))
        listening = psutil.Process(server.pid).net_connections(kind="inet")
    assert shown == {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "data_checksums": "on",
        "listen_addresses": "",
    }
    assert provider is not None
    assert provider["encoding"] == "UTF8"
    assert provider["datlocprovider"] in (b"b", b"c")
    assert socket_mode == 0o700
    assert listening == []


async def test_a_restart_finds_its_data(data_dir: Path) -> None:
    for value in ("first", "second"):
        async with embedded_postgres(data_dir) as server:
            await write_row(server.dsn, value)
            pid = server.pid
        assert not is_running(pid)
    async with embedded_postgres(data_dir) as server:
        assert await rows(server.dsn) == ["first", "second"]


async def test_a_second_start_names_the_directory_and_the_process_that_has_it(data_dir: Path) -> None:
    async with embedded_postgres(data_dir) as server:
        async with owner_process(data_dir) as process:
            refused = await what_it_said(process)
        with pytest.raises(DataDirectoryInUse, match=f"pid {os.getpid()}"):
            async with embedded_postgres(data_dir):
                pass
        await write_row(server.dsn, "unharmed")
        assert await rows(server.dsn) == ["unharmed"]
    assert refused.said["error"] == "DataDirectoryInUse"
    assert refused.said["category"] == Category.UNAVAILABLE.value
    assert f"data directory {data_dir} is in use by another turnlog process (pid {os.getpid()})" in refused.said["text"]


async def test_of_two_first_starts_at_once_one_wins_and_the_other_is_told_so(empty_dir: Path) -> None:
    async with owner_process(empty_dir) as one, owner_process(empty_dir) as other:
        outcomes = [await what_it_said(one), await what_it_said(other)]
        winner, loser = sorted(outcomes, key=lambda owner: "error" in owner.said)
        await write_row(winner.dsn, "won")
        assert loser.said["error"] == "DataDirectoryInUse"
        assert f"(pid {winner.process.pid})" in loser.said["text"]


@pytest.mark.parametrize("how", ["death signal", "watch"])
async def test_when_its_owner_is_killed_the_server_stops_and_the_next_start_has_the_data(
    data_dir: Path, how: str
) -> None:
    async with owner_process(data_dir, how) as process:
        owner = await what_it_said(process)
        await write_row(owner.dsn, "acknowledged")
        children = [child.pid for child in psutil.Process(owner.server_pid).children(recursive=True)]
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await eventually(lambda: not any(map(is_running, (owner.server_pid, *children))))
    async with embedded_postgres(data_dir) as server:
        assert await rows(server.dsn) == ["acknowledged"]


async def test_a_start_waits_for_the_previous_owners_server_to_finish_its_shutdown(data_dir: Path) -> None:
    async with owner_process(data_dir) as process:
        owner = await what_it_said(process)
        await write_row(owner.dsn, "acknowledged")
        os.kill(owner.server_pid, signal.SIGSTOP)
        process.send_signal(signal.SIGKILL)
        await process.wait()
    async with owner_process(data_dir) as successor:
        await eventually(lambda: _is_owner(data_dir, successor.pid))
        with anyio.move_on_after(0.5):
            early = await what_it_said(successor)
            raise AssertionError(f"did not wait: {early.said}")
        assert is_running(owner.server_pid)
        os.kill(owner.server_pid, signal.SIGCONT)
        assert await rows((await what_it_said(successor)).dsn) == ["acknowledged"]


def _is_owner(data_dir: Path, pid: int) -> bool:
    return (data_dir / "postgres" / "owner.lock").read_text().strip() == str(pid)


async def test_a_server_killed_with_all_its_processes_is_noticed_and_recovers(data_dir: Path) -> None:
    async with embedded_postgres(data_dir) as server:
        await write_row(server.dsn, "acknowledged")
        for process in (psutil.Process(server.pid), *psutil.Process(server.pid).children()):
            process.kill()
        with anyio.fail_after(10):
            assert await server.wait_stopped() == -signal.SIGKILL
    assert (data_dir / "postgres" / "data" / "postmaster.pid").exists()
    async with embedded_postgres(data_dir) as server:
        assert await rows(server.dsn) == ["acknowledged"]


async def test_stale_lock_files_that_name_an_unrelated_live_process_do_not_block(data_dir: Path) -> None:
    async with embedded_postgres(data_dir) as server:
        await write_row(server.dsn, "kept")
        data = data_dir / "postgres" / "data"
        pid_file = (data / "postmaster.pid").read_text()
        socket_lock = Path(server.host) / f".s.PGSQL.{server.port}.lock"
        lock_file = socket_lock.read_text()
    # The same user's process, as after a container restart; PostgreSQL ignores other users' by itself.
    user = data.stat().st_uid if AS_ROOT else None
    async with other_process(["/bin/sleep", "60"], user=user) as bystander:
        (data / "postmaster.pid").write_text(f"{bystander.pid}\n" + pid_file.partition("\n")[2])
        socket_lock.write_text(f"{bystander.pid}\n" + lock_file.partition("\n")[2])
        async with embedded_postgres(data_dir) as server:
            assert await rows(server.dsn) == ["kept"]


async def test_a_server_that_somebody_else_started_on_the_directory_is_left_alone(data_dir: Path) -> None:
    async with embedded_postgres(data_dir) as server:
        postgres = psutil.Process(server.pid).exe()
    data = data_dir / "postgres" / "data"
    user = data.stat().st_uid if AS_ROOT else None
    foreign = [postgres, "-D", str(data), "-c", "listen_addresses=", "-k", str(data)]
    async with other_process(foreign, user=user) as process:
        await eventually(
            lambda: (data / "postmaster.pid").exists() and "ready" in (data / "postmaster.pid").read_text()
        )
        with pytest.raises(DataDirectoryInUse, match=rf"did not start \(pid {process.pid}\)"):
            async with embedded_postgres(data_dir):
                pass
        assert is_running(process.pid)


async def test_an_owner_killed_during_initdb_leaves_a_directory_that_starts(empty_dir: Path) -> None:
    for attempt in range(10):
        data_dir = empty_dir / str(attempt)
        root = data_dir / "postgres"
        async with owner_process(data_dir) as process:
            await eventually(partial(_initdb_got_somewhere, root))
            process.send_signal(signal.SIGKILL)
            await process.wait()
        if not (root / "data").exists():
            break
    assert not (root / "data").exists(), "initdb was never met in the middle"
    async with embedded_postgres(data_dir) as server:
        await write_row(server.dsn, "started")
        assert await rows(server.dsn) == ["started"]
    await eventually(lambda: not any(root.glob("initdb-*")))


def _initdb_got_somewhere(root: Path) -> bool:
    return any(root.glob("initdb-*/base")) or (root / "data").exists()


@pytest.mark.parametrize("after_s", [0.02, 0.2, 0.6])
async def test_a_start_that_is_cancelled_leaves_nothing_running(empty_dir: Path, after_s: float) -> None:
    with anyio.move_on_after(after_s):
        async with embedded_postgres(empty_dir):
            await anyio.sleep_forever()
    assert [child for child in psutil.Process().children(recursive=True) if str(empty_dir) in _command(child)] == []
    async with embedded_postgres(empty_dir) as server:
        await write_row(server.dsn, "started")
        assert await rows(server.dsn) == ["started"]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


@pytest.mark.parametrize("name", ["long" * 30, "an odd, 'quoted' name"])
async def test_a_data_directory_unfit_for_a_socket_gets_a_private_one_elsewhere(empty_dir: Path, name: str) -> None:
    deep = empty_dir / name
    async with embedded_postgres(deep) as server:
        await write_row(server.dsn, "kept")
        socket = Path(server.host)
        assert len(server.host) < 90
        assert mode_of(socket) == 0o700
    assert mode_of(socket) is None
    async with embedded_postgres(deep) as server:
        assert server.host == str(socket)
        assert await rows(server.dsn) == ["kept"]


async def test_a_directory_that_the_servers_user_cannot_use_is_named(empty_dir: Path) -> None:
    closed = empty_dir / "closed"
    closed.mkdir(mode=0o700 if AS_ROOT else 0o500)
    with pytest.raises(Misconfigured, match=str(closed)):
        async with embedded_postgres(closed / "data"):
            pass
    assert mode_of(closed) == (0o700 if AS_ROOT else 0o500)


async def test_programs_that_the_servers_user_cannot_reach_are_copied(
    empty_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = (await find_postgres()).bundle
    assert bundle is not None
    private = empty_dir / "private"
    private.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(bundle / name, private / name)
    monkeypatch.syspath_prepend(str(private))
    for _ in ("copied", "used again"):
        async with embedded_postgres(empty_dir) as server:
            running = Path(psutil.Process(server.pid).exe())
            await write_row(server.dsn, "kept")
    assert running.is_relative_to(empty_dir / "postgres" / "programs" if AS_ROOT else private)


async def test_a_cluster_of_another_major_version_is_refused(data_dir: Path) -> None:
    async with embedded_postgres(data_dir) as server:
        ours = server.version
    version = data_dir / "postgres" / "data" / "PG_VERSION"
    before = version.read_text()
    version.write_text("99\n")
    with pytest.raises(Misconfigured, match=rf"{data_dir} was made by PostgreSQL 99, .* can't open it.*{ours}"):
        async with embedded_postgres(data_dir):
            pass
    version.write_text(before)
    async with embedded_postgres(data_dir) as server:
        assert server.version == ours


async def test_programs_older_than_16_or_that_do_not_run_are_not_used(
    empty_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, body in (("initdb", "#!/bin/sh\n"), ("postgres", "#!/bin/sh\necho 'postgres (PostgreSQL) 15.18 (X)'\n")):
        (empty_dir / name).write_text(body)
        (empty_dir / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(empty_dir))
    monkeypatch.setattr(postgres_binaries, "_WHEEL", "not-installed-here")
    monkeypatch.setattr(postgres_binaries, "_SYSTEM_PATTERNS", ())
    with pytest.raises(Misconfigured, match=rf"no PostgreSQL 16 or newer found: .*{empty_dir} \(15\.18\)") as raised:
        await find_postgres()
    assert raised.value.category is Category.UNAVAILABLE
    (empty_dir / "postgres").write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 17beta2'\n")
    assert (await find_postgres()).major == 17
    (empty_dir / "postgres").write_text("no program")
    with pytest.raises(Misconfigured, match="does not run here"):
        await find_postgres()


async def test_a_server_that_can_not_start_says_why(data_dir: Path) -> None:
    with pytest.raises(Unavailable, match=r"did not start .*shared_buffers"):
        async with embedded_postgres(data_dir, settings={"shared_buffers": "1kB"}):
            pass
    async with embedded_postgres(data_dir) as server:
        assert is_running(server.pid)


async def test_no_text_of_a_statement_reaches_the_log(data_dir: Path) -> None:
    canary = "what the user wrote"
    async with embedded_postgres(data_dir) as server:
        connection = await asyncpg.connect(server.dsn)
        await connection.execute("CREATE TABLE once (value text PRIMARY KEY)")
        await connection.execute("INSERT INTO once VALUES ($1)", canary)
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.execute("INSERT INTO once VALUES ($1)", canary)
        with pytest.raises(asyncpg.InvalidTextRepresentationError):
            await connection.execute(f"SELECT '{canary}'::int")
        await connection.close()
    written = [path.read_text() for path in (data_dir / "postgres" / "data" / "log").iterdir()]
    assert any("database system is ready" in log for log in written)
    assert not any(canary in log for log in written)


async def test_old_and_oversized_logs_are_deleted_at_the_next_start(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with embedded_postgres(data_dir):
        pass
    log = data_dir / "postgres" / "data" / "log"
    (log / "postgres-old.log").write_text("last week's")
    os.utime(log / "postgres-old.log", (0, 0))
    (log / "postgres-big.log").write_bytes(bytes(5000))
    (log / "postgres-new.log").write_text("yesterday's")
    monkeypatch.setattr(postgres_directory, "_LOG_BYTES", 4096)
    async with embedded_postgres(data_dir):
        kept = {path.name for path in log.iterdir()}
    assert "postgres-new.log" in kept
    assert kept.isdisjoint({"postgres-old.log", "postgres-big.log"})


async def test_a_user_who_is_not_root_needs_nothing_more(empty_dir: Path) -> None:
    """Whoever runs the tests: root becomes `nobody` for it, with an interpreter that `nobody` may execute."""
    python, user = sys.executable, None
    if AS_ROOT:
        user = pwd.getpwnam("nobody").pw_uid
        python = await _interpreter_for(user)
        os.chown(empty_dir, user, user)
    home = empty_dir / "home"
    async with owner_process(home, python=python, user=user) as process:
        owner = await what_it_said(process)
        assert psutil.Process(owner.server_pid).uids().real == (user or os.getuid())
        await write_row(owner.dsn, "kept")
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await eventually(lambda: not is_running(owner.server_pid))
    assert mode_of(home) == 0o700
    async with owner_process(home, python=python, user=user) as process:
        assert await rows((await what_it_said(process)).dsn) == ["kept"]


async def _interpreter_for(user: int) -> str:
    wanted = f"{sys.version_info.major}.{sys.version_info.minor}"
    probe = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in (sys.executable, shutil.which("python3", path="/usr/bin"), shutil.which(f"python{wanted}")):
        try:
            done = await anyio.run_process(
                [candidate or "", "-I", "-c", probe], user=user, group=user, extra_groups=[], check=False, cwd="/"
            )
        except OSError:
            continue
        if candidate and done.stdout.decode().strip() == wanted:
            return candidate
    pytest.skip(f"no Python {wanted} on this machine that user id {user} may execute; run the tests as a plain user")


def test_the_default_data_directory_suits_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert postgres_directory.default_data_dir() == Path("/var/lib/turnlog")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert postgres_directory.default_data_dir() == platformdirs.user_data_path("turnlog", appauthor=False)
