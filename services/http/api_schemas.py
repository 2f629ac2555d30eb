"""The shapes of the API as its OpenAPI document shows them. Requests are read by hand (`json_body.py`), exactly as
the reference does; these models describe, they don't validate.
"""

from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Json = dict[str, Any]

POSITION = "0-1234"


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ApiError(_Shape):
    """Every error of the API."""

    error: str
    epoch: int | None = Field(default=None, description="On 409: the session's current epoch")


class EntryOrigin(_Shape):
    """Who posted an entry, if a routine did."""

    kind: Literal["routine"]
    routine_id: str
    routine_name: str


class TranscriptEntry(_Shape):
    """One entry of a transcript. Stored as sent; only `entryId` is looked at."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    entry_id: str = Field(description="At most 1,024 bytes; a repeat within the session is ignored", max_length=1024)
    role: Literal["user", "assistant", "tool", "system", "other"] | None = None
    kind: Literal["meta", "user", "assistant", "thinking", "tool"] | None = None
    text: str | None = None
    session_key: str | None = None
    run_id: str | None = None
    source: Literal["local-send", "runtime-chat", "runtime-agent", "history", "legacy"] | None = None
    timestamp_ms: float | None = None
    sequence_key: float | None = None
    confirmed: bool | None = None
    fingerprint: str | None = None
    origin: EntryOrigin | None = None


class Page(_Shape):
    """A page of entries, oldest first."""

    entries: list[TranscriptEntry]
    has_more: bool
    next_before: int | None = Field(description="Pass as `before` for the page before; null at the session's start")


class SaveBody(_Shape):
    """Entries to save in one session."""

    session_key: str = Field(min_length=1, max_length=1024)
    gateway_url: str = ""
    entries: list[TranscriptEntry] = Field(min_length=1)


class Saved(_Shape):
    """What was saved."""

    ok: Literal[True]
    saved: int = Field(description="Entries received")
    stored: int = Field(description="Usable entries accepted into the log")


class ResetBody(_Shape):
    """Sessions whose context ends."""

    session_keys: list[str] = Field(min_length=1)
    notice_session_key: str | None = Field(default=None, description="One of `sessionKeys`; the first by default")


class ResetDone(_Shape):
    """The divider that was written."""

    ok: Literal[True]
    entry: TranscriptEntry


class Done(_Shape):
    """It is done."""

    ok: Literal[True]


class ClearBody(_Shape):
    """What to clear."""

    room_id: str | None = Field(default=None, description="A room, `*` for all; General without it", min_length=1)


class Cleared(_Shape):
    """What was cleared."""

    ok: Literal[True]
    cleared_at: int = Field(description="Unix ms")
    session_keys: list[str]


class ResumePoint(_Shape):
    """The saved session that an agent continues from."""

    runtime: str
    resume_id: str
    saved_at: str = Field(json_schema_extra={"format": "date-time"})


class ResumePointAnswer(_Shape):
    """A session's resume point and epoch."""

    session_key: str
    resume_point: ResumePoint | None
    epoch: int = Field(description="Grows with every reset, clear and delete")


class ResumePointBody(_Shape):
    """A resume point to save."""

    session_key: str = Field(min_length=1, max_length=1024)
    runtime: str = Field(min_length=1, max_length=1024)
    resume_id: str = Field(min_length=1, max_length=1024)
    epoch: int | None = Field(default=None, description="Save only if this is still the current one", ge=0)


class ResumePointSavedAnswer(_Shape):
    """A resume point was saved or cleared."""

    ok: Literal[True]
    epoch: int


class ListedSession(_Shape):
    """One conversation."""

    session_key: str
    entries: int
    epoch: int
    last_activity: str = Field(json_schema_extra={"format": "date-time"})


class SessionPage(_Shape):
    """A page of the session list."""

    sessions: list[ListedSession]
    next_cursor: str | None


class Health(_Shape):
    """The process answers."""

    ok: Literal[True]


class Readiness(_Shape):
    """Whether traffic is welcome, with the figures behind it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    ok: bool
    draining: bool


SHAPES: tuple[type[BaseModel], ...] = (
    ApiError,
    EntryOrigin,
    TranscriptEntry,
    Page,
    SaveBody,
    Saved,
    ResetBody,
    ResetDone,
    Done,
    ClearBody,
    Cleared,
    ResumePoint,
    ResumePointAnswer,
    ResumePointBody,
    ResumePointSavedAnswer,
    ListedSession,
    SessionPage,
    Health,
    Readiness,
)
"""Every shape of the document."""

_ERRORS = {
    400: "The request breaks a rule; the text names the field",
    409: "A condition didn't hold",
    410: "The session was deleted at or after the request was first sent",
    413: "The body is larger than 2 MiB after decompression",
    415: "A content encoding or charset that isn't read",
    422: "The Idempotency-Key is known with another request of this operation on the same session or scope",
    500: "The database is out of reach, or turnlog is at fault",
    503: "Not applied yet, or something turnlog depends on is out of reach; see Retry-After",
}

GUARD_ERRORS = {
    401: "No access token, or a wrong one",
    403: "Host, Origin or Sec-Fetch-Site is foreign",
    429: "Too many requests; see Retry-After",
}


def errors(*statuses: int) -> dict[int | str, Json]:
    """The error answers of an operation."""
    return {status: {"model": ApiError, "description": _ERRORS[status]} for status in statuses}


def error_answers(*statuses: int) -> Json:
    """The same for operations that are written by hand."""
    return {str(status): error_answer(status) for status in statuses}


def error_answer(status: int) -> Json:
    """One error answer, written out."""
    described = {**_ERRORS, **GUARD_ERRORS}
    answer: Json = {
        "description": described.get(status, HTTPStatus(status).phrase),
        "content": {"application/json": {"schema": reference(ApiError)}},
    }
    if status in (429, 503):
        answer["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds"}}
    return answer


def reference(model: type[BaseModel]) -> Json:
    """A reference to a model's schema among the components."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def position_headers() -> Json:
    """The header that every write answers with."""
    described = "Where the write stands in the log; pass it as Turnlog-After to read what it did"
    header = {"schema": {"type": "string", "example": POSITION}, "description": described}
    return {"headers": {"Turnlog-Position": header}}


def json_request(model: type[BaseModel], *, required: bool = True) -> Json:
    """A JSON request body."""
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": reference(model)}}}}


def parameter(name: str, where: str, schema: Json, description: str, *, required: bool = False) -> Json:
    """One parameter."""
    return {"name": name, "in": where, "required": required, "schema": schema, "description": description}


def session_key_parameter() -> Json:
    """The session key in a query."""
    schema = {"type": "string", "minLength": 1, "maxLength": 1024}
    return parameter("sessionKey", "query", schema, "The session", required=True)


def read_headers(*parameters: Json) -> Json:
    """Parameters of a read: its own, and how far the tables must be."""
    schema = {"type": "string", "pattern": r"^\d{1,4}-\d{1,16}(\s*,\s*\d{1,4}-\d{1,16})*$", "example": POSITION}
    after = parameter("Turnlog-After", "header", schema, "Positions that the answer must include")
    return {"parameters": [*parameters, after]}


def write_headers(*parameters: Json) -> Json:
    """Parameters of a write: its own, and how a retry is recognised."""
    schema = {"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"}
    key = parameter("Idempotency-Key", "header", schema, "A retry with the same key answers as the first did")
    return {"parameters": [*parameters, key]}
