"""POST /v1/turns: one turn, messages and entries together, as one atomic event."""

from typing import Literal, cast, get_args

import anyio.to_thread
import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from turnlog.domain.entries import entry_id_of
from turnlog.domain.errors import BadInput
from turnlog.domain.event_data import ResumePointData
from turnlog.domain.history.turn_messages import check_turn_messages
from turnlog.domain.positions import Position, parse_position
from turnlog.domain.raw_json import split_array, split_object
from turnlog.domain.session_key import check_name
from turnlog.services.agent_turns import AgentTurns, NewTurn
from turnlog.services.http.api_schemas import errors, json_request, position_headers, write_headers
from turnlog.services.http.history_shapes import TurnBody, Written
from turnlog.services.http.json_body import json_members
from turnlog.services.http.json_members import count_of, epoch_of, optional_text_of, text_of
from turnlog.services.http.request_body import OFF_LOOP_BYTES, read_body
from turnlog.services.http.request_headers import header_map, origin_of
from turnlog.services.http.responses import json_response, position_header

Outcome = Literal["ok", "failed", "interrupted"]


def turn_router(turns: AgentTurns) -> APIRouter:
    """The one route."""
    router = APIRouter(tags=["history"])

    @router.post(
        "/v1/turns",
        summary="Append one turn of an agent",
        description="All of it or nothing. `messages`, where given (also empty), are exactly what replays; without "
        "them the entries do. The answer comes once the tables show the turn. Without an Idempotency-Key a retry is "
        "another turn.",
        operation_id="appendTurn",
        responses={
            200: {"model": Written, "description": "Appended", **position_headers()},
            **errors(400, 409, 410, 413, 415, 422, 503),
        },
        openapi_extra={**json_request(TurnBody), **write_headers()},
    )
    async def post(request: Request) -> Response:
        headers = header_map(request.scope)
        body = await read_body(request.receive, headers)
        members = json_members(headers, body)
        if len(body) > OFF_LOOP_BYTES:
            turn = await anyio.to_thread.run_sync(_turn, members)
        else:
            turn = _turn(members)
        written = await turns.append(turn, origin=origin_of(request.scope, headers, body))
        answer = {"ok": True, "position": str(written.position), "epoch": written.epoch}
        return json_response(orjson.dumps(answer), headers=position_header(written.position))

    return router


def _turn(members: dict[str, bytes]) -> NewTurn:
    key = text_of(members, "sessionKey")
    messages, entries = _array(members, "messages"), _array(members, "entries") or []
    if messages is None and not entries:
        raise BadInput("messages or entries required")
    if messages is not None:
        check_turn_messages(messages)
    for index, entry in enumerate(entries):
        entry_id = entry_id_of(entry)
        if not entry_id:
            raise BadInput(f"entries[{index}].entryId must be a non-empty string")
        check_name(entry_id, f"entries[{index}].entryId")
    gateway_url, run_id = optional_text_of(members, "gatewayUrl") or "", optional_text_of(members, "runId")
    for name, value in (("gatewayUrl", gateway_url), ("runId", run_id)):
        if value and "\x00" in value:
            raise BadInput(f"{name} must not contain U+0000")
    return NewTurn(
        session_key=key,
        entries=entries,
        messages=messages,
        gateway_url=gateway_url,
        run_id=run_id,
        epoch=epoch_of(members),
        if_position=_if_position(members),
        based_on=count_of(members, "basedOn"),
        outcome=_outcome(members),
        error=optional_text_of(members, "error"),
        usage=_usage(members),
        finish_reason=optional_text_of(members, "finishReason"),
        resume_point=_resume_point(members),
        agent=optional_text_of(members, "agent"),
        model=optional_text_of(members, "model"),
    )


def _array(members: dict[str, bytes], name: str) -> list[bytes] | None:
    raw = members.get(name, b"null")
    if raw == b"null":
        return None
    if not raw.startswith(b"["):
        raise BadInput(f"{name} must be an array")
    return split_array(raw)


def _if_position(members: dict[str, bytes]) -> Position | None:
    text = optional_text_of(members, "ifPosition")
    if text is None:
        return None
    try:
        return parse_position(text)
    except BadInput:
        raise BadInput('ifPosition must be a position such as "0-1234"') from None


def _outcome(members: dict[str, bytes]) -> Outcome:
    text = optional_text_of(members, "outcome") or "ok"
    if text not in get_args(Outcome):
        raise BadInput("outcome must be ok, failed or interrupted")
    return cast("Outcome", text)


def _usage(members: dict[str, bytes]) -> bytes | None:
    raw = members.get("usage", b"null")
    if raw == b"null":
        return None
    if not raw.startswith(b"{"):
        raise BadInput("usage must be an object")
    return raw


def _resume_point(members: dict[str, bytes]) -> ResumePointData | None:
    raw = members.get("resumePoint", b"null")
    if raw == b"null":
        return None
    if not raw.startswith(b"{"):
        raise BadInput("resumePoint must be an object")
    point = split_object(raw)
    prefixed = {f"resumePoint.{name}": raw for name, raw in point.items()}
    runtime, resume_id = text_of(prefixed, "resumePoint.runtime"), optional_text_of(prefixed, "resumePoint.resumeId")
    check_name(runtime, "resumePoint.runtime")
    check_name(resume_id or "", "resumePoint.resumeId")
    return ResumePointData(runtime, resume_id or None)
