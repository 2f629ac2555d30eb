"""From the chunks of a chat completion to the parts of an answer."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from turnlog.services.providers.provider import ProviderError, ProviderPart, ResponseMetadata, ToolCall

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def error_code(body: object) -> str | None:
    """The code or type in an error object, if it is a plain word: its message may quote what users wrote."""
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        for name in ("code", "type"):
            code = error.get(name)
            if isinstance(code, str) and _CODE.fullmatch(code):
                return code
    return None


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


class AnswerDeltas:
    """One answer while it comes. Every method raises ProviderError for what breaks the protocol."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._last_call = -1
        self._held = ""
        self.finish_reason: str | None = None
        self._usage: dict[str, int | None] = {}

    def take(self, chunk: object) -> Iterator[str]:
        """The text in a chunk, if there is any; the rest is kept until `finish`."""
        choice = self._choice(chunk)
        if choice is not None:
            yield from self._delta(_mapping(choice.get("delta") or {}, "delta"))
            self.finish_reason = _text(choice.get("finish_reason"), "finish_reason") or self.finish_reason

    def take_whole(self, completion: object) -> Iterator[str]:
        """The text of an answer that came in one piece, not as a stream."""
        choice = self._choice(completion)
        if choice is None:
            raise ProviderError("The provider's answer has no choices")
        message = _mapping(choice.get("message"), "message")
        calls = _list(message.get("tool_calls"), "tool_calls")
        numbered = [_mapping(call, "tool_calls") | {"index": index} for index, call in enumerate(calls)]
        yield from self._delta(message | {"tool_calls": numbered})
        self.finish_reason = _text(choice.get("finish_reason"), "finish_reason") or None

    def finish(self) -> Iterator[ProviderPart]:
        """What is known only at the end: held text, the calls in the order of their indexes, the metadata."""
        if self._held:
            yield self._held
            self._held = ""
        for _, call in sorted(self._calls.items()):
            if not call.id:
                raise ProviderError("The provider sent a tool call without an id")
            if not call.name:
                raise ProviderError("The provider sent a tool call without a name")
        for _, call in sorted(self._calls.items()):
            yield ToolCall(call.id, call.name, call.arguments)
        usage = self._usage
        yield ResponseMetadata(
            self.finish_reason,
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            usage.get("total_tokens"),
        )

    def _choice(self, chunk: object) -> dict[str, Any] | None:
        found = _mapping(chunk, "chunk")
        if found.get("error") is not None:
            code = error_code(found)
            raise ProviderError("The provider reported an error in its answer" + (f": {code}" if code else ""))
        if found.get("usage") is not None:
            usage = _mapping(found["usage"], "usage")
            self._usage = {
                name: _count(usage.get(name), name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
            }
        for choice in _list(found.get("choices"), "choices"):
            if _mapping(choice, "choices").get("index", 0) in (0, None):
                return dict(choice)
        return None

    def _delta(self, delta: dict[str, Any]) -> Iterator[str]:
        if text := self._joined(_text(delta.get("content"), "content")):
            yield text
        for call in _list(delta.get("tool_calls"), "tool_calls"):
            self._call(_mapping(call, "tool_calls"))

    def _joined(self, text: str) -> str:
        # Some servers cut between the two escapes of one character: a first half waits for its second.
        if not text:
            return ""
        if self._held:
            text = (self._held + text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
            self._held = ""
        if "\ud800" <= text[-1] <= "\udbff":
            self._held, text = text[-1], text[:-1]
        return text

    def _call(self, delta: dict[str, Any]) -> None:
        function = _mapping(delta.get("function") or {}, "function")
        call_id, name = _text(delta.get("id"), "id"), _text(function.get("name"), "name")
        index = delta.get("index")
        if index is None:
            # Servers that leave the index out send an id with every new call.
            index = max(self._calls, default=-1) + 1 if call_id else self._last_call
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise ProviderError("The provider sent a tool call without a usable index")
        call = self._calls.setdefault(index, _Call())
        self._last_call = index
        # Some servers repeat the whole id and name in every delta; everything else is the next piece.
        if not (call.id and call_id == call.id and name in ("", call.name)):
            call.id += call_id
            call.name += name
        call.arguments += _text(function.get("arguments"), "arguments")


def _mapping(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProviderError(f"The provider sent a {name} that is not an object")
    return value


def _list(value: object, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ProviderError(f"The provider sent {name} that are not a list")
    return value


def _text(value: object, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ProviderError(f"The provider sent {name} that is not a text")
    return value


def _count(value: object, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ProviderError(f"The provider sent {name} that is not a count")
    return value
