"""Who may share a read, and how big a page is."""

import anyio
import anyio.lowlevel
import pytest

from turnlog.domain.errors import Unavailable
from turnlog.domain.stream_selection import StreamSelection
from turnlog.projections.pages import MergedRows
from turnlog.services.http.stream_pages import PAGE_BYTES, Frame, FramePage, StreamPages, next_limit

TEAM = StreamSelection.team("t")


class SlowTables:
    """Answers with what was there when the query began, once `release` is set."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str]] = []
        self.release = anyio.Event()
        self.begun = 0
        self.failures = 0

    async def stream_page(self, selection: StreamSelection, *, after_row: int, limit: int) -> MergedRows:
        self.begun += 1
        seen = list(self.rows)
        await self.release.wait()
        if self.failures:
            self.failures -= 1
            raise Unavailable("gone")
        return MergedRows(seen, 10, more=len(seen) >= limit)


async def test_readers_at_the_same_place_share_one_query() -> None:
    tables = SlowTables()
    pages = StreamPages(tables)
    found: list[FramePage] = []

    async def read() -> None:
        found.append(await pages.read(TEAM, 0, 10))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(read)
        await _settled()
        tables.release.set()
    assert (tables.begun, len(found)) == (1, 20)


async def test_a_query_that_began_too_early_is_not_shared() -> None:
    tables = SlowTables()
    pages = StreamPages(tables)
    found: list[int] = []

    async def read(since: int) -> None:
        found.append(len((await pages.read(TEAM, 0, 10, since=since)).frames))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, 0)
        await _settled()
        tables.rows.append((5, "{}"))
        tasks.start_soon(read, pages.begun)
        await _settled()
        tables.release.set()
    assert sorted(found) == [0, 1]


async def test_when_the_reader_who_asked_fails_or_leaves_another_asks() -> None:
    tables = SlowTables()
    tables.failures = 1
    pages = StreamPages(tables)
    found: list[FramePage] = []

    async def first() -> None:
        with pytest.raises(Unavailable):
            await pages.read(TEAM, 0, 10)

    async def second() -> None:
        found.append(await pages.read(TEAM, 0, 10))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await _settled()
        tasks.start_soon(second)
        await _settled()
        tables.release.set()
    assert (tables.begun, len(found)) == (2, 1)


@pytest.mark.parametrize(
    ("limit", "count", "size", "expected"),
    [
     (32, 32, 100, 64), (512, 512, 10, 512), (32, 3, 100, 32), (32, 32, 4 * PAGE_BYTES, 1),
     (32, 32, PAGE_BYTES // 16, 16),
    ],
)  # fmt: skip
def test_a_page_is_sized_by_its_bytes(limit: int, count: int, size: int, expected: int) -> None:
    frames = [Frame(row, b"x" * size) for row in range(1, count + 1)]
    assert next_limit(limit, FramePage(frames, count, count == limit)) == expected


async def _settled() -> None:
    """Give the readers, which wait for nothing but each other, their turns."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()
