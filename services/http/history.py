"""GET and PUT /v1/history: what an agent continues from, and putting a saved history in its place."""

import json
from collections.abc import AsyncIterator

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from turnlog.domain.errors import BadInput
from turnlog.domain.history.messages import json_text
from turnlog.domain.history.snapshot import HistorySnapshot
from turnlog.services.agent_turns import AgentTurns
from turnlog.services.http.api_schemas import (
    ApiError,
    errors,
    json_request,
    position_headers,
    read_headers,
    write_headers,
)
from turnlog.services.http.api_schemas import parameter as described
from turnlog.services.http.api_schemas import session_key_parameter as session_key
from turnlog.services.http.history_shapes import History, HistoryBody, Written
from turnlog.services.http.instants import iso_instant
from turnlog.services.http.json_body import json_members
from turnlog.services.http.json_members import epoch_of, text_of
from turnlog.services.http.query_string import one_value, parse_query, session_key_of
from turnlog.services.http.request_body import read_body
from turnlog.services.http.request_headers import after_of, header_map, origin_of
from turnlog.services.http.responses import JSON_HEADERS, json_response, position_header
from turnlog.services.snapshots import Snapshots

PATH = "/v1/history"

MESSAGES_AT_ONCE = 256
"""Messages written before other tasks get a turn."""

MOST = 1_000_000_000
"""The greatest window anybody can ask for, in turns or tokens."""


def history_router(turns: AgentTurns, snapshots: Snapshots) -> APIRouter:
    """The two routes."""
    router = APIRouter(tags=["history"])
    bound = {"type": "integer", "minimum": 1, "maximum": MOST}

    @router.get(
        PATH,
        summary="Read what an agent continues from",
        description="The messages in context, oldest first, acceptable to any provider; `repairs` lists what had to be "
        "changed for that. Windows begin at a user message. Tokens are estimated: four characters each.",
        operation_id="getHistory",
        responses={200: {"model": History, "description": "The snapshot"}, **errors(400, 503)},
        openapi_extra=read_headers(
            session_key(),
            described("last", "query", bound, "Only the newest turns, this many"),
            described("maxTokens", "query", bound, "Only the newest turns that fit"),
            described("repair", "query", {"type": "boolean", "default": True}, "`false`: the messages as stored"),
        ),
    )
    async def get(request: Request) -> Response:
        query = parse_query(request.scope["query_string"])
        snapshot = await snapshots.history(
            session_key_of(query),
            last=_bound(query, "last"),
            max_tokens=_bound(query, "maxTokens"),
            repair=_flag(query, "repair"),
            after=after_of(header_map(request.scope)),
        )
        return StreamingResponse(_written(snapshot), headers=JSON_HEADERS)

    @router.put(
        PATH,
        summary="Put a saved history in the place of what an agent continues from",
        description="The transcript stays. The resume point is cleared. A history that breaks a rule is refused with "
        "422 and changes nothing.",
        operation_id="setHistory",
        responses={
            200: {"model": Written, "description": "Restored", **position_headers()},
            **errors(400, 409, 410, 413, 415, 503),
            422: {"model": ApiError, "description": "The history breaks a rule; or the Idempotency-Key is known"},
        },
        openapi_extra={**json_request(HistoryBody), **write_headers()},
    )
    async def put(request: Request) -> Response:
        headers = header_map(request.scope)
        body = await read_body(request.receive, headers)
        members = json_members(headers, body)
        key, epoch = text_of(members, "sessionKey"), epoch_of(members)
        origin = origin_of(request.scope, headers, body)
        written = await turns.restore(key, _value(members.get("messages", b"null")), epoch=epoch, origin=origin)
        answer = {"ok": True, "position": str(written.position), "epoch": written.epoch}
        return json_response(orjson.dumps(answer), headers=position_header(written.position))

    return router


async def _written(snapshot: HistorySnapshot) -> AsyncIterator[str]:
    """The answer in pieces: each send gives other tasks a turn."""
    head = {"sessionKey": snapshot.session_key, "position": str(snapshot.position), "epoch": snapshot.epoch}
    yield json_text(head)[:-1] + ',"messages":['
    for start in range(0, len(snapshot.messages), MESSAGES_AT_ONCE):
        yield ("," if start else "") + json_text(snapshot.messages[start : start + MESSAGES_AT_ONCE])[1:-1]
    point = snapshot.resume_point
    shown = None
    if point is not None:
        shown = {"runtime": point.runtime, "resumeId": point.resume_id, "savedAt": iso_instant(point.saved_ms)}
    repairs = [{"kind": kind, "rowId": row_id, "callId": call_id} for kind, row_id, call_id in snapshot.repairs]
    yield "]," + json_text({"resumePoint": shown, "repairs": repairs})[1:]


def _value(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise BadInput("messages hold a number beyond what can be replayed") from None


def _bound(query: list[tuple[str, str]], name: str) -> int | None:
    text = one_value(query, name)
    if text is None and all(key != name for key, _ in query):
        return None
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 10 or not 1 <= int(text) <= MOST:
        raise BadInput(f"{name} must be an integer from 1 to {MOST}")
    return int(text)


def _flag(query: list[tuple[str, str]], name: str) -> bool:
    given = [value for key, value in query if key == name or key.startswith(name + "[")]
    if given in ([], ["true"], ["false"]):
        return given != ["false"]
    raise BadInput(f"{name} must be true or false")
