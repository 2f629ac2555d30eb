"""Agent messages in the chat-completions form (history-restore.md, "AgentMessage"), and their JSON text."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from turnlog.domain.errors import BadInput

Role = Literal["system", "user", "assistant", "tool"]


class FunctionCall(TypedDict):
    """What a tool call calls. `arguments` is a JSON *string*, as the model wrote it."""

    name: str
    arguments: str


class MessageToolCall(TypedDict):
    """One call that an assistant message makes."""

    id: str
    type: str
    function: FunctionCall


class AgentMessage(TypedDict):
    """One message of an agent's history, as plain JSON-able data."""

    role: Role
    content: str | None
    tool_calls: NotRequired[list[MessageToolCall]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]


class HistoryError(BadInput, ValueError):
    """A history that can't be restored; the text says which message and why (history-restore.md). 422 over HTTP."""

    @classmethod
    def status(cls) -> int:
        """422, where other bad input is 400."""
        return 422


def json_text(value: Sequence[Any] | Mapping[str, Any]) -> str:
    """Compact JSON, readable where it can be; a text with lone surrogates is written with escapes throughout.

    Raises ValueError for NaN, infinities and cycles, TypeError for what isn't JSON, RecursionError for deep nesting.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text
