"""One open stream: what waits for its client, bounded in bytes."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from turnlog.services.http.stream_pages import Frame

PIECE_BYTES = 32 * 1024
"""About how much goes out in one write."""


class StreamClient:
    """The queue between a feed and one connection. `cursor` is the last row id sent or known to be invisible.

    Frames are shared between clients, so a queue costs little more than references. When more than `max_bytes` wait,
    the client is cut off; it resumes by its cursor.
    """

    def __init__(self, cursor: int, max_bytes: int, abort: Callable[[], None] | None) -> None:
        self.cursor = cursor
        self.live = False
        self.ended = False
        self.last_sent = asyncio.get_running_loop().time()
        self._max_bytes = max_bytes
        self._abort = abort
        self._waiting: deque[Frame] = deque()
        self._bytes = 0
        self._ready = asyncio.Event()

    def offer(self, frames: list[Frame]) -> None:
        """Queue frames, or cut the client off. One frame always fits: nobody is cut off by a single big entry."""
        for frame in frames:
            if self.ended:
                return
            if self._waiting and self._bytes + len(frame.data) > self._max_bytes:
                self.cut_off()
                return
            self._waiting.append(frame)
            self._bytes += len(frame.data)
        self._ready.set()

    def end(self) -> None:
        """Let the stream end in good order."""
        self.ended = True
        self._ready.set()

    def cut_off(self) -> None:
        """Close the connection at once; what waits is dropped."""
        self.end()
        self._waiting.clear()
        if self._abort is not None:
            self._abort()

    async def next_piece(self) -> bytes:
        """The next bytes to send, of entries only those above the cursor. Empty once the stream has ended."""
        while True:
            await self._ready.wait()
            piece = self._take()
            if piece or self.ended:
                return piece
            self._ready.clear()

    def _take(self) -> bytes:
        taken: list[bytes] = []
        size = 0
        while self._waiting and size < PIECE_BYTES:
            row, data = self._waiting.popleft()
            self._bytes -= len(data)
            if row:
                if row <= self.cursor:
                    continue
                self.cursor = row
            taken.append(data)
            size += len(data)
        return b"".join(taken)


def pieces(frames: Sequence[Frame]) -> Iterator[bytes]:
    """The frames' bytes, joined into pieces of about `PIECE_BYTES`."""
    piece: list[bytes] = []
    size = 0
    for frame in frames:
        piece.append(frame.data)
        size += len(frame.data)
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)
