"""The OpenAPI document: what FastAPI knows of its own routes, and the plain routes written out here."""

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from turnlog.services.http import api_schemas as shapes
from turnlog.services.http.api_schemas import (
    GUARD_ERRORS,
    SHAPES,
    Json,
    error_answer,
    error_answers,
    json_request,
    parameter,
    position_headers,
    read_headers,
    reference,
    session_key_parameter,
    write_headers,
)
from turnlog.services.http.history_shapes import HISTORY_SHAPES

DESCRIPTION = """Chat transcripts, one session at a time: read a page, save entries, end a conversation, follow it live.

Every write answers with `Turnlog-Position`; a read that carries it as `Turnlog-After` includes that write.
Errors are always `{"error": "<message>"}`.
"""

_REFERENCE = "chat history"
_STREAMS = "streams"

_TEAM = parameter("id", "path", {"type": "string"}, "The team", required=True)
_AGENT = parameter("id", "path", {"type": "string"}, "The agent", required=True)
_ROOM = parameter("roomId", "query", {"type": "string"}, "A room; General without it")
_FRAMES = """A replay from the cursor, then everything new as it is committed.

Stored entries are frames with `id` (row id) and `data` (the entry); frames named `delta`, `status`, `reset`, `clear`
and `delete` have no id. A comment comes at least every 20 seconds. A client that doesn't read is cut off; it resumes by
its cursor.
"""


def _answer(model: type[BaseModel], description: str, **more: Json) -> Json:
    content = {"application/json": {"schema": reference(model)}}
    return {"200": {"description": description, "content": content, **more}}


def _chat_history() -> Json:
    limit = {"type": "integer", "default": 200, "minimum": 1, "maximum": 1000}
    page = read_headers(
        session_key_parameter(),
        parameter("limit", "query", limit, "Entries a page"),
        parameter("before", "query", {"type": "integer"}, "Only rows below this row id: `nextBefore` of a page"),
    )
    return {
        "get": {
            "summary": "Read the newest page of a session, with a cursor for older",
            "operationId": "getChatHistory",
            **page,
            "responses": {**_answer(shapes.Page, "The page"), **error_answers(400, 500, 503)},
        },
        "post": {
            "summary": "Save transcript entries (repeats are ignored)",
            "operationId": "saveChatHistory",
            **write_headers(),
            **json_request(shapes.SaveBody),
            "responses": {
                **_answer(shapes.Saved, "Saved", **position_headers()),
                **error_answers(400, 409, 410, 413, 415, 422, 500, 503),
            },
        },
        "delete": {
            "summary": "Delete every message of a session",
            "operationId": "deleteChatHistory",
            **write_headers(session_key_parameter()),
            "responses": {
                **_answer(shapes.Done, "Deleted, also when there was nothing", **position_headers()),
                **error_answers(400, 413, 415, 422, 500, 503),
            },
        },
    }


def _reset_context() -> Json:
    return {
        "post": {
            "summary": "End the agent's conversation and add a divider",
            "operationId": "resetContext",
            **write_headers(),
            **json_request(shapes.ResetBody),
            "responses": {
                **_answer(shapes.ResetDone, "The divider that was written", **position_headers()),
                **error_answers(400, 410, 413, 415, 422, 500, 503),
            },
        }
    }


def _stream(owner: Json, operation: str, *more: Json) -> Json:
    cursor = {"type": "string"}
    parameters = read_headers(
        owner,
        *more,
        parameter("since", "query", cursor, "Only rows above this row id"),
        parameter("Last-Event-ID", "header", cursor, "The same; wins over `since`"),
    )
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "get": {
            "summary": "Follow a chat live",
            "description": _FRAMES,
            "operationId": operation,
            **parameters,
            "responses": {"200": {"description": "The stream", "content": content}, **error_answers(400, 503)},
        }
    }


def _frame(name: str) -> Json:
    body = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    return {
        "post": {
            "summary": f"Pass a {name} frame to the team's open streams",
            "description": "The body is the frame's data. It is never stored.",
            "operationId": f"publish{name.capitalize()}",
            "parameters": [_TEAM, _ROOM],
            "requestBody": body,
            "responses": {**_answer(shapes.Done, "Passed on"), **error_answers(400, 413, 415)},
        }
    }


def _plain_paths() -> Json:
    tagged = {
        "/api/chat-history": (_REFERENCE, _chat_history()),
        "/api/chat-history/reset-context": (_REFERENCE, _reset_context()),
        "/api/teams/{id}/chat/stream": (_STREAMS, _stream(_TEAM, "streamTeamChat", _ROOM)),
        "/api/agents/{id}/chat/stream": (_STREAMS, _stream(_AGENT, "streamAgentChat")),
        "/api/teams/{id}/chat/delta": (_STREAMS, _frame("delta")),
        "/api/teams/{id}/chat/status": (_STREAMS, _frame("status")),
    }
    return {
        path: {method: {"tags": [tag], **operation} for method, operation in item.items()}
        for path, (tag, item) in tagged.items()
    }


def openapi_document(app: FastAPI) -> Json:
    """The whole document."""
    document = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
    document["paths"] = {**_plain_paths(), **document["paths"]}
    _, schemas = models_json_schema(
        [(model, "serialization") for model in (*SHAPES, *HISTORY_SHAPES)], ref_template="#/components/schemas/{model}"
    )
    document["components"] = {
        "schemas": dict(sorted(schemas["$defs"].items())),
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "clawboo_access"},
        },
    }
    for path, item in document["paths"].items():
        for operation in item.values():
            _complete(operation, guarded=path.startswith(("/api/", "/v1/")))
    return document


def _complete(operation: Json, *, guarded: bool) -> None:
    """Give an operation what the guards can answer, and take from it what FastAPI would answer by itself."""
    responses = operation["responses"]
    validation = responses.get("422", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if validation.get("$ref", "").endswith("/HTTPValidationError"):
        del responses["422"]
    if guarded:
        operation["security"] = [{"bearer": []}, {"cookie": []}, {}]
        responses.update({str(status): error_answer(status) for status in GUARD_ERRORS})
        responses.setdefault("500", error_answer(500))
    operation["responses"] = dict(sorted(responses.items()))
