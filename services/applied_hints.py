"""Tells other processes how far the tables are, by NOTIFY: hints, sent after the commit, at most one per 20 ms.

NOTIFY takes a lock on the whole database at commit, so it has no place in a batch's transaction. A lost hint costs a
follower one polling interval, nothing else.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import anyio
import structlog

from turnlog.domain.errors import Unavailable
from turnlog.domain.fold.effects import EndingKind, SessionChange
from turnlog.domain.positions import Position, parse_position
from turnlog.infra.postgres import Database
from turnlog.projections import checkpoints
from turnlog.services.failpoints import failpoint

PAUSE_S = 0.02

_log = structlog.get_logger(__name__)


class EndingHint(NamedTuple):
    """A reset, clear or delete that streams in other processes tell their clients of."""

    partition: int
    offset: int
    what: EndingKind
    key: str

    def written(self) -> str:
        """As NOTIFY carries it: kind, position and key, at most 1,100 bytes of the 8,000 that fit."""
        return f"{self.what.value} {Position(self.partition, self.offset)} {self.key}"

    @classmethod
    def read(cls, text: str) -> Self:
        """The reverse. Raises ValueError or BadInput for anything else."""
        kind, position, key = text.split(" ", 2)
        return cls(*parse_position(position), EndingKind(int(kind)), key)


class AppliedHints:
    """Collects what was applied and sends the newest offset of each partition."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest: dict[int, int] = {}
        self._endings: list[EndingHint] = []
        self._noted = anyio.Event()

    def note(self, partition: int, next_offset: int, changes: Sequence[SessionChange] = ()) -> None:
        """The partition is applied up to (not with) `next_offset`; of the changes, endings are passed on."""
        self._newest[partition] = next_offset
        self._endings += [
            EndingHint(partition, change.offset, change.what, change.key)
            for change in changes
            if change.what is not None
        ]
        self._noted.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._noted.wait()
            self._noted = anyio.Event()
            newest, self._newest = self._newest, {}
            endings, self._endings = self._endings, []
            failpoint("before-notify")
            try:
                async with self._database.connection() as connection:
                    await checkpoints.notify(connection, newest)
                    if endings:
                        await checkpoints.notify_endings(connection, [ending.written() for ending in endings])
            except Unavailable as error:
                _log.debug("hint_not_sent", reason=str(error))
            await anyio.sleep(PAUSE_S)
