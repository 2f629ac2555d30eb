"""A real `turnlog serve` in a process of its own, to be talked to over a socket, stopped, killed and started again."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import httpx

START_S = 60.0
STOP_S = 15.0
POLL_S = 0.02


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class TurnlogProcess:
    """`settings` are `TURNLOG_*` variables without the prefix, in lower case, beside what the command needs.

    Keeps its port over restarts. Output goes to `log_file`.
    """

    def __init__(self, settings: Mapping[str, str], log_file: Path, *, command: str = "serve") -> None:
        self.port = free_port()
        self.log_file = log_file
        self._command = command
        self.settings = dict(settings)
        self._process: asyncio.subprocess.Process | None = None
        self._earlier = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its process id. It must have been launched."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True from its launch to its end."""
        return self._process is not None and self._process.returncode is None

    def output(self) -> str:
        """Everything it wrote so far, over all its lives."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def says(self, text: str) -> bool:
        """True once it wrote this since its last launch."""
        return text in self.output()[self._earlier :]

    async def launch(self, **more: str) -> None:
        """Start the process without waiting until it is ready. `more` are settings for this life only."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TURNLOG_")}
        settings = {"port": str(self.port), "log_format": "json", "rate_limit": "0", **self.settings, **more}
        environment |= {f"TURNLOG_{name.upper()}": value for name, value in settings.items()}
        self._earlier = len(self.output())
        with self.log_file.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                str(Path(sys.executable).with_name("turnlog")),
                self._command,
                env=environment,
                stdout=output,
                stderr=output,
            )

    async def start(self, **more: str) -> None:
        """Launch, and return once `/readyz` says ready."""
        await self.launch(**more)
        await self.ready()

    async def ready(self, within_s: float = START_S) -> None:
        """Return once it is ready for traffic; fail with its output if it ends or takes too long."""
        assert self._process is not None
        async with httpx.AsyncClient(base_url=self.url) as client:
            with anyio.move_on_after(within_s):
                while self._process.returncode is None:
                    try:
                        if (await client.get("/readyz")).status_code == 200:
                            return
                    except httpx.TransportError:
                        pass
                    await anyio.sleep(POLL_S)
        raise AssertionError(f"turnlog {self._command} is not ready:\n{self.output()[-4000:]}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal without waiting for anything."""
        assert self._process is not None
        self._process.send_signal(number)

    async def stop(self) -> int:
        """SIGTERM, and its exit status."""
        return await self.end(signal.SIGTERM)

    async def kill(self) -> int:
        """SIGKILL, and wait until it is gone."""
        return await self.end(signal.SIGKILL)

    async def end(self, how: signal.Signals) -> int:
        """Send a signal and wait for the end; the exit status (negative: by which signal)."""
        process = self._process
        assert process is not None
        if process.returncode is None:
            process.send_signal(how)
        with anyio.fail_after(STOP_S):
            return await process.wait()

    async def finished(self, within_s: float = START_S) -> int:
        """Wait until it ends by itself; its exit status."""
        assert self._process is not None
        with anyio.fail_after(within_s):
            return await self._process.wait()
