"""Reads of the tables that never lie: each waits until what it must show is applied, or answers NotYet.

Without a position a read is current for this process's own writes; with positions for those; with
`TURNLOG_READS=linear` for the partition's end at the time of the read (architecture, "Reading").
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from turnlog.domain.errors import BadInput
from turnlog.domain.event_log import EventLog
from turnlog.domain.fold.state import ResumePoint
from turnlog.domain.partitioning import partition_of
from turnlog.domain.positions import Position
from turnlog.domain.session_key import is_reserved, scopes_of, session_id, stream_of
from turnlog.domain.stream_selection import StreamSelection
from turnlog.infra.postgres import Database
from turnlog.projections import pages, session_list
from turnlog.projections.pages import MergedRows
from turnlog.projections.session_list import ListedSession
from turnlog.projections.statement import Connection
from turnlog.services.applied import AppliedPositions

NEWEST = 2**63 - 1


class Page(NamedTuple):
    """A page of entries, oldest first: their JSON texts joined by commas."""

    entries: bytes
    has_more: bool
    next_before: int | None


class SessionList(NamedTuple):
    """A page of the session list; `next_cursor` is None at its end."""

    items: list[ListedSession]
    next_cursor: str | None


class Reading:
    """The read side of turnlog. `wait_ms` bounds every wait for the tables."""

    def __init__(
        self, database: Database, log: EventLog, applied: AppliedPositions, *, wait_ms: int, linear: bool = False
    ) -> None:
        self._database = database
        self._log = log
        self._applied = applied
        self._wait_ms = wait_ms
        self._linear = linear

    async def page(
        self, session_key: str, *, limit: int, before: int | None = None, after: Sequence[Position] = ()
    ) -> Page:
        """The newest page of a session, or the newest below row id `before`."""
        if is_reserved(session_key) or not _nameable(session_key):
            return Page(b"", has_more=False, next_before=None)
        await self._current([self.partition(session_key)], after)
        session, bound = session_id(session_key), NEWEST if before is None else before
        rows = await self._database.read(lambda connection: pages.newest(connection, session, bound, limit))
        return Page(rows.entries, rows.older, rows.oldest if rows.older else None)

    async def resume_point(self, session_key: str, *, after: Sequence[Position] = ()) -> tuple[ResumePoint | None, int]:
        """The session's resume point, if any, and its epoch."""
        if not _nameable(session_key):
            return None, 0
        await self._current([self.partition(session_key)], after)
        session, scopes = session_id(session_key), scopes_of(session_key)
        return await self._database.read(lambda connection: session_list.resume_point(connection, session, scopes))

    async def sessions(
        self, prefix: str = "", *, limit: int = 100, cursor: str | None = None, after: Sequence[Position] = ()
    ) -> SessionList:
        """Listed sessions by key; `cursor` is the last key of the page before."""
        if not _nameable(prefix) or not _nameable(cursor or ""):
            raise BadInput("prefix and cursor must be text without U+0000 and lone surrogates")
        await self._current(range(self._applied.partitions), after)
        items = await self._database.read(
            lambda connection: session_list.listed(connection, prefix, cursor or "", limit + 1)
        )
        more = len(items) > limit
        return SessionList(items[:limit], items[limit - 1].key if more else None)

    async def stream_page(self, selection: StreamSelection, *, after_row: int, limit: int) -> MergedRows:
        """Rows of a live stream above row id `after_row`. Doesn't wait: a stream shows what is applied."""
        partition = selection.partition(self._applied.partitions)

        async def rows(connection: Connection) -> MergedRows:
            if selection.team_id is None:
                return await pages.agent_rows(
                    connection,
                    selection.agent_id or "",
                    after_row=after_row,
                    limit=limit,
                    partition=partition,
                )
            return await pages.team_rows(
                connection,
                selection.team_id,
                selection.room_id,
                after_row=after_row,
                limit=limit,
                partition=partition,
            )

        return await self._database.read(rows)

    async def catch_up(self, session_key: str, after: Sequence[Position] = ()) -> None:
        """Wait until a read of this session may begin. Raises NotYet, and BadInput for a partition that isn't there."""
        await self._current([self.partition(session_key)], after)

    def partition(self, session_key: str) -> int:
        """The partition that holds the session."""
        return partition_of(stream_of(session_key), self._applied.partitions)

    async def _current(self, partitions: Iterable[int], after: Sequence[Position]) -> None:
        wanted = [self._applied.own(partition) for partition in partitions]
        for position in after:
            if position.partition >= self._applied.partitions:
                raise BadInput(f"Turnlog-After names partition {position.partition}, which this log hasn't")
            wanted.append(position)
        if self._linear:
            wanted = [Position(p.partition, await self._log.end(p.partition) - 1) for p in wanted] + wanted
        await self._applied.reach_all(wanted, timeout_ms=self._wait_ms)


def _nameable(text: str) -> bool:
    """True if the text could be a stored key at all: no U+0000, no lone surrogates."""
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False
