"""GET /healthz and GET /readyz: open to everybody, without a secret in them."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from fastapi import APIRouter
from starlette.responses import Response

from turnlog.services.http.api_schemas import Health, Readiness
from turnlog.services.http.draining import Draining
from turnlog.services.http.responses import json_response

CheckReadiness = Callable[[], Awaitable[tuple[bool, dict[str, Any]]]]
"""Gives whether traffic is welcome, and the figures that say why."""


def health_router(check: CheckReadiness, draining: Draining) -> APIRouter:
    """Both probes."""
    router = APIRouter(tags=["health"])

    # Balancers probe with HEAD too; the document names GET alone.
    @router.head("/healthz", include_in_schema=False)
    @router.get(
        "/healthz",
        summary="Is the process alive?",
        operation_id="health",
        responses={200: {"model": Health, "description": "It is"}},
    )
    async def health() -> Response:
        return json_response(b'{"ok":true}')

    @router.head("/readyz", include_in_schema=False)
    @router.get(
        "/readyz",
        summary="Are database and log reachable, and the projector within its lag bound?",
        operation_id="readiness",
        responses={
            200: {"model": Readiness, "description": "Ready"},
            503: {"model": Readiness, "description": "Not ready, or about to end"},
        },
    )
    async def readiness() -> Response:
        ready, figures = await check()
        ready = ready and not draining.started
        body = orjson.dumps({"ok": ready, "draining": draining.started, **figures})
        return json_response(body, 200 if ready else 503)

    return router
