"""Appending, and waiting for what the fold made of it.

A request with an idempotency key is looked up first; if its key is unknown, it is appended with the checkpoint of that
look-up as `sentafter`, so that the fold can refuse it if its session is deleted meanwhile (fold.md, rules 2 and 3).
"""

from typing import NamedTuple
from uuid import UUID

from turnlog.domain.errors import BadInput, Bug, Conflict, Gone, KeyReused
from turnlog.domain.event_data import EventData
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import Event, EventType
from turnlog.domain.partitioning import partition_of
from turnlog.domain.positions import Position, row_id
from turnlog.domain.session_key import session_id
from turnlog.infra.postgres import Database
from turnlog.projections import known_requests, pages
from turnlog.projections.known_requests import KnownRequest
from turnlog.services.applied import AppliedPositions
from turnlog.services.event_factory import Origin, key_hash, new_event

_DELETED = "the session was deleted meanwhile"


class Answer(NamedTuple):
    """An accepted verdict. `repeated` is True if an earlier request with the same key got it."""

    position: Position
    epoch: int
    session_keys: tuple[str, ...]
    stored: int
    repeated: bool


class Verdicts:
    """Appends events and answers with the fold's verdicts. `wait_ms` bounds every wait for the tables."""

    def __init__(self, database: Database, log: EventLog, applied: AppliedPositions, *, wait_ms: int) -> None:
        self._database = database
        self._log = log
        self._applied = applied
        self._wait_ms = wait_ms

    async def append(self, event: Event) -> Position:
        """Append an event that is accepted as soon as the log holds it; this process's later reads include it.

        One that had to be sent again waits for its verdict. Raises what EventLog.append raises, and Gone or NotYet.
        """
        position, resent = await self._log.append(event)
        self._applied.note_own(position)
        if not resent:
            return position
        await self._applied.reach(position, timeout_ms=self._wait_ms)
        return _answer(await self._verdict_on(event.id), repeated=False).position

    async def ask(self, event_type: EventType, stream: str, subject: str, data: EventData, origin: Origin) -> Answer:
        """Append and wait for the verdict. Raises Conflict, Gone, KeyReused, NotYet and what append raises."""
        sent_after = None
        if origin.idempotency_key is not None:
            hashed = key_hash(event_type, stream, subject, origin.idempotency_key)
            partition = partition_of(stream, self._log.partitions)
            sent_after, known = await self._database.read(
                lambda connection: known_requests.by_key(connection, hashed, partition)
            )
            if known is not None:
                return _repeat(known, origin)
        event = new_event(event_type, stream, subject, data, origin, sent_after=sent_after)
        position, _ = await self._log.append(event)
        self._applied.note_own(position)
        await self._applied.reach(position, timeout_ms=self._wait_ms)
        verdict = await self._verdict_on(event.id)
        if verdict.first_event_id is not None:
            return _repeat(await self._verdict_on(verdict.first_event_id), origin)
        return _answer(verdict, repeated=False)

    async def entry_at(self, session_key: str, position: Position) -> bytes:
        """The exact JSON of the first entry of the event at `position`. Raises Gone if it is deleted."""
        session, row = session_id(session_key), row_id(position.offset, 0)
        entry = await self._database.read(lambda connection: pages.entry(connection, session, row))
        if entry is None:
            raise Gone(_DELETED)
        return entry

    async def cleared_at_ms(self, position: Position) -> int:
        """When (Unix ms) the clear at `position` was asked for."""
        partition, offset = position
        return await self._database.read(lambda connection: pages.cleared_at_ms(connection, partition, offset))

    async def _verdict_on(self, event_id: UUID) -> KnownRequest:
        verdict = await self._database.read(lambda connection: known_requests.by_event(connection, event_id))
        if verdict is None:
            raise Bug(f"event {event_id} is applied and has no verdict")
        return verdict


def _repeat(known: KnownRequest, origin: Origin) -> Answer:
    """Answer as the first request did, unless its body was another or its session is gone."""
    if known.request_hash != origin.request_hash:
        raise KeyReused("Idempotency-Key was used before with another request")
    ends_with_session = known.type != EventType.SESSION_DELETED and known.type != EventType.CHAT_CLEARED
    if ends_with_session and known.last_delete is not None and known.last_delete >= known.position:
        raise Gone(_DELETED)
    return _answer(known, repeated=True)


def _answer(verdict: KnownRequest, *, repeated: bool) -> Answer:
    if verdict.status == Gone.status():
        raise Gone(_DELETED)
    if verdict.status >= BadInput.status():
        raise Conflict(verdict.error or "the log refused it", epoch=verdict.epoch)
    position = Position(verdict.partition, verdict.position)
    return Answer(position, verdict.epoch, verdict.session_keys, verdict.stored, repeated)
