"""Cutting a history to the newest part at a turn boundary (history-restore.md, "Provider-valid replay").

A window starts at a user message, so it never begins inside a tool exchange.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

TokenCounter = Callable[[Mapping[str, Any]], int]
"""How many tokens one message costs."""

CHARACTERS_PER_TOKEN = 4
"""What the default counter assumes: no tokenizer, four characters a token, rounded up."""

_TEXTS = ("content", "name", "tool_call_id")


def estimated_tokens(message: Mapping[str, Any]) -> int:
    """The default counter: characters of all texts of the message, tool calls included, by four, at least one."""
    return max(1, -(-_characters(message) // CHARACTERS_PER_TOKEN))


def last_turns(messages: Sequence[Mapping[str, Any]], turns: int) -> int:
    """The index where the newest `turns` turns begin; 0 if there are no more than that. A turn begins at a user
    message; without one there is no place to cut.
    """
    seen = 0
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "user":
            seen += 1
            if seen == turns:
                return index
    return 0


def within_tokens(messages: Sequence[Mapping[str, Any]], limit: int, count: TokenCounter = estimated_tokens) -> int:
    """The index of the earliest user message from which on everything fits into `limit` tokens; the length of the list
    if not even the newest turn fits; 0 if all fits.
    """
    spent, start = 0, len(messages)
    for index in range(len(messages) - 1, -1, -1):
        spent += count(messages[index])
        if spent > limit:
            return start
        if messages[index].get("role") == "user":
            start = index
    return 0


def _characters(message: Mapping[str, Any]) -> int:
    found = sum(len(message[name]) for name in _TEXTS if isinstance(message.get(name), str))
    if isinstance(message.get("content"), list):
        found += sum(len(str(part)) for part in message["content"])
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            found += sum(len(value) for value in function.values() if isinstance(value, str))
    return found
