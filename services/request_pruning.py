"""Forgets the verdicts that nobody can ask for any more, in small deletes (fold.md, "The law": a ledger)."""

import anyio
import structlog
from anyio.abc import TaskStatus

from turnlog.domain.errors import RETRIABLE, TurnlogError
from turnlog.infra.postgres import Database
from turnlog.projections import requests

LOOK_S = 600.0
BATCH = 2_000
PAUSE_S = 0.1

_log = structlog.get_logger(__name__)


class RequestPruning:
    """Removes verdicts on requests without an idempotency key once they are `kept_s` seconds old.

    Only the request that appended the event waits for such a verdict, and for no longer than it waits at all.
    """

    def __init__(self, database: Database, *, kept_s: float) -> None:
        self._database = database
        self._kept_s = kept_s

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Prune now and then until cancelled. Several processes may."""
        task_status.started()
        while True:
            try:
                await self.prune_once()
            except TurnlogError as error:
                if error.category not in RETRIABLE:
                    raise
                _log.warning("pruning_delayed", reason=str(error))
            await anyio.sleep(LOOK_S)

    async def prune_once(self) -> int:
        """Remove all that are old enough; how many went."""
        removed = 0
        while True:
            async with self._database.connection() as connection:
                went = await requests.prune(connection, self._kept_s, BATCH)
            removed += went
            if went < BATCH:
                return removed
            await anyio.sleep(PAUSE_S)
