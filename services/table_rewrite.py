"""Rewrites the tables that held erased content, so that no file of Postgres has it any more (docs/erasure.md)."""

from datetime import datetime

import anyio
import structlog

from turnlog.domain.errors import Unavailable
from turnlog.infra.postgres_errors import translated
from turnlog.projections import erasure_outbox, storage
from turnlog.projections.statement import Connection
from turnlog.services.erasure_schedule import ErasureSchedule
from turnlog.services.failpoints import failpoint

_log = structlog.get_logger(__name__)


class TableRewrite:
    """One rewrite after the other, each in as many goes as it takes to find every table free."""

    def __init__(self, schedule: ErasureSchedule) -> None:
        self._schedule = schedule
        self._next: float | None = None
        self._published: datetime | None = None
        self._left: list[str] = []

    def due(self) -> bool:
        """True if the next go may begin."""
        return self._schedule.rewrite_s > 0 and (self._next is None or anyio.current_time() >= self._next)

    async def run(self, connection: Connection) -> bool:
        """Rewrite what is due. True if everything that was published when this rewrite began is gone now.

        `connection` is a patient one that holds the eraser's lock.
        """
        if not self.due():
            return False
        if self._next is None and await self._rewritten_lately(connection):
            return False
        if not self._left:
            self._published = await erasure_outbox.unrewritten(connection)
            if self._published is None:
                return False
            self._left = await storage.content_tables(connection)
        existing = await storage.content_tables(connection)
        self._left = [table for table in self._left if table in existing]
        too_large = [table for table in self._left if await self._is_too_large(connection, table)]
        fitting = [table for table in self._left if table not in too_large]
        in_use = [table for table in fitting if not await self._rewrite(connection, table)]
        self._left = in_use + too_large
        self._next = anyio.current_time() + (self._schedule.retry_s if in_use else self._schedule.rewrite_s)
        if self._left:
            return False
        await self._finish(connection)
        return True

    async def _rewritten_lately(self, connection: Connection) -> bool:
        """After a start: how long ago the last one was, whoever made it."""
        since_s = await erasure_outbox.since_rewrite_s(connection)
        wait_s = 0.0 if since_s is None else max(0.0, self._schedule.rewrite_s - since_s)
        self._next = anyio.current_time() + wait_s
        return wait_s > 0

    async def _is_too_large(self, connection: Connection, table: str) -> bool:
        size = await storage.size(connection, table)
        if size <= self._schedule.rewrite_max_bytes:
            return False
        _log.warning("rewrite_left_to_operator", table=table, bytes=size, limit=self._schedule.rewrite_max_bytes)
        return True

    async def _rewrite(self, connection: Connection, table: str) -> bool:
        failpoint("before-rewrite")
        try:
            with translated():
                done = await storage.rewrite(connection, table, lock_timeout_ms=self._schedule.lock_timeout_ms)
        except Unavailable as error:
            if connection.is_closed():
                raise
            _log.info("rewrite_put_off", table=table, reason=str(error))
            return False
        if done.kept:
            _log.info("rewrite_put_off", table=table, reason="an open snapshot still sees what was erased")
        return done.kept == 0

    async def _finish(self, connection: Connection) -> None:
        if not await storage.drop_old_wal(connection):
            _log.info("old_wal_left_to_the_server", reason="the database role may not run CHECKPOINT")
        failpoint("before-rewritten")
        if self._published is not None:
            await erasure_outbox.mark_rewritten(connection, self._published)
