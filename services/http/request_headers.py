"""What turnlog reads from request headers: how far a read must be, and how a retry is recognised."""

import hashlib
import re
from collections.abc import Mapping

from starlette.types import Scope

from turnlog.domain.errors import BadInput
from turnlog.domain.positions import Position, parse_positions
from turnlog.services.event_factory import ANONYMOUS, Origin

MAX_IDEMPOTENCY_KEY = 255
"""Longest Idempotency-Key, in visible ASCII characters."""

_VISIBLE = re.compile(rb"[\x21-\x7e]{1,255}")
_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def header_map(scope: Scope) -> dict[bytes, bytes]:
    """The headers by lower-case name; of repeated ones the last."""
    return dict(scope["headers"])


def after_of(headers: Mapping[bytes, bytes]) -> tuple[Position, ...]:
    """The positions a read must include (`Turnlog-After`). Raises BadInput naming the header."""
    value = headers.get(b"turnlog-after")
    if value is None:
        return ()
    try:
        return parse_positions(value.decode("latin-1"))
    except BadInput as error:
        raise BadInput(f"Turnlog-After: {error}") from None


def origin_of(scope: Scope, headers: Mapping[bytes, bytes], body: bytes) -> Origin:
    """Where a write comes from, with the hash of its whole request if it carries an Idempotency-Key.

    Raises BadInput if the key is repeated, empty, longer than 255 characters or not visible ASCII.
    """
    key = headers.get(b"idempotency-key")
    trace = headers.get(b"traceparent")
    if key is None and trace is None:
        return ANONYMOUS
    traceparent = trace.decode() if trace is not None and _TRACEPARENT.fullmatch(trace) else None
    if key is None:
        return Origin(traceparent=traceparent)
    if not _VISIBLE.fullmatch(key) or sum(name == b"idempotency-key" for name, _ in scope["headers"]) > 1:
        raise BadInput(f"Idempotency-Key must be one value of 1 to {MAX_IDEMPOTENCY_KEY} visible ASCII characters")
    return Origin(traceparent=traceparent, idempotency_key=key.decode(), request_hash=request_hash(scope, body))


def request_hash(scope: Scope, body: bytes) -> bytes:
    """SHA-256 over method, path, query and body, each with its length in front (32 bytes)."""
    parts = (scope["method"].encode(), scope["path"].encode("utf-8", "surrogatepass"), scope["query_string"], body)
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
