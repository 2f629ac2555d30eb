"""Runs the API on uvicorn: uvloop, httptools, and an orderly end.

On SIGTERM or SIGINT the listening sockets close, open streams are told to end, requests in flight have `shutdown_s`
to finish, and `serve` returns. uvicorn alone would wait for its streams, and end the process by the signal.
"""

import asyncio
import contextlib
import errno
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from fastapi import FastAPI

from turnlog.domain.errors import Misconfigured
from turnlog.services.http.connection import Connection
from turnlog.services.http.draining import Draining
from turnlog.services.http.options import HttpOptions

_TICKS_PER_SWEEP = 10
"""uvicorn ticks ten times a second."""
LAST_BYTES_S = 1.0
"""How long a request that is still arriving has to be complete once the process is asked to end."""


def _reason(error: BaseException | None) -> str:
    if isinstance(error, socket.gaierror):
        return f"no such host ({error.strerror}); choose another with TURNLOG_HOST"
    if isinstance(error, OSError) and error.errno not in {errno.EADDRINUSE, None}:
        return error.strerror or errno.errorcode.get(error.errno or 0, "the system refuses")
    return "another process may be using it; choose another with TURNLOG_PORT"


class Server(uvicorn.Server):
    """`draining` is what the application's streams listen to; `on_listening(port)` runs once clients can connect,
    `on_ending()` once the process is asked to end.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        draining: Draining,
        options: HttpOptions,
        on_listening: Callable[[int], None] | None = None,
        on_ending: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(config)
        self._draining = draining
        self._options = options
        self._on_listening = on_listening
        self._on_ending = on_ending
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; tell the port. Raises Misconfigured if the address can't be listened on."""
        self._loop = asyncio.get_running_loop()
        try:
            await super().startup(sockets=sockets)
        except SystemExit as error:  # uvicorn ends the process, because of what the system said
            raise Misconfigured(
                f"can't listen on {self._options.host} port {self._options.port}: {_reason(error.__context__)}"
            ) from None
        if self.started and self._on_listening is not None:
            self._on_listening(self.servers[0].sockets[0].getsockname()[1])

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; slow and stalled connections are looked for once a second."""
        if counter % _TICKS_PER_SWEEP == 0:
            self._sweep()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to end: streams are told at once, everything else by uvicorn's shutdown."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._drain)

    def stop(self) -> None:
        """End as on SIGTERM, from within the process."""
        self.should_exit = True
        self._drain()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals while serving. They aren't raised again: an orderly end is exit status 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handled = (signal.SIGINT, signal.SIGTERM)
        before = {sig: signal.signal(sig, self.handle_exit) for sig in handled}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    def _drain(self) -> None:
        if self._draining.started:
            return
        self._draining.start()
        if self._on_ending is not None:
            self._on_ending()
        # Without this, one client that stops in the middle of its request holds the end up for all of `shutdown_s`.
        asyncio.get_running_loop().call_later(LAST_BYTES_S, self._sweep, 0.0)

    def _sweep(self, arrive_s: float | None = None) -> None:
        now = asyncio.get_running_loop().time()
        arrive_s = self._options.body_timeout_s if arrive_s is None else arrive_s
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.enforce(now, arrive_s=arrive_s, read_s=self._options.send_timeout_s)


def new_server(
    app: FastAPI,
    options: HttpOptions,
    *,
    on_listening: Callable[[int], None] | None = None,
    on_ending: Callable[[], None] | None = None,
) -> Server:
    """A server for an application made by `create_app`. Run it with `await server.serve()`."""
    draining: Draining = app.state.draining
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        http=Connection,
        ws="none",
        loop="uvloop",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(options.trusted_proxies),
        forwarded_allow_ips=list(options.trusted_proxies),
        timeout_graceful_shutdown=round(options.shutdown_s),
    )
    return Server(config, draining, options, on_listening, on_ending)
