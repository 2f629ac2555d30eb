"""Building history snapshots: rows in context become messages, cut to a window, made acceptable to a provider.

Several short reads instead of a long transaction: rows never change once written, so the bounds read first hold for all
of them, unless the session is deleted meanwhile; then it is read again.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

import anyio.lowlevel
import anyio.to_thread

from turnlog.domain.errors import BadInput, Unavailable
from turnlog.domain.history.derived import message_of, read_entry
from turnlog.domain.history.messages import AgentMessage
from turnlog.domain.history.provider_valid import Placed, Repair, Valid, provider_valid
from turnlog.domain.history.snapshot import HistorySnapshot
from turnlog.domain.history.window import TokenCounter, estimated_tokens, last_turns, within_tokens
from turnlog.domain.positions import MAX_SAFE_INTEGER, Position, last_row_id
from turnlog.domain.session_key import scopes_of, session_id
from turnlog.infra.postgres import Database
from turnlog.projections import history_rows
from turnlog.projections.history_rows import Context, HistoryRow
from turnlog.services.reading import Reading

ROWS_AT_ONCE = 256
"""Rows of one read, and of what is decoded before other tasks get a turn."""

OFF_LOOP_MESSAGES = 512
"""From this many messages on they are repaired in a thread."""

TRIES = 5

TOOL_ENTRY = "tool entry left out"


class _Window:
    """Collects messages from the newest backwards, until no older one can be in the window."""

    def __init__(self, last: int | None, max_tokens: int | None, count: TokenCounter) -> None:
        self._last = last
        self._max_tokens = max_tokens
        self._count = count
        self._turns = self._tokens = 0
        self._newest: list[Placed] = []
        self._tools: list[int] = []

    @property
    def full(self) -> bool:
        if self._last is not None and self._turns >= self._last:
            return True
        return self._max_tokens is not None and self._tokens > self._max_tokens

    def add(self, row: HistoryRow) -> None:
        if row.is_messages:
            messages: list[Any] = json.loads(row.text)
            for index in range(len(messages) - 1, -1, -1):
                if isinstance(messages[index], dict):
                    self._add(Placed(row.row_id + index, messages[index]))
            return
        entry = read_entry(row.text.encode())
        message = message_of(entry)
        if message is not None:
            self._add(Placed(row.row_id, message))
        elif entry.role == "tool":
            self._tools.append(row.row_id)

    def _add(self, placed: Placed) -> None:
        self._newest.append(placed)
        if self._last is not None and placed.message.get("role") == "user":
            self._turns += 1
        if self._max_tokens is not None:
            self._tokens += self._count(placed.message)

    def taken(self) -> tuple[list[Placed], list[Repair]]:
        """The window's messages, oldest first, and the tool entries among them, which can't replay."""
        said = self._newest[::-1]
        start = 0 if self._last is None else last_turns([placed.message for placed in said], self._last)
        if self._max_tokens is not None:
            start += within_tokens([placed.message for placed in said[start:]], self._max_tokens, self._count)
        window = said[start:]
        floor = window[0].row_id if window and start else 0 if not start else MAX_SAFE_INTEGER
        return window, [Repair(TOOL_ENTRY, row) for row in sorted(self._tools) if row >= floor]


class Snapshots:
    """Reads of what a model would see."""

    def __init__(self, database: Database, reading: Reading) -> None:
        self._database = database
        self._reading = reading

    async def history(
        self,
        session_key: str,
        *,
        last: int | None = None,
        max_tokens: int | None = None,
        repair: bool = True,
        count: TokenCounter = estimated_tokens,
        after: Sequence[Position] = (),
    ) -> HistorySnapshot:
        """What the model sees now: all of it, the newest `last` turns, or what fits into `max_tokens` from a user
        message on. Without `repair` the messages are as stored.

        Raises NotYet if the tables are behind, BadInput for a key that can't name a session.
        """
        if not session_key or "\x00" in session_key:
            raise BadInput("sessionKey must be a non-empty string without U+0000")
        await self._reading.catch_up(session_key, after)
        for _ in range(TRIES):
            context = await self._context(session_key)
            stored, left_out = await self._stored(session_key, context, _Window(last, max_tokens, count))
            if (await self._context(session_key)).last_delete != context.last_delete:
                continue
            valid = await _valid(stored) if repair else _as_stored(stored)
            return HistorySnapshot(
                session_key,
                Position(self._reading.partition(session_key), context.last_position),
                context.epoch,
                [message for _, message in valid.messages],
                context.resume_point,
                [*left_out, *valid.repairs] if repair else [],
            )
        raise Unavailable("the session is being deleted again and again")

    async def _context(self, session_key: str) -> Context:
        session, scopes = session_id(session_key), scopes_of(session_key)
        return await self._database.read(lambda connection: history_rows.context(connection, session, scopes))

    async def _stored(self, session_key: str, context: Context, window: _Window) -> tuple[list[Placed], list[Repair]]:
        session, before = session_id(session_key), last_row_id(context.last_position) + 1
        more = True
        while more and not window.full:
            found = await self._database.read(
                lambda connection, before=before: history_rows.newest(  # type: ignore[misc]  # bound now, not later
                    connection, session, context.floor, before, ROWS_AT_ONCE
                )
            )
            for row in found:
                window.add(row)
            more = len(found) == ROWS_AT_ONCE
            if more:
                before = found[-1].row_id
                await anyio.lowlevel.checkpoint()
        return window.taken()


async def _valid(stored: Sequence[Placed]) -> Valid:
    if len(stored) < OFF_LOOP_MESSAGES:
        return provider_valid(stored)
    return await anyio.to_thread.run_sync(provider_valid, stored)


def _as_stored(stored: Sequence[Placed]) -> Valid:
    return Valid([(row, cast("AgentMessage", message)) for row, message in stored], [])
