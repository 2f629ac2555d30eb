"""The body of a chat-completions answer: a stream of server-sent events, or the whole answer as JSON."""

import json
from collections.abc import AsyncGenerator, Iterator

import httpx

from turnlog.services.providers.answer_deltas import AnswerDeltas
from turnlog.services.providers.provider import ProviderError, ProviderPart
from turnlog.services.providers.sse_lines import AnswerSize, SseLines

REFUSAL_BYTES = 64 << 10
_DONE = "[DONE]"


async def answer_parts(response: httpx.Response) -> AsyncGenerator[ProviderPart, None]:
    """The parts of the answer in `response`. Raises ProviderError for what is neither a stream nor an answer."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    size = AnswerSize()
    if kind == "application/json":
        body = bytearray()
        async for chunk in response.aiter_bytes():
            size.add(chunk)
            body += chunk
        for part in _whole(bytes(body)):
            yield part
        return
    if kind != "text/event-stream":
        raise ProviderError("The provider's answer is of a content type that is neither an event stream nor JSON")
    answer = StreamedAnswer()
    async for chunk in response.aiter_bytes():
        size.add(chunk)
        for part in answer.feed(chunk):
            yield part
        if answer.done:
            return
    for part in answer.end():
        yield part


async def refusal_body(response: httpx.Response) -> bytes:
    """The first 64 KiB of an error's body, or what came of it before the connection was lost."""
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) >= REFUSAL_BYTES:
                break
    except httpx.HTTPError:
        # The status says enough.
        return bytes(body)
    return bytes(body)


def json_value(text: str | bytes) -> object:
    """The value of a JSON text, or None for what isn't one."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class AnswerCutShortError(ProviderError):
    """The answer's stream ended, as if complete, before the answer was."""


class StreamedAnswer:
    """The parts of an answer whose stream is fed in chunks, cut anywhere. `done` once [DONE] was seen."""

    def __init__(self) -> None:
        self._events = SseLines()
        self._deltas = AnswerDeltas()
        self.done = False

    def feed(self, chunk: bytes) -> Iterator[ProviderPart]:
        """The parts that `chunk` completes. Raises ProviderError for a broken stream."""
        if not self.done:
            yield from self._taken(self._events.feed(chunk))

    def end(self) -> Iterator[ProviderPart]:
        """The parts that the end of the body completes. Raises AnswerCutShortError if that isn't all."""
        if not self.done:
            yield from self._taken(self._events.end())
        if self.done:
            return
        if self._deltas.finish_reason is None:
            raise AnswerCutShortError("The provider's answer ended before it was finished")
        self.done = True
        yield from self._deltas.finish()

    def _taken(self, events: Iterator[str]) -> Iterator[ProviderPart]:
        for data in events:
            if self.done:
                return
            if data.strip() == _DONE:
                self.done = True
                yield from self._deltas.finish()
                return
            yield from self._deltas.take(_parsed(data))


def _whole(body: bytes) -> Iterator[ProviderPart]:
    deltas = AnswerDeltas()
    yield from deltas.take_whole(_parsed(body))
    yield from deltas.finish()


def _parsed(text: str | bytes) -> object:
    value = json_value(text)
    if value is None:
        raise ProviderError("The provider sent data that is not JSON")
    return value
