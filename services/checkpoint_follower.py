"""Learns how far other processes' projectors are: polls the checkpoints, and sooner on a NOTIFY hint."""

import asyncio
from collections.abc import Callable, Mapping

import anyio
import structlog
from anyio.abc import TaskStatus

from turnlog.domain.errors import BadInput, Unavailable
from turnlog.domain.fold.effects import SessionChange
from turnlog.domain.positions import parse_position
from turnlog.infra.postgres import Database
from turnlog.projections import checkpoints
from turnlog.projections.statement import Connection
from turnlog.services.applied import AppliedPositions
from turnlog.services.applied_hints import EndingHint

AWAITED_POLL_S = 0.02
IDLE_POLL_S = 0.25
RETRY_S = 0.5

_log = structlog.get_logger(__name__)


class CheckpointFollower:
    """Advances `applied` from the checkpoint table. `on_advance(partition)` runs when a partition moved.

    `is_local(partition)` says that this process's own projector advances it: nobody needs to poll for it then.
    `on_ending(partition, change)` runs for endings that other processes' projectors applied.
    """

    def __init__(
        self,
        database: Database,
        applied: AppliedPositions,
        on_advance: Callable[[int], None],
        is_local: Callable[[int], bool],
        on_ending: Callable[[int, SessionChange], None],
    ) -> None:
        self._database = database
        self._applied = applied
        self._on_advance = on_advance
        self._is_local = is_local
        self._on_ending = on_ending
        self._hinted = asyncio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow until cancelled. A lost database is waited for."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            await self.look()
            task_status.started()
            while True:
                with anyio.move_on_after(AWAITED_POLL_S if self._awaited_elsewhere() else IDLE_POLL_S):
                    await self._hinted.wait()
                self._hinted.clear()
                try:
                    await self.look()
                except Unavailable as error:
                    _log.warning("checkpoints_unreadable", reason=str(error))
                    await anyio.sleep(RETRY_S)

    def _awaited_elsewhere(self) -> bool:
        partitions = range(self._applied.partitions)
        return any(self._applied.is_awaited(p) and not self._is_local(p) for p in partitions)

    async def look(self) -> None:
        """Read the checkpoints of the live generation once."""
        await self._database.refresh_generation()
        async with self._database.connection() as connection:
            found = await checkpoints.next_offsets(connection, self._database.generation)
        for partition, next_offset in found.items():
            if next_offset > self._applied.next_offset(partition):
                self._applied.advance(partition, next_offset)
                self._on_advance(partition)

    async def _listen(self) -> None:
        heard: dict[str, Callable[[object, int, str, object], None]] = {
            checkpoints.CHANNEL: self._applied_elsewhere,
            checkpoints.ENDINGS_CHANNEL: self._ended_elsewhere,
        }
        while True:
            try:
                async with self._database.connection() as connection:
                    await _listen_on(connection, heard)
            except Unavailable:
                await anyio.sleep(RETRY_S)

    def _applied_elsewhere(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        try:
            partition, next_offset = parse_position(str(payload))
            news = next_offset > self._applied.next_offset(partition)
        except (BadInput, IndexError):
            news = True
        if news:
            self._hinted.set()

    def _ended_elsewhere(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        try:
            ending = EndingHint.read(str(payload))
        except (BadInput, ValueError):
            return
        if not self._is_local(ending.partition):
            self._on_ending(ending.partition, SessionChange(ending.key, ending.offset, ending.what))


async def _listen_on(connection: Connection, heard: Mapping[str, Callable[[object, int, str, object], None]]) -> None:
    closed = anyio.Event()
    connection.add_termination_listener(lambda _connection: closed.set())
    for channel, listener in heard.items():
        await connection.add_listener(channel, listener)
    try:
        await closed.wait()
    finally:
        with anyio.move_on_after(1, shield=True):
            for channel, listener in heard.items():
                if not connection.is_closed():
                    await connection.remove_listener(channel, listener)
