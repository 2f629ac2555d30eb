"""Server-sent events as bytes arrive: lines end in CR, LF or CR LF, and a blank line ends an event."""

import re
from collections.abc import Iterator

from turnlog.services.providers.provider import ProviderError

LINE_BYTES = 1 << 20
ANSWER_BYTES = 16 << 20

_LINE_END = re.compile(rb"\r\n|\r|\n")


class AnswerSize:
    """Counts the bytes of one answer, keepalives included. `add` raises ProviderError beyond `limit` bytes."""

    def __init__(self, limit: int = ANSWER_BYTES) -> None:
        self._limit = limit
        self._bytes = 0

    def add(self, chunk: bytes) -> None:
        """Counts `chunk`."""
        self._bytes += len(chunk)
        if self._bytes > self._limit:
            raise ProviderError(f"The provider's answer is larger than {self._limit} bytes")


class SseLines:
    """Puts the data of events together, whatever the cuts between the chunks are."""

    def __init__(self, line_limit: int = LINE_BYTES) -> None:
        self._limit = line_limit
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._after_cr = False
        self._first = True
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The data of each event that `chunk` completes. Raises ProviderError for a line beyond the limit."""
        if self._after_cr and chunk:
            # The CR has ended the line already; an LF right after it belongs to it.
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        self._after_cr = self._after_cr or chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        for piece in ended:
            self._keep(piece)
            yield from self._line()
        self._keep(rest)

    def end(self) -> Iterator[str]:
        """The data of an event that the end of the stream cut short of its blank line."""
        if self._rest_bytes:
            yield from self._line()
        yield from self._event()

    def _keep(self, piece: bytes) -> None:
        self._rest_bytes += len(piece)
        if self._rest_bytes > self._limit:
            raise ProviderError(f"The provider sent a line of more than {self._limit} bytes")
        if piece:
            self._rest.append(piece)

    def _line(self) -> Iterator[str]:
        line = b"".join(self._rest).decode(errors="replace")
        self._rest.clear()
        self._rest_bytes = 0
        if self._first:
            line = line.removeprefix("\ufeff")
            self._first = False
        if not line:
            yield from self._event()
            return
        name, colon, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif name not in {"", "event", "id", "retry"} or (name and not colon):
            # A comment has an empty name. The standard ignores other names, but here they are a broken answer.
            raise ProviderError("The provider sent a line that is no server-sent event")

    def _event(self) -> Iterator[str]:
        data = "\n".join(self._data)
        self._data.clear()
        # Empty data is no event, the standard says, and some servers keep a connection alive with it.
        if data:
            yield data
