"""Pages of a live stream, read once for everybody who is at the same place, and sized by their bytes."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import anyio
import structlog

from turnlog.domain.errors import RETRIABLE, TurnlogError
from turnlog.domain.stream_selection import StreamSelection
from turnlog.services.http.sse import entry_frame

PAGE_BYTES = 64 * 1024
"""What a page should hold. A client that has stopped reading keeps about one page waiting."""

FIRST_LIMIT = 32
MAX_LIMIT = 512
RETRY_S = 0.5

_log = structlog.get_logger(__name__)


class Frame(NamedTuple):
    """One stored entry as a stream sends it. `row` is its row id."""

    row: int
    data: bytes


class FramePage(NamedTuple):
    """Frames in increasing row id; everything visible up to `upto` is there. `more` if the page was full."""

    frames: list[Frame]
    upto: int
    more: bool


class Rows(Protocol):
    """Rows of a stream as the tables give them (`projections.pages.MergedRows`)."""

    @property
    def rows(self) -> Sequence[tuple[int, str]]:
        """Row id and JSON text, in increasing row id."""

    @property
    def upto(self) -> int:
        """Applied row id bound."""

    @property
    def more(self) -> bool:
        """True if the page was full."""


class StreamReading(Protocol):
    """The part of `Reading` that streams need."""

    async def stream_page(self, selection: StreamSelection, *, after_row: int, limit: int) -> Rows:
        """Rows above row id `after_row`."""


@dataclass(slots=True)
class _Flight:
    number: int
    landed: anyio.Event = field(default_factory=anyio.Event)
    page: FramePage | None = None


class StreamPages:
    """Reads pages; readers at the same place at the same time share one query."""

    def __init__(self, reading: StreamReading) -> None:
        self._reading = reading
        self._flights: dict[tuple[StreamSelection, int, int], _Flight] = {}
        self._begun = 0

    @property
    def begun(self) -> int:
        """How many queries have begun; with it a reader says that an older one won't do."""
        return self._begun

    async def read(self, selection: StreamSelection, after_row: int, limit: int, *, since: int = 0) -> FramePage:
        """The page above `after_row`, by a query begun after `begun` was `since`. Raises what the tables raise."""
        place = (selection, after_row, limit)
        while (flight := self._flights.get(place)) is not None and flight.number > since:
            await flight.landed.wait()
            if flight.page is not None:
                return flight.page
        self._begun += 1
        flight = self._flights[place] = _Flight(self._begun)
        try:
            found = await self._reading.stream_page(selection, after_row=after_row, limit=limit)
            frames = [Frame(row, entry_frame(row, text.encode())) for row, text in found.rows]
            flight.page = FramePage(frames, found.upto, found.more)
            return flight.page
        finally:
            if self._flights.get(place) is flight:
                del self._flights[place]
            flight.landed.set()


async def read_patiently(
    pages: StreamPages,
    selection: StreamSelection,
    cursor: int,
    limit: int,
    *,
    since: int = 0,
    on_retry: Callable[[], Awaitable[None]] | None = None,
) -> FramePage:
    """A page, however long the tables are out of reach; `on_retry` runs before each further try."""
    while True:
        try:
            return await pages.read(selection, cursor, limit, since=since)
        except TurnlogError as error:
            if error.category not in RETRIABLE:
                raise
            _log.warning("stream_read_retried", reason=str(error))
        await anyio.sleep(RETRY_S)
        if on_retry is not None:
            await on_retry()


def next_limit(limit: int, page: FramePage) -> int:
    """How many rows to ask for next, so that a page holds about `PAGE_BYTES`."""
    size = sum(len(frame.data) for frame in page.frames)
    if size > PAGE_BYTES:
        return max(1, limit * PAGE_BYTES // size)
    if page.more and size < PAGE_BYTES // 2:
        return min(limit * 2, MAX_LIMIT)
    return limit
