"""What an operator can choose about the HTTP API, and what is refused at start."""

import re
from dataclasses import dataclass

from turnlog.domain.errors import Misconfigured
from turnlog.services.http.origin_guard import is_loopback_name

_TOKEN = re.compile(r"[A-Za-z0-9._~-]+")


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Settings of the HTTP API. Durations in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 18790
    access_token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    """More names that Host may hold, `name` (any port) or `name:port`."""
    allowed_origins: tuple[str, ...] = ()
    """More values that Origin may hold, as `https://chat.example`."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses whose X-Forwarded-For and X-Forwarded-Proto count."""
    rate_limit: int = 3000
    """Requests a minute and client; 0 switches the limit off."""
    wrong_token_limit: int = 30
    """Wrong access tokens a minute and client."""
    keepalive_s: float = 20.0
    """How often an idle stream gets a comment."""
    stream_queue_bytes: int = 256 * 1024
    """What may wait for one stream client before it is cut off."""
    max_streams: int = 1000
    """Streams open at once in this process."""
    send_timeout_s: float = 30.0
    """How long a stream client may take none of its bytes before it is cut off."""
    body_timeout_s: float = 30.0
    """How long a request body may take to arrive."""
    shutdown_s: float = 8.0
    """How long requests in flight may take after SIGTERM before they are cancelled."""


def check_options(options: HttpOptions, *, allow_open_bind: bool = False) -> None:
    """Refuse what would be unsafe to run (chat-history-api.md). Raises Misconfigured saying what to set."""
    token = options.access_token
    if token is not None and not _TOKEN.fullmatch(token):
        raise Misconfigured("the access token may hold only the characters A-Z a-z 0-9 . _ ~ - (TURNLOG_ACCESS_TOKEN)")
    if token is None and not allow_open_bind and not is_loopback_name(options.host):
        raise Misconfigured(
            f"refusing to listen on {options.host} without an access token: set TURNLOG_ACCESS_TOKEN, "
            "or allow it explicitly"
        )
