"""What a snapshot wants to know of an array of messages without reading it again: how many turns begin in it, and
whether it replays as it stands (history-restore.md, "Provider-valid replay").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from turnlog.domain.raw_json import InvalidJson, split_object, string_value


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """`text` is the exact JSON array of `count` messages, `users` of which have the role user.

    `valid` only if `provider_valid` would change nothing in it, whatever stands around it: every call is answered right
    behind it. So a snapshot may copy its text unread.
    """

    text: str
    count: int
    users: int
    valid: bool


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    type: Literal["function"]
    function: _Function


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "tool"]
    content: msgspec.Raw
    tool_calls: list[_Call] | msgspec.UnsetType = msgspec.UNSET
    tool_call_id: str | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(list[_Message])


def facts_of(items: Sequence[bytes]) -> MessageFacts:
    """The facts of an array of raw JSON messages."""
    raw = b"[" + b",".join(items) + b"]"
    text = raw.decode()
    try:
        messages = _decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return MessageFacts(text, len(items), sum(_is_user(bytes(item)) for item in items), valid=False)
    return MessageFacts(text, len(items), sum(message.role == "user" for message in messages), _replays(messages))


def _replays(messages: Sequence[_Message]) -> bool:
    expected: list[str] = []
    for message in messages:
        if message.name == "" or not _is_content(message):
            return False
        if message.role == "tool":
            if not expected or message.tool_call_id != expected.pop(0) or message.tool_calls is not msgspec.UNSET:
                return False
            continue
        if expected or message.tool_call_id is not msgspec.UNSET:
            return False
        if message.tool_calls is not msgspec.UNSET:
            expected = _answerable(message)
            if not expected:
                return False
    return not expected


def _is_content(message: _Message) -> bool:
    content = bytes(message.content)
    if content == b"null":
        return message.role == "assistant" and message.tool_calls is not msgspec.UNSET
    return content.startswith((b'"', b"["))


def _answerable(message: _Message) -> list[str]:
    """The ids of the calls, or nothing if one of them couldn't be sent."""
    if message.role != "assistant" or message.tool_calls is msgspec.UNSET:
        return []
    ids = [call.id for call in message.tool_calls if call.id and call.function.name]
    return ids if len(set(ids)) == len(message.tool_calls) else []


def _is_user(item: bytes) -> bool:
    try:
        return string_value(split_object(item).get("role", b"")) == "user"
    except InvalidJson:
        return False
