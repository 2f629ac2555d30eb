"""What agents write: whole turns and restored histories. Each is one atomic event that the fold judges.

Every answer comes with the session's epoch, so it waits until the tables show the write.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from turnlog.domain.errors import BadInput
from turnlog.domain.event_data import (
    EventData,
    HistoryRestored,
    RawValue,
    ResumePointData,
    TurnAppended,
)
from turnlog.domain.events import EventType
from turnlog.domain.history.messages import HistoryError, json_text
from turnlog.domain.history.restoring import restored
from turnlog.domain.positions import MAX_SAFE_INTEGER, ROWS_PER_EVENT, Position
from turnlog.domain.session_key import check_name, is_reserved, stream_of
from turnlog.services.event_factory import ANONYMOUS, Origin, new_event
from turnlog.services.reading import Reading
from turnlog.services.verdicts import Verdicts


class Written(NamedTuple):
    """Where a write stands in the log, and the session's epoch."""

    position: Position
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTurn:
    """One turn to append. `entries` feed pages; `messages`, where given (also empty), are exactly what replays.

    Raw JSON stays byte for byte. `epoch` is the one it began under, `if_position` the session's last turn or ending,
    `based_on` the row id it was prompted from.
    """

    session_key: str
    entries: Sequence[bytes] = ()
    messages: Sequence[bytes] | None = None
    gateway_url: str = ""
    run_id: str | None = None
    epoch: int | None = None
    if_position: Position | None = None
    based_on: int | None = None
    outcome: Literal["ok", "failed", "interrupted"] = "ok"
    error: str | None = None
    usage: bytes | None = None
    finish_reason: str | None = None
    resume_point: ResumePointData | None = None
    agent: str | None = None
    model: str | None = None


class AgentTurns:
    """The write side for agents. Every method raises errors of the tree in domain/errors.py."""

    def __init__(self, verdicts: Verdicts, reading: Reading) -> None:
        self._verdicts = verdicts
        self._reading = reading

    async def append(self, turn: NewTurn, *, origin: Origin = ANONYMOUS) -> Written:
        """Append a turn. Raises Conflict if a condition doesn't hold, Gone if the session was deleted meanwhile."""
        _check_session(turn.session_key)
        if len(turn.entries) + len(turn.messages or ()) > ROWS_PER_EVENT:
            raise BadInput(f"messages and entries together are more than {ROWS_PER_EVENT}")
        if turn.if_position is not None:
            if origin.idempotency_key is None:
                raise BadInput("ifPosition needs an Idempotency-Key: without one a retry would be refused by itself")
            if turn.if_position.partition != self._reading.partition(turn.session_key):
                raise BadInput("ifPosition is of another partition than the session's")
        return await self._write(EventType.TURN_APPENDED, turn.session_key, _data(turn), origin, plain=_is_plain(turn))

    async def restore(
        self, session_key: str, messages: object, *, epoch: int | None = None, origin: Origin = ANONYMOUS
    ) -> Written:
        """Replace what the model sees. Raises HistoryError for a history that breaks a rule, before anything else is
        done with it, and Conflict for an epoch that has ended.
        """
        _check_session(session_key)
        history = restored(messages)
        if len(history) > ROWS_PER_EVENT:
            raise HistoryError(f"set_history: history has more than {ROWS_PER_EVENT} messages")
        raw = [msgspec.Raw(json_text(message).encode()) for message in history]
        data = HistoryRestored(session_key=session_key, messages=raw, epoch=epoch)
        return await self._write(EventType.HISTORY_RESTORED, session_key, data, origin)

    async def _write(
        self, event_type: EventType, session_key: str, data: EventData, origin: Origin, *, plain: bool = False
    ) -> Written:
        stream = stream_of(session_key)
        if plain and origin.idempotency_key is None:
            # Nothing to be judged, so no verdict is kept; the epoch comes from the tables.
            event = new_event(event_type, stream, session_key, data, origin)
            position = await self._verdicts.append(event)
            _, epoch = await self._reading.resume_point(session_key, after=(position,))
            return Written(position, epoch)
        answer = await self._verdicts.ask(event_type, stream, session_key, data, origin)
        return Written(answer.position, answer.epoch)


def _is_plain(turn: NewTurn) -> bool:
    return turn.epoch is None and turn.if_position is None


def _data(turn: NewTurn) -> TurnAppended:
    usage: RawValue = msgspec.UNSET if turn.usage is None else msgspec.Raw(turn.usage)
    return TurnAppended(
        session_key=turn.session_key,
        gateway_url=turn.gateway_url,
        entries=[msgspec.Raw(entry) for entry in turn.entries],
        messages=None if turn.messages is None else [msgspec.Raw(message) for message in turn.messages],
        run_id=turn.run_id,
        epoch=turn.epoch,
        if_position=None if turn.if_position is None else min(turn.if_position.offset, MAX_SAFE_INTEGER),
        based_on=turn.based_on,
        outcome=turn.outcome,
        error=turn.error,
        usage=usage,
        finish_reason=turn.finish_reason,
        resume_point=turn.resume_point,
        agent=turn.agent,
        model=turn.model,
    )


def _check_session(session_key: str) -> None:
    check_name(session_key, "sessionKey")
    if is_reserved(session_key):
        raise BadInput("sessionKey is reserved")
