"""Who may talk to a server on this machine: no foreign site, whatever name it made resolve to us.

Host must be a loopback name or allow-listed; Origin must be absent, our own, or allow-listed; a browser that says
`Sec-Fetch-Site: cross-site` is refused (chat-history-api.md, "Everywhere"). A request target in absolute form is judged
by the rule for Host (RFC 9112, section 3.2.2, has it replace Host).
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

_AUTHORITY = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?)(?::(?P<port>\d{1,5}))?")
_LOOPBACK = re.compile(r"localhost|127(?:\.\d{1,3}){3}|\[::1\]|::1")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def is_loopback_name(name: str) -> bool:
    """True for `localhost` and the loopback addresses, IPv6 with or without brackets."""
    return _LOOPBACK.fullmatch(name) is not None


class OriginGuard:
    """Judges Host, Origin and Sec-Fetch-Site. `own_host` is the address the server listens on."""

    def __init__(self, own_host: str, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = ()) -> None:
        own = f"[{own_host}]" if ":" in own_host else own_host
        self._hosts = frozenset(host.lower() for host in (own, *allowed_hosts))
        self._origins = frozenset(origin.lower().rstrip("/") for origin in allowed_origins)
        self._host_is_ours = lru_cache(maxsize=256)(self._judge_host)
        self._origin_is_ours = lru_cache(maxsize=256)(self._judge_origin)

    def admits_host(self, headers: Mapping[bytes, bytes], count: int, target: bytes) -> bool:
        """True if there is exactly one Host header (`count`), it is ours, and so is an absolute-form `target`."""
        host = headers.get(b"host")
        if host is None or count != 1 or not self._host_is_ours(host):
            return False
        return target.startswith(b"/") or not target or self._target_is_ours(target)

    def admits_site(self, headers: Mapping[bytes, bytes], scheme: str) -> bool:
        """True if the request doesn't come from another site's page."""
        if headers.get(b"sec-fetch-site") == b"cross-site":
            return False
        origin = headers.get(b"origin")
        return origin is None or self._origin_is_ours(origin, headers[b"host"], scheme)

    def _judge_host(self, host: bytes) -> bool:
        text = host.decode("latin-1").lower()
        match = _AUTHORITY.fullmatch(text)
        if match is None:
            return False
        return is_loopback_name(match["name"]) or match["name"] in self._hosts or text in self._hosts

    def _target_is_ours(self, target: bytes) -> bool:
        scheme, mark, rest = target.partition(b"://")
        if not mark or scheme.lower() not in (b"http", b"https"):
            return False
        return self._host_is_ours(re.split(rb"[/?#]", rest, maxsplit=1)[0])

    def _judge_origin(self, origin: bytes, host: bytes, scheme: str) -> bool:
        text = origin.decode("latin-1").lower()
        if text in self._origins:
            return True
        origin_scheme, mark, authority = text.partition("://")
        match = _AUTHORITY.fullmatch(authority)
        own = _AUTHORITY.fullmatch(host.decode("latin-1").lower())
        if not mark or match is None or own is None or origin_scheme != scheme:
            return False
        port = match["port"] or _DEFAULT_PORTS[scheme]
        if port != (own["port"] or _DEFAULT_PORTS[scheme]):
            return False
        return match["name"] == own["name"] or (is_loopback_name(match["name"]) and is_loopback_name(own["name"]))
