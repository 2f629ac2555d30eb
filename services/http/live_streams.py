"""All open streams of this process: one feed per selection reads new rows once and hands them to every client."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from turnlog.domain.stream_selection import StreamSelection
from turnlog.services.changes import ChangeHub, Notice
from turnlog.services.http.draining import Draining
from turnlog.services.http.sse import KEEPALIVE, named_frame
from turnlog.services.http.stream_client import StreamClient
from turnlog.services.http.stream_pages import FIRST_LIMIT, Frame, StreamPages, next_limit, read_patiently

SAFETY_POLL_S = 15.0
LAST_WORDS_S = 1.0
"""How long clients have to read the end of their stream when the process drains."""

_log = structlog.get_logger(__name__)


class Feed:
    """The live end of one selection. Rows are read from when the first client has caught up."""

    def __init__(self, hub: ChangeHub, pages: StreamPages, selection: StreamSelection) -> None:
        self.clients: set[StreamClient] = set()
        self.failed = False
        self._scope = anyio.CancelScope()
        self._pages = pages
        self._selection = selection
        self._cursor: int | None = None
        self._subscription = hub.subscribe(selection, self._notify)

    def go_live(self, client: StreamClient) -> None:
        """From now on the client gets what the feed hands out; what came before, its next read shows."""
        client.live = True
        if self._cursor is None:
            self._cursor = client.cursor
            self._subscription.wake()

    async def run(self) -> None:
        """Read and hand out until cancelled."""
        with self._scope, self._subscription:
            try:
                while True:
                    await self._subscription.woken(SAFETY_POLL_S)
                    if self._cursor is not None:
                        self._cursor = await self._read_new(self._cursor)
            except Exception as error:  # noqa: BLE001 - ends this feed's streams, not the others'; clients come back
                self.failed = True
                _log.error("stream_feed_failed", kind=type(error).__name__)
                for client in self.clients:
                    client.end()

    def close(self) -> None:
        """Stop; nobody listens any more."""
        self._subscription.close()
        self._scope.cancel()

    async def _read_new(self, cursor: int) -> int:
        limit = FIRST_LIMIT
        while True:
            # A query that began before the wake-up may miss what woke us.
            since = self._pages.begun
            page = await read_patiently(self._pages, self._selection, cursor, limit, since=since)
            if page.frames:
                self._hand_out(page.frames)
            cursor = max(cursor, page.upto)
            if not page.more:
                return cursor
            limit = next_limit(limit, page)

    def _hand_out(self, frames: list[Frame]) -> None:
        for client in list(self.clients):
            if client.live:
                client.offer(frames)

    def _notify(self, notice: Notice) -> None:
        frame = Frame(0, named_frame(notice.name, notice.data))
        for client in list(self.clients):
            client.offer([frame])


class LiveStreams:
    """Feeds and clients, keepalives, and the end of all of them. `run` has to be running while streams are open."""

    def __init__(self, hub: ChangeHub, pages: StreamPages, draining: Draining, *, keepalive_s: float) -> None:
        self.pages = pages
        self._hub = hub
        self._draining = draining
        self._keepalive_s = keepalive_s
        self._feeds: dict[StreamSelection, Feed] = {}
        self._tasks: TaskGroup | None = None

    def __len__(self) -> int:
        return sum(len(feed.clients) for feed in self._feeds.values())

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run feeds and keepalives until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._keep_alive)
            tasks.start_soon(self._drain)
            task_status.started()
            await anyio.sleep_forever()

    @contextmanager
    def open(
        self, selection: StreamSelection, cursor: int, max_bytes: int, abort: Callable[[], None] | None
    ) -> Iterator[tuple[Feed, StreamClient]]:
        """Take part in a selection's feed. Notices arrive from now on, rows after `Feed.go_live`."""
        if self._tasks is None:
            raise RuntimeError("LiveStreams.run is not running")
        feed = self._feeds.get(selection)
        if feed is None or feed.failed:
            feed = self._feeds[selection] = Feed(self._hub, self.pages, selection)
            self._tasks.start_soon(feed.run)
        client = StreamClient(cursor, max_bytes, abort)
        feed.clients.add(client)
        if self._draining.started:
            client.end()
        try:
            yield feed, client
        finally:
            feed.clients.discard(client)
            if not feed.clients and self._feeds.get(selection) is feed:
                del self._feeds[selection]
                feed.close()

    def _all(self) -> list[StreamClient]:
        return [client for feed in self._feeds.values() for client in feed.clients]

    async def _keep_alive(self) -> None:
        """No client goes without a byte for longer than `keepalive_s`."""
        frame = [Frame(0, KEEPALIVE)]
        loop = asyncio.get_running_loop()
        while True:
            await anyio.sleep(self._keepalive_s / 4)
            quiet_since = loop.time() - self._keepalive_s * 0.7
            for client in self._all():
                if client.last_sent < quiet_since:
                    client.offer(frame)

    async def _drain(self) -> None:
        """On the way out: every stream ends; one whose client doesn't read is closed."""
        await self._draining.wait()
        for client in self._all():
            client.end()
        await anyio.sleep(LAST_WORDS_S)
        for client in self._all():
            client.cut_off()
