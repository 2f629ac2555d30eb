"""Commands: what callers ask for becomes an event; where a verdict decides, the answer waits for it.

A plain save is answered once the log holds it. Everything with an idempotency key or a condition, and every ending, is
answered once the fold has judged it and the tables show it.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import uuid4

import msgspec

from turnlog.domain.entries import Entry
from turnlog.domain.errors import BadInput
from turnlog.domain.event_data import (
    ChatCleared,
    ContextReset,
    ResumePointSaved,
    SessionDeleted,
    TurnAppended,
)
from turnlog.domain.events import EventType
from turnlog.domain.positions import Position
from turnlog.domain.session_key import GENERAL, Scope, check_name, is_reserved, stream_of, team_stream
from turnlog.services.event_factory import ANONYMOUS, Origin, new_event, now_ms
from turnlog.services.verdicts import Verdicts

MAX_RESET_KEYS = 4096
"""Session keys one reset may name; each makes a row in `endings`."""

DIVIDER_TEXT = "Starting fresh: the agent continues without what was said above."


class Saved(NamedTuple):
    """Where a save went (None if nothing was usable) and how many usable entries it carried."""

    position: Position | None
    stored: int


class ResetDone(NamedTuple):
    """The divider's exact JSON, and the positions of all the resets it took."""

    divider: bytes
    positions: tuple[Position, ...]


class ClearDone(NamedTuple):
    """When (Unix ms) and what a clear ended."""

    cleared_at_ms: int
    session_keys: tuple[str, ...]
    position: Position


class ResumeSaved(NamedTuple):
    """Where a resume point was saved, and the session's epoch."""

    position: Position
    epoch: int


class Conversations:
    """The write side of turnlog. Every method raises errors of the tree in domain/errors.py."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts

    async def save_entries(
        self, session_key: str, entries: Sequence[Entry], *, gateway_url: str = "", origin: Origin = ANONYMOUS
    ) -> Saved:
        """Append usable entries as one event. Without any, nothing is appended."""
        _check_key(session_key)
        if "\x00" in gateway_url:
            raise BadInput("gatewayUrl must not contain U+0000")
        if not entries:
            return Saved(None, 0)
        raw = [msgspec.Raw(entry.text) for entry in entries]
        data = TurnAppended(session_key=session_key, gateway_url=gateway_url, entries=raw)
        stream = stream_of(session_key)
        if origin.idempotency_key is None:
            event = new_event(EventType.TURN_APPENDED, stream, session_key, data, origin)
            return Saved(await self._verdicts.append(event), len(entries))
        answer = await self._verdicts.ask(EventType.TURN_APPENDED, stream, session_key, data, origin)
        return Saved(answer.position, len(entries))

    async def reset_context(
        self, session_keys: Sequence[str], notice_key: str, *, origin: Origin = ANONYMOUS
    ) -> ResetDone:
        """End the context of these sessions, with one divider under `notice_key`.

        Atomic within one stream. With several, the others are appended and applied first, the notice key's event last;
        a retry with the same idempotency key finishes a half-done one.
        """
        if len(session_keys) > MAX_RESET_KEYS:
            raise BadInput("too many sessionKeys")
        streams: dict[str, list[str]] = {}
        for key in session_keys:
            _check_key(key)
            streams.setdefault(stream_of(key), []).append(key)
        last_stream = stream_of(notice_key)
        last = streams.pop(last_stream)
        positions: list[Position] = []
        for stream, keys in streams.items():
            data = ContextReset(session_keys=keys)
            answer = await self._verdicts.ask(EventType.CONTEXT_RESET, stream, keys[0], data, origin)
            positions.append(answer.position)
        divider = new_divider(notice_key)
        data = ContextReset(session_keys=last, divider=msgspec.Raw(divider), notice_key=notice_key)
        answer = await self._verdicts.ask(EventType.CONTEXT_RESET, last_stream, notice_key, data, origin)
        if answer.repeated:
            divider = await self._verdicts.entry_at(notice_key, answer.position)
        return ResetDone(divider, (*positions, answer.position))

    async def clear_chat(self, team_id: str, scope_name: str, *, origin: Origin = ANONYMOUS) -> ClearDone:
        """Set aside a team's General chat (`general`), a room (`room:<id>`) or everything (`*`)."""
        check_name(team_id, "team id")
        check_name(scope_name, "roomId")
        cleared_at_ms = now_ms()
        data = ChatCleared(team_id=team_id, scope=scope_name, cleared_at=cleared_at_ms)
        subject = Scope(team_id, scope_name).subject()
        answer = await self._verdicts.ask(EventType.CHAT_CLEARED, team_stream(team_id), subject, data, origin)
        if answer.repeated:
            cleared_at_ms = await self._verdicts.cleared_at_ms(answer.position)
        return ClearDone(cleared_at_ms, answer.session_keys, answer.position)

    async def delete_session(
        self, session_key: str, *, reason: str | None = None, origin: Origin = ANONYMOUS
    ) -> Position:
        """Delete everything of this session; returns once no query on any process shows it."""
        _check_key(session_key)
        data = SessionDeleted(session_key=session_key, reason=reason, actor=origin.actor)
        stream = stream_of(session_key)
        return (await self._verdicts.ask(EventType.SESSION_DELETED, stream, session_key, data, origin)).position

    async def save_resume_point(
        self,
        session_key: str,
        runtime: str,
        resume_id: str | None,
        *,
        epoch: int | None = None,
        origin: Origin = ANONYMOUS,
    ) -> ResumeSaved:
        """Set, or with None clear, the resume point. Raises Conflict if `epoch` is given and no longer current."""
        _check_key(session_key)
        check_name(runtime, "runtime")
        check_name(resume_id or "", "resumeId")
        data = ResumePointSaved(session_key=session_key, runtime=runtime, resume_id=resume_id, epoch=epoch)
        stream = stream_of(session_key)
        answer = await self._verdicts.ask(EventType.RESUMEPOINT_SAVED, stream, session_key, data, origin)
        return ResumeSaved(answer.position, answer.epoch)


def new_divider(notice_key: str) -> bytes:
    """The entry that marks a context reset (chat-history-api.md, reset-context)."""
    entry_id = f"context-reset-{uuid4()}"
    at = now_ms()
    return msgspec.json.encode(
        {
            "entryId": entry_id,
            "role": "system",
            "kind": "meta",
            "text": DIVIDER_TEXT,
            "sessionKey": notice_key,
            "runId": None,
            "source": "local-send",
            "timestampMs": at,
            "sequenceKey": at,
            "confirmed": True,
            "fingerprint": entry_id,
        }
    )


def room_scope(room_id: str | None) -> str:
    """The scope name a clear of this room has; None is General, `*` everything."""
    if room_id is None:
        return GENERAL
    return room_id if room_id == "*" else f"room:{room_id}"


def _check_key(session_key: str) -> None:
    check_name(session_key, "sessionKey")
    if is_reserved(session_key):
        raise BadInput("sessionKey is reserved")
