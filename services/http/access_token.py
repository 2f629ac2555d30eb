"""The one access token of an installation: cookie, bearer, or handed over once in a link."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import NamedTuple

from turnlog.services.http.query_string import decode_component

COOKIE = "clawboo_access"
PARAMETER = "access_token"

REQUIRED = "Clawboo access token required. Open /?access_token=<token> once to set a cookie."
INVALID = "Invalid Clawboo access token."


class Exchange(NamedTuple):
    """A token that came in a link, and where to go without it."""

    token: bytes
    location: bytes


class AccessToken:
    """Compares candidates in constant time."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._digest = hashlib.sha256(token.encode()).digest()

    def matches(self, candidate: bytes) -> bool:
        """True for the token. The time taken tells nothing about how much of it was right."""
        return hmac.compare_digest(hashlib.sha256(candidate).digest(), self._digest)

    def cookie(self, *, secure: bool) -> bytes:
        """The Set-Cookie value that carries the token."""
        return f"{COOKIE}={self._token}; HttpOnly; SameSite=Lax; Path=/{'; Secure' if secure else ''}".encode()


def credential(headers: Mapping[bytes, bytes]) -> bytes | None:
    """What the request offers as its token: the bearer if there is one, else the cookie."""
    authorization = headers.get(b"authorization")
    if authorization is not None and authorization[:7].lower() == b"bearer ":
        return authorization[7:].strip()
    for part in headers.get(b"cookie", b"").split(b";"):
        name, equals, value = part.strip().partition(b"=")
        if equals and name == COOKIE.encode():
            return value
    return None


def exchange(raw_path: bytes, query: bytes) -> Exchange | None:
    """The token in a link's query, and the same path and query without it. None if there is no such parameter.

    The location is relative and begins with exactly one slash, so that no Host and no `//elsewhere` gets into it.
    """
    if b"access_token" not in query and b"%" not in query:
        return None
    parts = query.split(b"&")
    names = [decode_component(part.partition(b"=")[0]) for part in parts]
    if PARAMETER not in names:
        return None
    first = parts[names.index(PARAMETER)]
    token = decode_component(first.partition(b"=")[2]).encode("utf-8", "replace")
    kept = [part for part, name in zip(parts, names, strict=True) if name != PARAMETER]
    path = b"/" + _visible(raw_path).lstrip(b"/\\")
    return Exchange(token, path + (b"?" + _visible(b"&".join(kept)) if kept else b""))


def _visible(raw: bytes) -> bytes:
    """Everything but visible ASCII, and the backslash that browsers read as a slash, in percent form."""
    return re.sub(rb"[^\x21-\x7e]|\\", lambda found: b"%%%02X" % found[0][0], raw)
