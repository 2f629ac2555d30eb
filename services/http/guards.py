"""Everything a request passes before a route sees it, as one ASGI middleware: host and origin, rate, token, size.

Unlisted paths are guarded like listed ones; only the two probes are open. What fails inside is answered as
`internal error`, and logged by type and place, never by message: a message may quote what somebody wrote.
"""

import asyncio
import traceback
from collections.abc import Awaitable
from pathlib import Path

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnlog.services.http.access_token import INVALID, REQUIRED, AccessToken, Exchange, credential, exchange
from turnlog.services.http.connection import ABORT, TARGET
from turnlog.services.http.options import HttpOptions
from turnlog.services.http.origin_guard import OriginGuard
from turnlog.services.http.rate_limit import RateLimit, client_of
from turnlog.services.http.request_body import MAX_BODY, TOO_LARGE, discard_body
from turnlog.services.http.responses import INTERNAL, RETRY_AFTER_S, Headers, send_error

PROBES = frozenset({"/healthz", "/readyz"})

BLOCKED = "Cross-origin request blocked."
ENDING = "the server is ending"
TOO_MANY = "Too many requests. Wait a moment and retry."

_ALWAYS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_API = [*_ALWAYS, (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")]
_DOCS_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_DOCS = [*_ALWAYS, (b"content-security-policy", _DOCS_POLICY)]

_log = structlog.get_logger(__name__)


class Guards:
    """The outermost middleware."""

    def __init__(self, app: ASGIApp, options: HttpOptions) -> None:
        self._app = app
        self._origins = OriginGuard(options.host, options.allowed_hosts, options.allowed_origins)
        self._rate = RateLimit(options.rate_limit) if options.rate_limit > 0 else None
        self._token = None if options.access_token is None else AccessToken(options.access_token)
        self._wrong_tokens = RateLimit(options.wrong_token_limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge one request; pass it on or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        response = _Response(scope, receive, send, _DOCS if path.startswith("/docs") else _API)
        try:
            if path in PROBES or await self._admits(scope, path, response):
                await self._app(scope, receive, response.send)
        except asyncio.CancelledError:
            # The server is ending and has waited long enough. This task has nothing above it to tell.
            if not response.started:
                await send_error(response.send, 503, ENDING, [(b"retry-after", b"%d" % RETRY_AFTER_S)])
        except Exception as error:  # noqa: BLE001 - the last place that can still answer
            _log.error("request_failed", method=scope["method"], kind=type(error).__name__, at=_place(error))
            if not response.started:
                await send_error(response.send, 500, INTERNAL)
            elif (abort := scope.get(ABORT)) is not None:
                abort()

    async def _admits(self, scope: Scope, path: str, response: "_Response") -> bool:
        """True if the request may go on; otherwise it has been answered."""
        headers = response.asked
        hosts = 1 if len(headers) == len(scope["headers"]) else sum(name == b"host" for name, _ in scope["headers"])
        if not self._origins.admits_host(headers, hosts, scope.get(TARGET, b"")) or (
            path.lower().startswith(("/api", "/v1")) and not self._origins.admits_site(headers, scope["scheme"])
        ):
            return await response.refuse(403, BLOCKED)
        if self._rate is not None:
            hit = self._rate.hit(client_of(scope))
            response.headers = [*hit.headers, *response.headers]
            if not hit.allowed:
                return await response.refuse(429, TOO_MANY, [(b"retry-after", b"%d" % max(1, hit.reset_s))])
        if self._token is not None and not await self._knows_token(self._token, scope, response):
            return False
        length = headers.get(b"content-length")
        if length is not None and int(length) > MAX_BODY:
            return await response.refuse(413, TOO_LARGE)
        return True

    async def _knows_token(self, token: AccessToken, scope: Scope, response: "_Response") -> bool:
        link = None
        if scope["method"] in ("GET", "HEAD"):
            link = exchange(scope.get("raw_path") or b"/", scope["query_string"])
        candidate = credential(response.asked) if link is None else link.token
        if candidate is None:
            return await response.refuse(401, REQUIRED, [(b"www-authenticate", b"Bearer")])
        client = client_of(scope)
        wait_s = self._wrong_tokens.is_spent(client)
        if wait_s:
            return await response.refuse(429, TOO_MANY, [(b"retry-after", b"%d" % wait_s)])
        if not token.matches(candidate):
            self._wrong_tokens.hit(client)
            return await response.refuse(401, INVALID, [(b"www-authenticate", b"Bearer")])
        if link is not None:
            await _redirect(response, link, token.cookie(secure=scope["scheme"] == "https"))
            return False
        return True


class _Response:
    """The way back: adds the headers that every answer has, and knows whether one has begun.

    `asked` are the request's headers, `headers` what is added to the response's.
    """

    __slots__ = ("_receive", "_send", "asked", "headers", "started")

    def __init__(self, scope: Scope, receive: Receive, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        self._receive = receive
        self._send = send
        self.asked: dict[bytes, bytes] = dict(scope["headers"])
        self.headers = headers
        self.started = False

    def send(self, message: Message) -> Awaitable[None]:
        if not self.started and message["type"] == "http.response.start":
            self.started = True
            message["headers"] = [*message.get("headers", ()), *self.headers]
        return self._send(message)

    async def refuse(self, status: int, text: str, headers: Headers = ()) -> bool:
        await discard_body(self._receive, self.asked)
        await send_error(self.send, status, text, headers)
        return False


async def _redirect(response: _Response, link: Exchange, cookie: bytes) -> None:
    headers = [
        (b"location", link.location),
        (b"set-cookie", cookie),
        (b"cache-control", b"no-store"),
        (b"content-length", b"0"),
    ]
    await response.send({"type": "http.response.start", "status": 302, "headers": headers})
    await response.send({"type": "http.response.body", "body": b""})


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown"
