"""From the chunks of a chat completion to the parts of an answer."""

from collections.abc import Iterator
from typing import Any

from turnlog.services.providers.call_deltas import CallDeltas
from turnlog.services.providers.checked_values import count, items, mapping, text, whole_characters
from turnlog.services.providers.error_codes import error_code
from turnlog.services.providers.provider import ProviderError, ProviderPart, ResponseMetadata


class AnswerDeltas:
    """One answer while it comes. Every method raises ProviderError for what breaks the protocol."""

    def __init__(self) -> None:
        self._calls = CallDeltas()
        self._held = ""
        self.finish_reason: str | None = None
        self._usage: dict[str, int | None] = {}

    def take(self, chunk: object) -> Iterator[str]:
        """The text in a chunk, if there is any; the rest is kept until `finish`."""
        choice = self._choice(chunk)
        if choice is not None:
            yield from self._delta(mapping(choice.get("delta") or {}, "delta"))
            self.finish_reason = text(choice.get("finish_reason"), "finish_reason") or self.finish_reason

    def take_whole(self, completion: object) -> Iterator[str]:
        """The text of an answer that came in one piece, not as a stream."""
        choice = self._choice(completion)
        if choice is None:
            raise ProviderError("The provider's answer has no choices")
        message = mapping(choice.get("message"), "message")
        calls = items(message.get("tool_calls"), "tool_calls")
        numbered = [mapping(call, "tool_calls") | {"index": index} for index, call in enumerate(calls)]
        yield from self._delta(message | {"tool_calls": numbered})
        self.finish_reason = text(choice.get("finish_reason"), "finish_reason") or None

    def finish(self) -> Iterator[ProviderPart]:
        """What is known only at the end: held text, the calls in the order of their indexes, the metadata."""
        if self._held:
            yield self._held
            self._held = ""
        yield from self._calls.finish()
        usage = self._usage
        yield ResponseMetadata(
            self.finish_reason,
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
            usage.get("total_tokens"),
        )

    def _choice(self, chunk: object) -> dict[str, Any] | None:
        found = mapping(chunk, "chunk")
        if found.get("error") is not None:
            code = error_code(found)
            raise ProviderError("The provider reported an error in its answer" + (f": {code}" if code else ""))
        if found.get("usage") is not None:
            usage = mapping(found["usage"], "usage")
            self._usage = {
                name: count(usage.get(name), name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
            }
        for choice in items(found.get("choices"), "choices"):
            if mapping(choice, "choices").get("index", 0) in (0, None):
                return dict(choice)
        return None

    def _delta(self, delta: dict[str, Any]) -> Iterator[str]:
        if piece := self._joined(text(delta.get("content"), "content")):
            yield piece
        for call in items(delta.get("tool_calls"), "tool_calls"):
            self._calls.take(mapping(call, "tool_calls"))

    def _joined(self, piece: str) -> str:
        # Some servers cut between the two escapes of one character: a first half waits for its second.
        if not piece:
            return ""
        if self._held:
            piece = whole_characters(self._held + piece)
            self._held = ""
        if "\ud800" <= piece[-1] <= "\udbff":
            self._held, piece = piece[-1], piece[:-1]
        return piece
