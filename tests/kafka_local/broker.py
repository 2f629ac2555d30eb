"""One broker process on a directory of its own: launch it, wait for it, stop or kill it, launch it on the same data."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.kafka_local.jars import Installation, KafkaUnavailableError
from tests.kafka_local.settings import JVM_OPTIONS, local_properties

START_SECONDS = 60.0
STOP_SECONDS = 15.0
_STARTED = b"Kafka Server started"
_PR_SET_PDEATHSIG = 1


def free_ports(count: int) -> list[int]:
    """`count` different TCP ports that nobody listens on at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class LocalBroker:
    """A KRaft node that is broker and controller at once. Not thread-safe; launch it from the main thread.

    With `outlive=False` the kernel kills it as soon as the thread that launched it is gone (Linux), however that ended.
    """

    def __init__(self, install: Installation, home: Path, port: int | None = None, *, outlive: bool = False) -> None:
        chosen, controller = free_ports(2)
        self.home = home
        self.log_file = home / "broker.log"
        self._port = port or chosen
        self._controller_port = controller
        self._outlive = outlive
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._install = install

    @property
    def bootstrap(self) -> str:
        """`host:port`, the same for the broker's whole life, restarts included."""
        return f"127.0.0.1:{self._port}"

    @property
    def data(self) -> Path:
        """The directory that holds the partitions' segment files, one directory `<topic>-<partition>` each."""
        return self.home / "data"

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError while it isn't running."""
        if self._process is None or not self.running():
            raise RuntimeError(f"the broker on {self.bootstrap} isn't running:\n{self.log_excerpt()}")
        return self._process.pid

    def launch(self) -> None:
        """Start the process without waiting until it serves; on first use its storage is formatted (about 1 s)."""
        if self.running():
            raise RuntimeError(f"the broker on {self.bootstrap} is running already")
        properties = self.home / "server.properties"
        if not self.data.exists():
            properties.write_text(local_properties(self._port, self._controller_port, self.data), encoding="utf-8")
            self._format(properties)
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(  # noqa: S603 - fixed arguments
                [*self._jvm(*self._install.options), "kafka.Kafka", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=self._outlive,
                preexec_fn=None if self._outlive else _die_with_parent(),
            )

    def running(self) -> bool:
        """Whether the process lives (it may not serve yet)."""
        return self._process is not None and self._process.poll() is None

    def serving(self) -> bool:
        """Whether it has joined its own quorum and accepts connections. Raises RuntimeError if it died instead."""
        if not self.running():
            raise RuntimeError(f"the broker on {self.bootstrap} died:\n{self.log_excerpt()}")
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            if _STARTED not in log.read():
                return False
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def wait_until_serving(self, deadline_s: float = START_SECONDS) -> None:
        """Block until it serves. Raises RuntimeError if it dies or takes longer than `deadline_s` seconds."""
        until = time.monotonic() + deadline_s
        while not self.serving():
            if time.monotonic() > until:
                raise RuntimeError(
                    f"the broker on {self.bootstrap} is not up after {deadline_s} s:\n{self.log_excerpt()}"
                )
            time.sleep(0.05)

    def terminate(self) -> None:
        """Ask for a clean end (SIGTERM) without waiting for it."""
        if self._process is not None and self.running():
            self._process.terminate()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone (milliseconds). A second call does nothing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """A clean end, or after 15 s a kill; returns when the process is gone."""
        self.terminate()
        if self._process is not None:
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def segments_holding(self, topic: str, content: bytes) -> list[str]:
        """The topic's segment files, in every partition and those about to go included, in which these bytes occur."""
        segments = self.data.glob(f"{topic}-[0-9]*/*.log*")
        return sorted(f"{segment.parent.name}/{segment.name}" for segment in segments if _occurs(content, segment))

    def log_excerpt(self) -> str:
        """The errors that it logged since its last launch, else its last lines."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").splitlines()
        errors = [at for at, line in enumerate(lines) if " ERROR " in line]
        return "\n".join(lines[errors[0] : errors[0] + 20] if errors else lines[-20:])

    def _jvm(self, *more: str) -> list[str]:
        return [self._install.java.path, *JVM_OPTIONS, *more, "-cp", f"{self._install.jars}/*"]

    def _format(self, properties: Path) -> None:
        # Kafka's form of a UUID; a leading hyphen would be read as an option.
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        done = subprocess.run(  # noqa: S603 - fixed arguments
            [*self._jvm(), "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(properties)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise KafkaUnavailableError(f"the broker's storage could not be formatted:\n{done.stdout}{done.stderr}")


def _occurs(content: bytes, file: Path) -> bool:
    try:
        return content in file.read_bytes()
    except FileNotFoundError:  # the cleaner replaced it meanwhile
        return False


def _die_with_parent() -> Callable[[], None] | None:
    """Run in the child before exec: the kernel kills it once its parent is gone (None where there is no such call)."""
    if sys.platform != "linux":
        return None
    # Loaded before the fork: the child should do no more than two system calls.
    return partial(_ask_for_death_signal, ctypes.CDLL(None, use_errno=True), os.getpid())


def _ask_for_death_signal(libc: ctypes.CDLL, parent: int) -> None:
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call
        os._exit(1)
