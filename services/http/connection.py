"""One HTTP/1.1 connection: uvicorn's httptools protocol with bounds on time and memory, and errors as JSON.

uvicorn drops the authority of an absolute-form request target, waits for heads and bodies for ever, and answers what
it can't parse in plain text. What the guards and streams need to know of the connection is in the ASGI scope:
`turnlog.target` (bytes, the request target as sent) and `turnlog.abort` (closes at once, unsent bytes dropped).
"""

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from turnlog.services.http.responses import error_body

MAX_HEAD = 64 * 1024
"""Largest request line and headers, in bytes, beyond what the first read brought."""

UNSENT_BYTES = 32 * 1024
"""How much may wait in this process for a client to read before its response is paused."""

LINGER_S = 1.0
"""How long the client of a refused connection has to read why."""

TARGET = "turnlog.target"
ABORT = "turnlog.abort"


class Connection(HttpToolsProtocol):
    """`incoming_since` and `stalled_since` are loop times (s) of a request still arriving and a client not reading."""

    incoming_since: float | None = None
    stalled_since: float | None = None
    _begun = False
    _in_head = True
    _head_began = False
    _head_bytes = 0
    _refused = False
    _half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn's own class
        """A client connected and has to send something soon."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNSENT_BYTES)
        self.incoming_since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Feed the parser; a head that doesn't end is refused."""
        if self._refused:
            return
        self._head_began = False
        super().data_received(data)
        # Of what was read together with a head's first byte it isn't known how much was the request before.
        if self._in_head and not self._head_began:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD:
                self._refuse(431, "the request's head is too large")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self.incoming_since = self.loop.time()
        self._begun = self._in_head = self._head_began = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """The head is there: the application starts."""
        self._in_head = False
        super().on_headers_complete()
        self.scope[TARGET] = self.url  # type: ignore[literal-required]  # our own keys
        self.scope[ABORT] = self.abort  # type: ignore[literal-required]

    def on_message_complete(self) -> None:
        """The whole request is there."""
        super().on_message_complete()
        self.incoming_since = None
        self._begun = False

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """The client sends no more. It may still read: what it asked for is answered before the connection ends.

        A stream ends, though: its client has most likely gone, and would be found out only by the next write.
        """
        cycle = self.cycle
        if self._refused or cycle is None or cycle.response_complete or cycle.more_body:
            return False
        self._half_closed = not cycle.scope["path"].endswith("/stream")
        return self._half_closed

    def on_response_complete(self) -> None:
        """The answer is written."""
        super().on_response_complete()
        if self._half_closed and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    def pause_writing(self) -> None:
        """The client doesn't read as fast as we write."""
        super().pause_writing()
        self.stalled_since = self.loop.time()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self.stalled_since = None

    def send_400_response(self, msg: str) -> None:
        """What the parser refuses is answered like every other error."""
        self._refuse(400, msg)

    def abort(self) -> None:
        """Close at once; what wasn't sent is dropped."""
        self.transport.abort()

    def enforce(self, now: float, *, arrive_s: float, read_s: float) -> None:
        """End a connection whose request takes longer than `arrive_s`, or whose client hasn't read for `read_s`."""
        if self.stalled_since is not None and now - self.stalled_since > read_s:
            self.abort()
        elif self.incoming_since is not None and now - self.incoming_since > arrive_s:
            self.incoming_since = None
            if self._begun:
                self._refuse(408, "the request took too long to arrive")
            else:
                self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        """Answer, and end the connection. Closing at once would reset it, and the client would lose the answer."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()
            return
        body = error_body(message)
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json; charset=utf-8\r\n"
            f"content-length: {len(body)}\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.abort)
