"""Judging a saved history before it replaces an agent's own (history-restore.md, "set_history(messages)").

The first failure in message order wins; its index is the one in the input. What is accepted is a deep copy that holds
the known fields alone.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from turnlog.domain.history.messages import AgentMessage, HistoryError, json_text

MAX_HISTORY_BYTES = 2 * 1024 * 1024
"""Largest history in bytes of compact JSON."""

MAX_SHOWN = 200
"""Characters of a foreign value that an error text repeats."""

_ROLES = frozenset({"system", "user", "assistant", "tool"})
_CALL_FIELDS = ("id", "type")
_FUNCTION_FIELDS = ("name", "arguments")


def restored(messages: object) -> list[AgentMessage]:
    """The history that these messages make. Raises HistoryError with the text that the contract fixes."""
    if not isinstance(messages, list):
        raise _refused("expected an array of messages")
    declared: set[str] = set()
    kept: list[AgentMessage] = []
    size = 2
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            raise _refused(f"message at index {index} is not an object")
        role = message.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            raise _refused(f'message at index {index} has unknown role "{_shown(role)}"')
        if role == "system":
            if index > 0:
                raise _refused(f"unexpected system message at index {index} (only a leading system message is allowed)")
            continue
        if role == "tool":
            _check_result(message, index, declared)
        copy, copied_bytes = _copy(message, index)
        size += copied_bytes + 1
        if size > MAX_HISTORY_BYTES:
            raise _refused(f"history is larger than {MAX_HISTORY_BYTES} bytes")
        for call in copy.get("tool_calls", ()):
            call_id = cast("Mapping[str, object]", call).get("id")
            if isinstance(call_id, str):
                declared.add(call_id)
        kept.append(copy)
    return kept


def _refused(reason: str) -> HistoryError:
    return HistoryError(f"set_history: {reason}")


def _check_result(message: dict[str, Any], index: int, declared: set[str]) -> None:
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str) or not call_id or call_id not in declared:
        raise _refused(
            f'tool message at index {index} has orphaned tool_call_id "{_shown(call_id)}" '
            "(no preceding assistant tool call matches it)"
        )


def _copy(message: dict[str, Any], index: int) -> tuple[AgentMessage, int]:
    """The known fields, deep, and their size in bytes of JSON."""
    copy: dict[str, Any] = {"role": message["role"], "content": message.get("content")}
    size = _size(copy, index, "content")
    calls = message.get("tool_calls")
    if calls is not None:
        copy["tool_calls"] = _calls(calls, index)
        size += _size(copy["tool_calls"], index, "tool_calls")
    for name in ("tool_call_id", "name"):
        value = message.get(name)
        if isinstance(value, str) and value:
            copy[name] = value
            size += _size([value], index, name)
    if not isinstance(copy["content"], str | None):
        copy["content"] = _deep(copy["content"])
    return cast("AgentMessage", copy), size


def _calls(calls: object, index: int) -> list[dict[str, Any]]:
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise _refused(f"message at index {index} has malformed tool_calls")
    # Measured first: a cycle would keep the copy from ending.
    found = []
    for call in calls:
        _size([call.get(name) for name in _CALL_FIELDS], index, "tool_calls")
        copy = {name: _deep(call[name]) for name in _CALL_FIELDS if name in call}
        function = call.get("function")
        if isinstance(function, dict):
            _size([function.get(name) for name in _FUNCTION_FIELDS], index, "tool_calls")
            copy["function"] = {name: _deep(function[name]) for name in _FUNCTION_FIELDS if name in function}
        found.append(copy)
    return found


def _size(value: Any, index: int, field: str) -> int:  # noqa: ANN401 - whatever a caller put there
    try:
        return len(json_text(value).encode())
    except (TypeError, ValueError, RecursionError):
        raise _refused(f"message at index {index} has malformed {field}") from None


def _deep(value: Any) -> Any:  # noqa: ANN401 - JSON, already measured and so finite
    return json.loads(json_text([value]))[0]


def _shown(value: object) -> str:
    """A foreign value in an error text: short, without lone surrogates, without running its own code."""
    if value is None:
        return "null"
    if not isinstance(value, str):
        return type(value).__name__
    return value[:MAX_SHOWN].encode("utf-8", "backslashreplace").decode()
