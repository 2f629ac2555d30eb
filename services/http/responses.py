"""Answers: JSON bytes as they are, and the one error envelope `{"error": "<message>"}`."""

import json
from collections.abc import Iterable

import structlog
from starlette.responses import Response
from starlette.types import Send

from turnlog.domain.errors import Bug, Category, Conflict, NotYet, TurnlogError
from turnlog.domain.positions import Position, format_positions

Headers = Iterable[tuple[bytes, bytes]]

RETRY_AFTER_S = 1
INTERNAL = "internal error"

_JSON = (b"content-type", b"application/json; charset=utf-8")
_NO_STORE = (b"cache-control", b"no-store")

JSON_HEADERS = {name.decode(): value.decode() for name, value in (_JSON, _NO_STORE)}
"""What every JSON answer carries, for answers that are streamed."""

_log = structlog.get_logger(__name__)


async def send_json(send: Send, status: int, body: bytes, headers: Headers = ()) -> None:
    """Send ready-made JSON."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [_JSON, length, _NO_STORE, *headers]})
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, status: int, message: str, headers: Headers = ()) -> None:
    """Send the error envelope."""
    await send_json(send, status, error_body(message), headers)


def error_body(message: str, **members: object) -> bytes:
    """The error envelope's bytes, with further members beside `error`."""
    return json.dumps({"error": message, **members}).encode()


def json_response(body: bytes, status: int = 200, headers: Headers = ()) -> Response:
    """A Starlette response of ready-made JSON."""
    response = Response(body, status)
    response.raw_headers = [_JSON, (b"content-length", b"%d" % len(body)), _NO_STORE, *headers]
    return response


def position_header(*positions: Position | None) -> list[tuple[bytes, bytes]]:
    """`Turnlog-Position` of a write; nothing if it appended nothing."""
    known = [position for position in positions if position is not None]
    if len(known) == 1:
        return [(b"turnlog-position", b"%d-%d" % known[0])]
    return [(b"turnlog-position", format_positions(known).encode())] if known else []


def failure(error: TurnlogError) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Status, body and headers of an error of the tree. A Bug is logged, and shows nothing of itself."""
    status = error.status()
    if isinstance(error, Bug):
        _log.error("request_hit_a_bug", kind=type(error).__name__)
        return status, error_body(INTERNAL), []
    headers: list[tuple[bytes, bytes]] = []
    if error.category in (Category.NOT_YET, Category.UNAVAILABLE):
        wait = error.retry_after_s if isinstance(error, NotYet) else RETRY_AFTER_S
        headers.append((b"retry-after", b"%d" % wait))
    epoch = error.epoch if isinstance(error, Conflict) else None
    body = error_body(str(error)) if epoch is None else error_body(str(error), epoch=epoch)
    return status, body, headers
