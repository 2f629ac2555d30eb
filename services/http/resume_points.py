"""GET, PUT and DELETE /v1/resume-point: the saved session that an agent continues from."""

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from turnlog.domain.errors import BadInput
from turnlog.services.conversations import Conversations
from turnlog.services.http.api_schemas import (
    ResumePointAnswer,
    ResumePointBody,
    ResumePointSavedAnswer,
    errors,
    json_request,
    position_headers,
    read_headers,
    session_key_parameter,
    write_headers,
)
from turnlog.services.http.instants import iso_instant
from turnlog.services.http.json_body import json_members
from turnlog.services.http.json_members import epoch_of, text_of
from turnlog.services.http.query_string import parse_query, session_key_of
from turnlog.services.http.request_body import read_body
from turnlog.services.http.request_headers import after_of, header_map, origin_of
from turnlog.services.http.responses import json_response, position_header
from turnlog.services.reading import Reading

PATH = "/v1/resume-point"


def resume_point_router(conversations: Conversations, reading: Reading) -> APIRouter:
    """The three routes."""
    router = APIRouter(tags=["resume points"])

    @router.get(
        PATH,
        summary="Read a session's resume point and epoch",
        operation_id="getResumePoint",
        responses={
            200: {"model": ResumePointAnswer, "description": "The resume point, or null"},
            **errors(400, 503),
        },
        openapi_extra=read_headers(session_key_parameter()),
    )
    async def get(request: Request) -> Response:
        key = session_key_of(parse_query(request.scope["query_string"]))
        point, epoch = await reading.resume_point(key, after=after_of(header_map(request.scope)))
        shown = None
        if point is not None:
            saved_at = iso_instant(point.saved_ms)
            shown = {"runtime": point.runtime, "resumeId": point.resume_id, "savedAt": saved_at}
        return json_response(_dump({"sessionKey": key, "resumePoint": shown, "epoch": epoch}))

    @router.put(
        PATH,
        summary="Save a session's resume point",
        description="With `epoch` it is saved only if that is still the session's current one.",
        operation_id="saveResumePoint",
        responses={
            200: {"model": ResumePointSavedAnswer, "description": "Saved", **position_headers()},
            **errors(400, 409, 410, 413, 415, 422, 503),
        },
        openapi_extra={**json_request(ResumePointBody), **write_headers()},
    )
    async def put(request: Request) -> Response:
        headers = header_map(request.scope)
        body = await read_body(request.receive, headers)
        members = json_members(headers, body)
        key, runtime, resume_id = (text_of(members, name) for name in ("sessionKey", "runtime", "resumeId"))
        saved = await conversations.save_resume_point(
            key, runtime, resume_id, epoch=epoch_of(members), origin=origin_of(request.scope, headers, body)
        )
        return json_response(b'{"ok":true,"epoch":%d}' % saved.epoch, headers=position_header(saved.position))

    @router.delete(
        PATH,
        summary="Clear a session's resume point",
        operation_id="clearResumePoint",
        responses={
            200: {"model": ResumePointSavedAnswer, "description": "Cleared", **position_headers()},
            **errors(400, 410, 413, 415, 422, 503),
        },
        openapi_extra=write_headers(session_key_parameter()),
    )
    async def delete(request: Request) -> Response:
        key = session_key_of(parse_query(request.scope["query_string"]))
        headers = header_map(request.scope)
        origin = origin_of(request.scope, headers, await read_body(request.receive, headers))
        saved = await conversations.save_resume_point(key, "", None, epoch=None, origin=origin)
        return json_response(b'{"ok":true,"epoch":%d}' % saved.epoch, headers=position_header(saved.position))

    return router


def _dump(answer: dict[str, object]) -> bytes:
    try:
        return orjson.dumps(answer)
    except TypeError:
        raise BadInput("sessionKey must not contain lone surrogates") from None
