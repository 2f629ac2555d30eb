"""Receipts (`erasure.completed`) of deleted sessions whose records are gone: one in the log, one in the ledger."""

import hashlib

from turnlog.domain.errors import Unavailable
from turnlog.domain.event_data import ErasureCompleted
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import Event, EventType
from turnlog.projections import erasures
from turnlog.projections.erasures import Finished
from turnlog.projections.statement import Connection
from turnlog.services.event_factory import Origin, new_event
from turnlog.services.failpoints import failpoint

BATCH = 100
FIRST_RECORD_WAIT_MS = 5_000


class ErasureReceipts:
    """Writes receipts. With `rewritten` an erasure is finished only once Postgres' files have been rewritten too.

    A receipt carries an idempotency key: its delete. So one that is appended again after a crash, before the first was
    projected, is a duplicate to the fold.
    """

    def __init__(self, log: EventLog, *, rewritten: bool) -> None:
        self._log = log
        self._rewritten = rewritten

    async def write(self, connection: Connection) -> None:
        """Write all that are missing."""
        while finished := await erasures.without_receipt(connection, BATCH, rewritten=self._rewritten):
            for erasure in finished:
                await self._write(connection, erasure)

    async def _write(self, connection: Connection, erasure: Finished) -> None:
        receipt = _receipt(await self._delete_of(erasure), erasure)
        if receipt.idempotency_key is None or not await erasures.in_log(connection, receipt.idempotency_key):
            failpoint("before-receipt")
            await self._log.append(receipt)
            failpoint("after-receipt")
        await erasures.record(connection, erasure)

    async def _delete_of(self, erasure: Finished) -> Event:
        at = erasure.last_delete
        batch = await self._log.read(erasure.partition, at, limit=1, wait_ms=FIRST_RECORD_WAIT_MS)
        if not batch.records or batch.records[0].position.offset != at or batch.records[0].event is None:
            raise Unavailable(f"the delete at {erasure.partition}-{at} can't be read back")
        return batch.records[0].event


def _receipt(delete: Event, erasure: Finished) -> Event:
    session_hash = hashlib.sha256(delete.subject.encode()).hexdigest()
    position = f"{erasure.partition}-{erasure.last_delete}"
    data = ErasureCompleted(session_hash=session_hash, counts={"log": erasure.records}, positions=[position])
    origin = Origin(idempotency_key=position)
    return new_event(EventType.ERASURE_COMPLETED, delete.stream, f"erasure:{session_hash}", data, origin)
