"""GET /v1/sessions: which conversations there are, by key."""

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from turnlog.services.http.api_schemas import SessionPage, errors, parameter, read_headers
from turnlog.services.http.instants import iso_instant
from turnlog.services.http.query_string import limit_of, one_value, parse_query
from turnlog.services.http.request_headers import after_of, header_map
from turnlog.services.http.responses import json_response
from turnlog.services.reading import Reading

DEFAULT_LIMIT = 100


def session_list_router(reading: Reading) -> APIRouter:
    """The one route."""
    router = APIRouter(tags=["sessions"])

    @router.get(
        "/v1/sessions",
        summary="List sessions by key",
        operation_id="listSessions",
        responses={
            200: {"model": SessionPage, "description": "A page; `nextCursor` is null at the end"},
            **errors(400, 503),
        },
        openapi_extra=read_headers(
            parameter("prefix", "query", {"type": "string"}, "Only keys that begin with this"),
            parameter(
                "limit", "query", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}, "Sessions a page"
            ),
            parameter("cursor", "query", {"type": "string"}, "`nextCursor` of the page before"),
        ),
    )
    async def sessions(request: Request) -> Response:
        query = parse_query(request.scope["query_string"])
        found = await reading.sessions(
            one_value(query, "prefix") or "",
            limit=limit_of(query, default=DEFAULT_LIMIT),
            cursor=one_value(query, "cursor"),
            after=after_of(header_map(request.scope)),
        )
        listed = [
            {
                "sessionKey": item.key,
                "entries": item.entries,
                "epoch": item.epoch,
                "lastActivity": iso_instant(item.last_activity_ms),
            }
            for item in found.items
        ]
        return json_response(orjson.dumps({"sessions": listed, "nextCursor": found.next_cursor}))

    return router
