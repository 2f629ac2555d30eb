"""`turnlog serve`: API, projector and eraser in one process; `turnlog project`: projector and eraser alone."""

import signal

import anyio
import structlog

from turnlog.infra.settings import Settings
from turnlog.services.composition import open_turnlog
from turnlog.services.end_deadline import end_within
from turnlog.services.garbage import look_for_garbage_less_often
from turnlog.services.http.app import AppParts, create_app
from turnlog.services.http.options import HttpOptions, check_options
from turnlog.services.http.server import new_server
from turnlog.services.readiness import Readiness

_log = structlog.get_logger(__name__)


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then end in order. Raises Misconfigured and Unavailable at start."""
    options = http_options(settings)
    check_options(options, allow_open_bind=settings.allow_public_bind)
    async with open_turnlog(settings, projecting=not settings.no_projector) as running:
        readiness = Readiness(running, lag_bound=settings.lag_bound)
        app = create_app(
            AppParts(
                conversations=running.conversations,
                reading=running.reading,
                turns=running.turns,
                snapshots=running.snapshots,
                changes=running.changes,
                readiness=readiness.check,
                options=options,
            )
        )
        server = new_server(
            app,
            options,
            on_listening=lambda port: _listening(options.host, port),
            on_ending=lambda: end_within(settings.shutdown_timeout_s),
        )
        look_for_garbage_less_often()
        await server.serve()
    _log.info("stopped")


async def project(settings: Settings) -> None:
    """Project this process's share of the partitions until SIGTERM or SIGINT."""
    async with open_turnlog(settings, projecting=True):
        look_for_garbage_less_often()
        _log.info("projecting")
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                end_within(settings.shutdown_timeout_s)
                break
    _log.info("stopped")


def http_options(settings: Settings) -> HttpOptions:
    """The part of the settings that the HTTP layer takes."""
    token = settings.access_token
    return HttpOptions(
        host=settings.host,
        port=settings.port,
        access_token=None if token is None else token.get_secret_value(),
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.allowed_origins,
        trusted_proxies=settings.trusted_proxies,
        rate_limit=settings.rate_limit,
        keepalive_s=settings.keepalive_s,
        stream_queue_bytes=settings.stream_queue_bytes,
        max_streams=settings.max_streams,
        shutdown_s=settings.shutdown_timeout_s * 0.8,
    )


def _listening(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    _log.info("listening", url=f"http://{shown}:{port}")
