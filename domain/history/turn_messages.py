"""Messages that a turn brings, still as raw JSON: their shape is judged, their bytes are left alone.

What is judged is what replay relies on. Order and pairing aren't: a result may answer a call of an earlier turn, and
`provider_valid.py` puts right what a provider would refuse.
"""

import json
from collections.abc import Sequence

from turnlog.domain.errors import BadInput
from turnlog.domain.history.messages import json_text
from turnlog.domain.raw_json import InvalidJson, split_array, split_object, string_value

_ROLES = frozenset({"user", "assistant", "tool"})


def check_turn_messages(items: Sequence[bytes]) -> None:
    """Refuse messages that could never replay. Raises BadInput naming the field, as `messages[2].role`."""
    for index, item in enumerate(items):
        place = f"messages[{index}]"
        members = _members(item, place)
        _check_numbers(item, place)
        role = string_value(members.get("role", b""))
        if role not in _ROLES:
            raise BadInput(f"{place}.role must be user, assistant or tool")
        content = members.get("content", b"null")
        if not content.startswith((b'"', b"[")) and content != b"null":
            raise BadInput(f"{place}.content must be a string, null or an array of parts")
        if role == "tool" and not string_value(members.get("tool_call_id", b"")):
            raise BadInput(f"{place}.tool_call_id must be a non-empty string")
        calls = members.get("tool_calls", b"null")
        if calls != b"null":
            _check_calls(calls, f"{place}.tool_calls", role)


def _check_numbers(raw: bytes, place: str) -> None:
    """An agent reads what replays as plain values, so every number in it must have one."""
    try:
        json_text(json.loads(raw))
    except (ValueError, RecursionError):
        raise BadInput(f"{place} holds a number, or a nesting, beyond what can be replayed") from None


def _check_calls(raw: bytes, place: str, role: str | None) -> None:
    if role != "assistant":
        raise BadInput(f"{place} belongs to assistant messages alone")
    if not raw.startswith(b"["):
        raise BadInput(f"{place} must be an array")
    ids: set[str] = set()
    for index, item in enumerate(split_array(raw)):
        call = _members(item, f"{place}[{index}]")
        call_id = string_value(call.get("id", b""))
        if not call_id:
            raise BadInput(f"{place}[{index}].id must be a non-empty string")
        if call_id in ids:
            raise BadInput(f"{place}[{index}].id is there twice")
        ids.add(call_id)
        function = _members(call.get("function", b""), f"{place}[{index}].function")
        if not string_value(function.get("name", b"")):
            raise BadInput(f"{place}[{index}].function.name must be a non-empty string")
        if string_value(function.get("arguments", b"")) is None:
            raise BadInput(f"{place}[{index}].function.arguments must be a string")


def _members(raw: bytes, place: str) -> dict[str, bytes]:
    if not raw.startswith(b"{"):
        raise BadInput(f"{place} must be an object")
    try:
        return split_object(raw)
    except InvalidJson:
        raise BadInput(f"{place} must be an object") from None
