"""Tells other processes how far the tables are, by NOTIFY: hints, sent after the commit, at most one per 20 ms.

NOTIFY takes a lock on the whole database at commit, so it has no place in a batch's transaction. A lost hint costs a
follower one polling interval, nothing else.
"""

import anyio
import structlog

from turnlog.domain.errors import Unavailable
from turnlog.infra.postgres import Database
from turnlog.projections import checkpoints
from turnlog.services.failpoints import failpoint

PAUSE_S = 0.02

_log = structlog.get_logger(__name__)


class AppliedHints:
    """Collects what was applied and sends the newest offset of each partition."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest: dict[int, int] = {}
        self._noted = anyio.Event()

    def note(self, partition: int, next_offset: int) -> None:
        """The partition is applied up to (not with) `next_offset`."""
        self._newest[partition] = next_offset
        self._noted.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._noted.wait()
            self._noted = anyio.Event()
            newest, self._newest = self._newest, {}
            failpoint("before-notify")
            try:
                async with self._database.connection() as connection:
                    await checkpoints.notify(connection, newest)
            except Unavailable as error:
                _log.debug("hint_not_sent", reason=str(error))
            await anyio.sleep(PAUSE_S)
