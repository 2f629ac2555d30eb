"""The one broker that `make kafka` leaves running: remembered in a state file, so that it can be found and stopped."""

import json
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from tests.kafka_local.broker import STOP_SECONDS, LocalBroker
from tests.kafka_local.installation import prepare
from tests.kafka_local.jars import Say, cache_directory


@dataclass(frozen=True)
class Running:
    """A broker somebody started: its process, that process's start time (seconds since 1970), and where it is."""

    pid: int
    created: float
    bootstrap: str
    home: str

    def process(self) -> psutil.Process | None:
        """The process, None if it ended (or if the process id now belongs to something else)."""
        try:
            process = psutil.Process(self.pid)
            return process if process.create_time() == self.created and process.is_running() else None
        except psutil.NoSuchProcess:
            return None


def state_file() -> Path:
    """Where the running broker is remembered."""
    return cache_directory() / "running.json"


def current() -> Running | None:
    """The detached broker, None if there is none alive."""
    try:
        running = Running(**json.loads(state_file().read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    return running if running.process() is not None else None


def start(port: int | None, say: Say) -> Running:
    """Start a detached broker on a fresh temporary directory and wait until it serves.

    Raises KafkaUnavailableError if it can't be had here, RuntimeError if it doesn't come up.
    """
    install = prepare(say)
    home = Path(tempfile.mkdtemp(prefix="turnlog-kafka-"))
    broker = LocalBroker(install, home, port, outlive=True)
    say(f"Starting Apache Kafka, its log in {broker.log_file}")
    try:
        broker.launch()
        broker.wait_until_serving()
        running = Running(broker.pid, psutil.Process(broker.pid).create_time(), broker.bootstrap, str(home))
    except BaseException:
        broker.kill()
        shutil.rmtree(home, ignore_errors=True)
        raise
    state_file().write_text(json.dumps(asdict(running)), encoding="utf-8")
    return running


def stop(running: Running) -> None:
    """End the broker and remove its data; returns when it is gone (killed if it takes longer than 15 s)."""
    process = running.process()
    if process is not None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait()
    shutil.rmtree(running.home, ignore_errors=True)
    state_file().unlink(missing_ok=True)
