"""What happens to a team's chat as a whole: clearing it, and the frames that are passed on and never stored."""

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.routing import Route

from turnlog.domain.errors import BadInput
from turnlog.domain.raw_json import string_value
from turnlog.domain.stream_selection import StreamSelection
from turnlog.services.changes import ChangeHub
from turnlog.services.conversations import Conversations, room_scope
from turnlog.services.http.api_schemas import ClearBody, Cleared, errors, json_request, position_headers, write_headers
from turnlog.services.http.json_body import json_members
from turnlog.services.http.path_names import TEAM_CHAT
from turnlog.services.http.query_string import one_value, parse_query
from turnlog.services.http.request_body import read_body
from turnlog.services.http.request_headers import header_map, origin_of
from turnlog.services.http.responses import json_response, position_header

FRAME_NAMES = ("delta", "status")


def team_router(conversations: Conversations) -> APIRouter:
    """POST /api/teams/{id}/chat/clear."""
    router = APIRouter(tags=["teams"])

    @router.post(
        f"{TEAM_CHAT}/clear",
        summary="Set a team's chat aside",
        description="Without `roomId` the General chat, with it that room, with `*` everything. The answer comes once "
        "applied; `sessionKeys` are the sessions it ended.",
        operation_id="clearTeamChat",
        responses={
            200: {"model": Cleared, "description": "Cleared, also when there was nothing", **position_headers()},
            **errors(400, 409, 410, 413, 415, 422, 503),
        },
        openapi_extra={**json_request(ClearBody, required=False), **write_headers()},
    )
    async def clear(id: str, request: Request) -> Response:  # noqa: A002 - the path's own name
        headers = header_map(request.scope)
        body = await read_body(request.receive, headers)
        room = _room(json_members(headers, body)) if body else None
        origin = origin_of(request.scope, headers, body)
        done = await conversations.clear_chat(id, room_scope(room), origin=origin)
        answer = {"ok": True, "clearedAt": done.cleared_at_ms, "sessionKeys": done.session_keys}
        return json_response(orjson.dumps(answer), headers=position_header(done.position))

    return router


def frame_routes(hub: ChangeHub) -> list[Route]:
    """POST /api/teams/{id}/chat/delta and /status: plain routes, called for every few tokens of a turn."""

    def publish(name: str) -> Route:
        async def endpoint(request: Request) -> Response:
            headers = header_map(request.scope)
            body = await read_body(request.receive, headers)
            json_members(headers, body)
            room = one_value(parse_query(request.scope["query_string"]), "roomId") or None
            hub.ephemeral(StreamSelection.team(request.path_params["id"], room), name, body)
            return json_response(b'{"ok":true}')

        return Route(f"{TEAM_CHAT}/{name}", endpoint, methods=["POST"])

    return [publish(name) for name in FRAME_NAMES]


def _room(members: dict[str, bytes]) -> str | None:
    raw = members.get("roomId", b"null")
    if raw == b"null":
        return None
    room = string_value(raw)
    if not room:
        raise BadInput("roomId must be a non-empty string")
    return room
