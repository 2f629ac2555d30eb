"""Stand-ins for the services behind the API, for tests in which no store matters."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from turnlog.domain.entries import Entry
from turnlog.domain.errors import TurnlogError
from turnlog.domain.fold.effects import SessionChange
from turnlog.domain.fold.state import ResumePoint
from turnlog.domain.positions import Position, row_id
from turnlog.domain.stream_selection import StreamSelection
from turnlog.projections.pages import MergedRows
from turnlog.services.agent_turns import AgentTurns
from turnlog.services.changes import ChangeHub, selection_of
from turnlog.services.conversations import ClearDone, Conversations, ResetDone, ResumeSaved, Saved, new_divider
from turnlog.services.event_factory import ANONYMOUS, Origin
from turnlog.services.http.app import AppParts
from turnlog.services.http.health import CheckReadiness
from turnlog.services.http.options import HttpOptions
from turnlog.services.reading import Page, Reading, SessionList
from turnlog.services.snapshots import Snapshots


class Call(NamedTuple):
    """One call of a command."""

    name: str
    key: object
    given: Any
    origin: Origin


class Commands(Conversations):
    """Accepts everything and writes down what it was asked. `failing` is raised instead, if set."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.failing: Exception | None = None

    def _position(self, name: str, key: object, given: object, origin: Origin) -> Position:
        if self.failing is not None:
            raise self.failing
        self.calls.append(Call(name, key, given, origin))
        return Position(0, len(self.calls))

    async def save_entries(
        self, session_key: str, entries: Sequence[Entry], *, gateway_url: str = "", origin: Origin = ANONYMOUS
    ) -> Saved:
        position = self._position("save", session_key, (list(entries), gateway_url), origin)
        return Saved(position if entries else None, len(entries))

    async def reset_context(
        self, session_keys: Sequence[str], notice_key: str, *, origin: Origin = ANONYMOUS
    ) -> ResetDone:
        position = self._position("reset", list(session_keys), notice_key, origin)
        return ResetDone(new_divider(notice_key), (position,))

    async def clear_chat(self, team_id: str, scope_name: str, *, origin: Origin = ANONYMOUS) -> ClearDone:
        return ClearDone(1, ("agent:a:team:t",), self._position("clear", team_id, scope_name, origin))

    async def delete_session(
        self, session_key: str, *, reason: str | None = None, origin: Origin = ANONYMOUS
    ) -> Position:
        return self._position("delete", session_key, reason, origin)

    async def save_resume_point(
        self,
        session_key: str,
        runtime: str,
        resume_id: str | None,
        *,
        epoch: int | None = None,
        origin: Origin = ANONYMOUS,
    ) -> ResumeSaved:
        return ResumeSaved(self._position("resume", session_key, (runtime, resume_id, epoch), origin), epoch or 0)


class Tables(Reading):
    """Pages are empty; streams show the rows that `add` put in, and how often they were read."""

    def __init__(self, hub: ChangeHub | None = None) -> None:
        self.hub = hub or ChangeHub()
        self.rows: dict[StreamSelection, list[tuple[int, str]]] = {}
        self.reads: list[tuple[StreamSelection, int, int]] = []
        self.failing: TurnlogError | None = None
        self._offset = 0

    def add(self, session_key: str, *texts: str) -> int:
        """Commit one event's entries and say so. Returns the last row id."""
        selection = selection_of(session_key)
        assert selection is not None
        self._offset += 1
        new = [(row_id(self._offset, index), text) for index, text in enumerate(texts)]
        self.rows.setdefault(selection, []).extend(new)
        self.hub.publish(0, [SessionChange(session_key, self._offset, None)])
        return new[-1][0]

    async def page(
        self, session_key: str, *, limit: int, before: int | None = None, after: Sequence[Position] = ()
    ) -> Page:
        if self.failing is not None:
            raise self.failing
        return Page(b'{"limit":%d}' % limit, before is not None, before)

    async def resume_point(self, session_key: str, *, after: Sequence[Position] = ()) -> tuple[ResumePoint | None, int]:
        return ResumePoint("codex", "r1", 1_761_650_000_000, 3), 7

    async def sessions(
        self, prefix: str = "", *, limit: int = 100, cursor: str | None = None, after: Sequence[Position] = ()
    ) -> SessionList:
        return SessionList([], None)

    async def stream_page(self, selection: StreamSelection, *, after_row: int, limit: int) -> MergedRows:
        self.reads.append((selection, after_row, limit))
        if self.failing is not None:
            raise self.failing
        found = [row for row in self.rows.get(selection, []) if row[0] > after_row][:limit]
        upto = found[-1][0] if len(found) == limit else row_id(self._offset + 1, 0) - 1
        return MergedRows(found, max(after_row, upto), more=len(found) == limit)


class NoTurns(AgentTurns):
    """Turns are tested on a real store alone."""

    def __init__(self) -> None: ...


class NoSnapshots(Snapshots):
    """So are histories."""

    def __init__(self) -> None: ...


def parts(commands: Commands, tables: Tables, ready: CheckReadiness, options: HttpOptions | None = None) -> AppParts:
    """An application's parts with these stand-ins."""
    return AppParts(
        conversations=commands,
        reading=tables,
        turns=NoTurns(),
        snapshots=NoSnapshots(),
        changes=tables.hub,
        readiness=ready,
        options=options or HttpOptions(),
    )
