"""Request bodies, counted as they arrive and again while they are unpacked."""

import zlib
from collections.abc import Mapping

import anyio.to_thread
from starlette.types import Message, Receive

from turnlog.domain.errors import BadInput, TooLarge

MAX_BODY = 2 * 1024 * 1024
"""Largest request body in bytes, after decompression."""

MAX_DISCARDED = 8 * 1024 * 1024
"""How much of a refused body is still read, in bytes."""

OFF_LOOP_BYTES = 256 * 1024
"""From this size on a body is unpacked and parsed in a thread."""

TOO_LARGE = f"request body is larger than {MAX_BODY} bytes"

DAMAGED = "the compressed body is damaged"

_GZIP = 31
_WINDOW_BITS = {b"gzip": _GZIP, b"x-gzip": _GZIP, b"deflate": 15}


class UnsupportedMedia(BadInput):
    """A content encoding or charset that turnlog doesn't read: 415."""

    @classmethod
    def status(cls) -> int:
        """415, where other bad input is 400."""
        return 415


class RequestCutShort(BadInput):
    """The client closed the connection before its request was complete; nobody reads the answer."""


async def read_body(receive: Receive, headers: Mapping[bytes, bytes]) -> bytes:
    """The whole body, unpacked. How long it may take is the connection's business (`connection.py`).

    Raises TooLarge, UnsupportedMedia, RequestCutShort, and BadInput for damaged compression.
    """
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding != b"identity" and encoding not in _WINDOW_BITS:
        raise UnsupportedMedia("content-encoding must be gzip, deflate or identity")
    message = await receive()
    raw: bytes = message.get("body", b"")
    if message["type"] != "http.request" or message.get("more_body"):
        raw = await _rest(receive, message, headers)
    elif len(raw) > MAX_BODY:
        raise TooLarge(TOO_LARGE)
    if encoding == b"identity":
        return raw
    if len(raw) > OFF_LOOP_BYTES:
        return await anyio.to_thread.run_sync(_unpack, raw, _WINDOW_BITS[encoding])
    return _unpack(raw, _WINDOW_BITS[encoding])


async def discard_body(receive: Receive, headers: Mapping[bytes, bytes]) -> None:
    """Read on before refusing: a connection closed with bytes unread is reset, and the client loses the answer.

    A client that waits for `100 Continue` hasn't begun to send.
    """
    if b"expect" in headers or (b"transfer-encoding" not in headers and headers.get(b"content-length", b"0") == b"0"):
        return
    discarded = 0
    while discarded < MAX_DISCARDED:
        message = await receive()
        discarded += len(message.get("body", b""))
        if not message.get("more_body"):
            return


async def _rest(receive: Receive, message: Message, headers: Mapping[bytes, bytes]) -> bytes:
    collected = bytearray()
    while message["type"] == "http.request":
        collected += message.get("body", b"")
        if len(collected) > MAX_BODY:
            if message.get("more_body"):
                await discard_body(receive, headers)
            raise TooLarge(TOO_LARGE)
        if not message.get("more_body"):
            return bytes(collected)
        message = await receive()
    raise RequestCutShort("the request ended early")


def _unpack(raw: bytes, window_bits: int) -> bytes:
    """The body. A gzip file may have several members (RFC 1952, section 2.2)."""
    body = bytearray()
    rest = raw
    while rest or not raw:
        unpacker = zlib.decompressobj(window_bits)
        try:
            body += unpacker.decompress(rest, MAX_BODY + 1 - len(body))
        except zlib.error:
            raise BadInput(DAMAGED) from None
        if len(body) > MAX_BODY:
            raise TooLarge(TOO_LARGE)
        rest = unpacker.unused_data
        if not unpacker.eof or (rest and window_bits != _GZIP):
            raise BadInput(DAMAGED)
    return bytes(body)
