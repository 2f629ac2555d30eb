"""The projector of one process: takes its fair share of the partitions by leases, and projects each in a task.

Leases only say who should work; what keeps two projectors apart is the fence in every batch's first statement. Any
number of processes may run one: each takes ⌈partitions / live projectors⌉ at most, and gives back what it has too many.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from turnlog.domain.errors import Misconfigured, Unavailable
from turnlog.domain.event_log import EventLog
from turnlog.domain.fold.effects import SessionChange
from turnlog.infra.postgres import Database
from turnlog.projections import checkpoints, projector_members
from turnlog.projections.checkpoints import Held
from turnlog.services.applied import AppliedPositions
from turnlog.services.applied_hints import AppliedHints
from turnlog.services.partition_projection import PartitionProjection

LONGEST_TICK_S = 1.0
GATHER_S = 0.008
"""After a batch, how long records may gather for the next while nobody waits: larger batches cost less each."""
RELEASE_S = 3.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Owned:
    projection: PartitionProjection
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set once its log is checked, or it has ended."""
    ended: anyio.Event = field(default_factory=anyio.Event)

    @property
    def fence(self) -> tuple[int, int]:
        """(partition, fence), as leases are renewed and released by."""
        return self.projection.held.partition, self.projection.held.fence


class Projector:
    """Projects this process's share of the log. `lease_ms` is how long a dead projector blocks its partitions.

    `on_changes(partition, changes)` runs after every commit, `member` is this projector's random id.
    """

    def __init__(
        self,
        *,
        database: Database,
        log: EventLog,
        applied: AppliedPositions,
        on_changes: Callable[[int, Sequence[SessionChange]], None] | None,
        lease_ms: int,
        member: UUID,
    ) -> None:
        self._database = database
        self._log = log
        self._applied = applied
        self._on_changes = on_changes
        self._lease_ms = lease_ms
        self._tick_s = min(lease_ms / 3000, LONGEST_TICK_S)
        self._member = member
        self._hints = AppliedHints(database)
        self._owned: dict[int, _Owned] = {}
        self._balanced = anyio.Event()
        self._refused: Misconfigured | None = None

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions this projector holds now."""
        return frozenset(self._owned)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Project until cancelled, then give the leases back. Started once the first share is taken and checked.

        Raises Misconfigured if the log isn't the one that these tables were made from.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._hints.run)
                tasks.start_soon(self._balance_forever, tasks)
                await self._balanced.wait()
                for owned in list(self._owned.values()):
                    await owned.settled.wait()
                task_status.started()
        finally:
            await self._leave()
        if self._refused is not None:
            raise self._refused

    async def _balance_forever(self, tasks: TaskGroup) -> None:
        while True:
            try:
                await self._balance(tasks)
                self._balanced.set()
            except Unavailable as error:
                # Leases run on meanwhile; whoever takes a partition over bumps its fence.
                _log.warning("projector_cannot_balance", reason=str(error))
            await anyio.sleep(self._tick_s)

    async def _balance(self, tasks: TaskGroup) -> None:
        """Renew what is held, end what was lost, give back what is too much, take what is free and fair."""
        await self._database.refresh_generation()
        generation = self._database.generation
        async with self._database.connection() as connection:
            if not self._balanced.is_set():
                await checkpoints.ensure(connection, generation, self._log.partitions)
            live = await projector_members.seen(connection, self._member, self._lease_ms)
            held = [owned.fence for owned in self._owned.values()]
            kept = await checkpoints.renew(connection, generation, self._member, self._lease_ms, held)
        await self._end(set(self._owned) - kept)
        fair = -(-self._log.partitions // live)
        await self._give_back(sorted(self._owned)[fair:])
        free = fair - len(self._owned)
        if free == 0:
            return
        async with self._database.connection() as connection:
            taken = await checkpoints.claim(
                connection, generation, self._member, self._lease_ms, free, list(self._owned)
            )
        for partition in taken:
            self._take(tasks, partition)

    def _take(self, tasks: TaskGroup, held: Held) -> None:
        _log.info("partition_taken", partition=held.partition, fence=held.fence, next_offset=held.next_offset)
        projection = PartitionProjection(
            self._database,
            self._log,
            held,
            lease_ms=self._lease_ms,
            on_applied=self._on_applied,
            gather=partial(self._applied.until_awaited, at_most_s=GATHER_S),
        )
        owned = self._owned[held.partition] = _Owned(projection)
        tasks.start_soon(self._project, tasks, owned)

    async def _project(self, tasks: TaskGroup, owned: _Owned) -> None:
        try:
            with owned.scope:
                await owned.projection.run()
        except Misconfigured as error:
            self._refused = error
            tasks.cancel_scope.cancel()
        finally:
            self._owned.pop(owned.projection.held.partition, None)
            owned.settled.set()
            owned.ended.set()

    def _on_applied(self, partition: int, next_offset: int, changes: Sequence[SessionChange]) -> None:
        self._applied.advance(partition, next_offset)
        self._hints.note(partition, next_offset, changes)
        if self._on_changes is not None and changes:
            self._on_changes(partition, changes)
        if partition in self._owned:
            self._owned[partition].settled.set()

    async def _end(self, partitions: Iterable[int]) -> list[tuple[int, int]]:
        """Stop these partitions' tasks and wait until their transactions are rolled back; what they were held by."""
        ending = [self._owned[partition] for partition in partitions if partition in self._owned]
        for owned in ending:
            owned.scope.cancel()
        for owned in ending:
            await owned.ended.wait()
        return [owned.fence for owned in ending]

    async def _give_back(self, partitions: Sequence[int]) -> None:
        if not partitions:
            return
        fences = await self._end(partitions)
        async with self._database.connection() as connection:
            await checkpoints.release(connection, self._database.generation, self._member, fences)
        _log.info("partitions_given_back", partitions=list(partitions))

    async def _leave(self) -> None:
        """Let others take over at once, instead of after the lease. All tasks have ended by now."""
        with anyio.move_on_after(RELEASE_S, shield=True):
            try:
                async with self._database.connection() as connection:
                    await checkpoints.release_all(connection, self._member)
                    await projector_members.leave(connection, self._member)
            except Unavailable as error:
                _log.warning("leases_not_released", reason=str(error))
