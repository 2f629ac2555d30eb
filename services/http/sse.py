"""Server-sent events, written so that no value can begin a new line or a new field (WHATWG HTML, 9.2.6).

The standard ends lines at CR, LF and CRLF. Clients built on a language's own line splitting also end them at NEL,
U+2028 and U+2029, so those never appear either: inside JSON they can only stand in strings, where an escape means the
same.
"""

import re

from turnlog.domain.raw_json import one_line

CONNECTED = b": connected\n\n"
KEEPALIVE = b": keepalive\n\n"
CLOSING = b": closing\n\n"

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]

_NAME = re.compile(r"[a-z]{1,32}")
_UNICODE_BREAKS = re.compile(b"\xe2\x80[\xa8\xa9]|\xc2\x85")
_ESCAPES = {b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029", b"\xc2\x85": b"\\u0085"}


def entry_frame(row_id: int, entry: bytes) -> bytes:
    """A stored entry: its row id and its JSON in one line."""
    return b"id: %d\ndata: %s\n\n" % (row_id, json_line(entry))


def named_frame(name: str, data: bytes) -> bytes:
    """A frame without id. `data` is valid JSON; `name` is lower-case letters, else ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError("an event name is 1 to 32 lower-case letters")
    return b"event: %s\ndata: %s\n\n" % (name.encode(), json_line(data))


def json_line(text: bytes) -> bytes:
    """The same JSON value in one line by anybody's definition of a line."""
    line = one_line(text)
    if b"\xe2\x80" in line or b"\xc2\x85" in line:
        return _UNICODE_BREAKS.sub(lambda found: _ESCAPES[found[0]], line)
    return line
