"""What a turnlog runs on in these tests: its settings, its processes, and the check of its tables at the end."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.chaos.api import Api
from tests.chaos.waiting import until
from tests.turnlog_process import TurnlogProcess
from turnlog.domain.event_log import EventLog
from turnlog.infra.settings import load_settings
from turnlog.services.composition import open_database, open_log

LEASE_MS = 1_000
"""How long a killed projector's partitions wait for another one; the default is 10 s."""
VERIFY_S = 60.0


class Installation:
    """One log and one database, and the processes that a test runs on them. `settings` are as in TurnlogProcess."""

    def __init__(self, name: str, settings: Mapping[str, str], directory: Path) -> None:
        self.name = name
        self.processes: list[TurnlogProcess] = []
        self.settings = {"lease_ms": str(LEASE_MS), **settings}
        self._directory = directory

    def process(self, command: str = "serve", **more: str) -> TurnlogProcess:
        """Another process on it, not started yet. `more` are settings of this one alone."""
        log_file = self._directory / f"{command}-{len(self.processes)}.log"
        process = TurnlogProcess(self.settings | more, log_file, command=command)
        self.processes.append(process)
        return process

    async def verify(self) -> None:
        """`turnlog verify` finds every table equal to a fold from zero. With the embedded database stop the server."""
        process = self.process("verify")
        await process.launch()
        status = await process.finished(VERIFY_S)
        assert status == 0, process.output()
        assert "equal" in process.output()

    async def close(self) -> None:
        """Kill whatever still runs."""
        for process in self.processes:
            if process.is_running:
                await process.kill()

    def output(self) -> str:
        """The last lines of every process, for a failure's report."""
        return "\n".join(f"--- {p.log_file.name}\n{p.output()[-3000:]}" for p in self.processes)


class Pair(NamedTuple):
    """Two servers on one installation, each with a client."""

    installation: Installation
    one: Api
    other: Api


@asynccontextmanager
async def log_of(installation: Installation) -> AsyncIterator[EventLog]:
    """The installation's log in this process: for records that no route writes."""
    settings = load_settings(installation.settings)
    async with open_database(settings) as database, open_log(settings, database) as log:
        yield log


async def postgres_is_gone(data_dir: Path) -> None:
    """Wait until the embedded PostgreSQL of a killed server has ended."""
    pid_file = data_dir / "postgres" / "data" / "postmaster.pid"

    def gone() -> bool:
        try:
            process = psutil.Process(int(pid_file.read_text().partition("\n")[0]))
            return process.status() == psutil.STATUS_ZOMBIE
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return True

    await until(gone, f"PostgreSQL on {data_dir} has ended")


def postgres_below(pid: int) -> list[psutil.Process]:
    """The processes of a server's embedded PostgreSQL."""
    return [process for process in psutil.Process(pid).children(recursive=True) if "postgres" in process.name()]


def kill_with_children(pid: int) -> int:
    """SIGKILL a process and everything below it, its PostgreSQL included, as a power cut would; how many those were."""
    parent = psutil.Process(pid)
    family = [parent, *parent.children(recursive=True)]
    for process in family:
        process.suspend()  # nobody notices the others' end
    random.shuffle(family)
    for process in family:
        process.kill()
    return len(family)
