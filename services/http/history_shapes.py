"""Shapes of the history and turn routes in the OpenAPI document."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from turnlog.services.http.api_schemas import ResumePoint, TranscriptEntry


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class CalledFunction(BaseModel):
    """What a tool call calls."""

    name: str = Field(min_length=1)
    arguments: str = Field(description="JSON text, as the model wrote it")


class Call(BaseModel):
    """One tool call."""

    id: str = Field(min_length=1)
    type: str = "function"
    function: CalledFunction


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow")

    content: str | list[Any] | None = None
    name: str | None = None


class UserMessage(_Message):
    """What a person said, in the chat-completions form."""

    role: Literal["user"]
    tool_calls: None = None


class AssistantMessage(_Message):
    """What the model said, and the tools it called. No two calls of a message have the same id."""

    role: Literal["assistant"]
    tool_calls: list[Call] | None = None


class ToolMessage(_Message):
    """What a call gave."""

    role: Literal["tool"]
    tool_call_id: str = Field(min_length=1)
    tool_calls: None = None


class Repair(_Shape):
    """One difference between what is stored and what is sent."""

    kind: str
    row_id: int | None
    call_id: str | None


class History(_Shape):
    """What an agent continues from."""

    session_key: str
    position: str = Field(description="Of the session's last turn or ending; pass it as `ifPosition`")
    epoch: int
    messages: list[dict[str, Any]]
    resume_point: ResumePoint | None
    repairs: list[Repair]


class HistoryBody(_Shape):
    """A saved history. A leading system message is left out; every other rule is in the description of the contract."""

    session_key: str = Field(min_length=1, max_length=1024)
    messages: list[dict[str, Any]]
    epoch: int | None = Field(default=None, ge=0, description="Restore only if this is still the current one")


class Written(_Shape):
    """Where a write stands."""

    ok: Literal[True]
    position: str
    epoch: int


class TurnResumePoint(_Shape):
    """Where the agent's runtime continues; a null `resumeId` clears it."""

    runtime: str = Field(min_length=1, max_length=1024)
    resume_id: str | None = Field(max_length=1024)


class TurnBody(_Shape):
    """One turn: messages (what replays), entries (what pages show), or both."""

    session_key: str = Field(min_length=1, max_length=1024)
    messages: list[UserMessage | AssistantMessage | ToolMessage] | None = None
    entries: list[TranscriptEntry] | None = None
    gateway_url: str | None = None
    run_id: str | None = Field(default=None, max_length=1024)
    epoch: int | None = Field(default=None, ge=0, description="The epoch it began under; a late turn is set aside")
    if_position: str | None = Field(
        default=None,
        pattern=r"^[0-9]{1,4}-[0-9]{1,16}$",
        description="Append only if this is the session's last position",
    )
    based_on: int | None = Field(default=None, ge=0, description="The row id it was prompted from")
    outcome: Literal["ok", "failed", "interrupted"] = "ok"
    error: str | None = None
    usage: dict[str, Any] | None = None
    finish_reason: str | None = None
    resume_point: TurnResumePoint | None = None
    agent: str | None = None
    model: str | None = None


HISTORY_SHAPES: tuple[type[BaseModel], ...] = (
    CalledFunction,
    Call,
    UserMessage,
    AssistantMessage,
    ToolMessage,
    Repair,
    History,
    HistoryBody,
    Written,
    TurnResumePoint,
    TurnBody,
)
"""Every shape of these routes."""
