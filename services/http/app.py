"""The application: guards around routes. It constructs no adapter; it is given what it serves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route

import turnlog
from turnlog.domain.errors import TurnlogError
from turnlog.services.agent_turns import AgentTurns
from turnlog.services.changes import ChangeHub
from turnlog.services.conversations import Conversations
from turnlog.services.http.api_docs import docs_routes
from turnlog.services.http.chat_history import chat_history_routes
from turnlog.services.http.draining import Draining
from turnlog.services.http.guards import Guards
from turnlog.services.http.health import CheckReadiness, health_router
from turnlog.services.http.history import history_router
from turnlog.services.http.live_streams import LiveStreams
from turnlog.services.http.openapi_document import openapi_document
from turnlog.services.http.options import HttpOptions
from turnlog.services.http.responses import error_body, failure, json_response
from turnlog.services.http.resume_points import resume_point_router
from turnlog.services.http.session_list import session_list_router
from turnlog.services.http.stream_pages import StreamPages
from turnlog.services.http.streams import stream_routes
from turnlog.services.http.teams import frame_routes, team_router
from turnlog.services.http.turns import turn_router
from turnlog.services.reading import Reading
from turnlog.services.snapshots import Snapshots

_TELEMETRY_OFF: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


@dataclass(frozen=True, slots=True)
class AppParts:
    """What the API serves."""

    conversations: Conversations
    reading: Reading
    turns: AgentTurns
    snapshots: Snapshots
    changes: ChangeHub
    readiness: CheckReadiness
    options: HttpOptions = field(default_factory=HttpOptions)


def create_app(parts: AppParts) -> FastAPI:
    """The API as an ASGI application. Its lifespan runs the live streams; `app.state.draining` ends them."""
    draining = Draining()
    streams = LiveStreams(parts.changes, StreamPages(parts.reading), draining, keepalive_s=parts.options.keepalive_s)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            await tasks.start(streams.run)
            yield
            tasks.cancel_scope.cancel()

    app = FastAPI(
        title="turnlog",
        version=turnlog.__version__,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_TELEMETRY_OFF,
    )
    app.state.draining = draining
    app.router.routes.extend(chat_history_routes(parts.conversations, parts.reading))
    app.router.routes.extend(frame_routes(parts.changes))
    app.router.routes.extend(stream_routes(streams, parts.options))
    app.include_router(team_router(parts.conversations))
    app.include_router(resume_point_router(parts.conversations, parts.reading))
    app.include_router(turn_router(parts.turns))
    app.include_router(history_router(parts.turns, parts.snapshots))
    app.include_router(session_list_router(parts.reading))
    app.include_router(health_router(parts.readiness, draining))
    app.router.routes.extend(docs_routes(app))
    app.add_exception_handler(TurnlogError, _turnlog_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_middleware(Guards, options=parts.options)
    document = openapi_document(app)
    app.openapi = lambda: document  # type: ignore[method-assign]  # FastAPI's documented way to replace it
    return app


async def _turnlog_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, TurnlogError)  # noqa: S101 - registered for this type
    status, body, headers = failure(error)
    return json_response(body, status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this type
    headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
    if error.status_code == 405:
        headers = [(b"allow", ", ".join(_methods_at(request)).encode())]
    return json_response(error_body(str(error.detail).lower()), error.status_code, headers)


def _methods_at(request: Request) -> list[str]:
    """The methods of every route at the request's path: the router knows those of the first one alone."""
    routes = [context.original_route for context in iter_route_contexts(request.app.routes)]
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in matching if isinstance(route, Route) for method in route.methods or ()})


async def _unreadable(_request: Request, _error: Exception) -> Response:
    return json_response(error_body("the request's parameters can't be read"), 400)
