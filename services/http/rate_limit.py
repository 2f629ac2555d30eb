"""How many requests a client may make in a minute, counted in fixed windows by the `limits` library.

Its storage is used directly: one count and one expiry, a third of what the strategy classes cost a request.
"""

import ipaddress
import math
import time
from functools import lru_cache
from typing import NamedTuple

from limits.storage import MemoryStorage
from starlette.types import Scope

WINDOW_S = 60


class Hit(NamedTuple):
    """One request counted: within the limit or not, its response headers, and the seconds until the window ends."""

    allowed: bool
    headers: list[tuple[bytes, bytes]]
    reset_s: int


class RateLimit:
    """A limit per client and minute. Counts stay in this process."""

    def __init__(self, per_minute: int) -> None:
        self._limit = per_minute
        self._storage = MemoryStorage()
        self._constant = [
            (b"ratelimit-policy", b"%d;w=%d" % (per_minute, WINDOW_S)),
            (b"ratelimit-limit", b"%d" % per_minute),
        ]

    def hit(self, client: str) -> Hit:
        """Count one request."""
        count = self._storage.incr(client, WINDOW_S)
        reset_s = max(0, math.ceil(self._storage.get_expiry(client) - time.time()))
        headers = [
            *self._constant,
            (b"ratelimit-remaining", b"%d" % max(0, self._limit - count)),
            (b"ratelimit-reset", b"%d" % reset_s),
        ]
        return Hit(count <= self._limit, headers, reset_s)

    def is_spent(self, client: str) -> int:
        """Seconds until the window ends if the client has used it up, else 0. Counts nothing."""
        if self._storage.get(client) < self._limit:
            return 0
        return max(1, math.ceil(self._storage.get_expiry(client) - time.time()))


def client_of(scope: Scope) -> str:
    """Who is counted: the peer's address, of IPv6 the /64 that one host can draw addresses from."""
    peer = scope.get("client")
    return "local" if peer is None else _counted(peer[0])


@lru_cache(maxsize=4096)
def _counted(address: str) -> str:
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network(f"{address.partition('%')[0]}/64", strict=False))
    except ValueError:
        return address
