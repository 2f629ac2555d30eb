"""Holding one of the database's advisory locks for the length of a context."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from turnlog.domain.errors import Unavailable
from turnlog.infra.postgres import Database
from turnlog.projections.advisory_locks import Lock, try_lock
from turnlog.projections.statement import Connection

POLL_S = 0.2
ERASER_WAIT_S = 900.0
"""How long an eraser at work, which may be rewriting tables, keeps a verify or a rebuild waiting at most."""


@asynccontextmanager
async def locked(database: Database, lock: Lock) -> AsyncIterator["Connection | None"]:
    """The patient connection that holds the lock, or None if somebody else has it."""
    async with database.patient_connection() as connection:
        yield connection if await try_lock(connection, lock) else None


@asynccontextmanager
async def only_maintenance(database: Database) -> AsyncIterator[None]:
    """Nobody else verifies or rebuilds meanwhile. Raises Unavailable if somebody does."""
    async with locked(database, Lock.MAINTENANCE) as connection:
        if connection is None:
            raise Unavailable("another verify or rebuild of this database is running; wait until it has ended")
        yield


@asynccontextmanager
async def nothing_erased(database: Database) -> AsyncIterator[None]:
    """No eraser works meanwhile; one that does is waited for. Raises Unavailable."""
    async with database.patient_connection() as connection:
        await _waited_for(connection, Lock.ERASING)
        yield


async def _waited_for(connection: Connection, lock: Lock) -> None:
    """Asks again and again: a statement that waits holds a snapshot, which would keep a rewrite from its work."""
    give_up = anyio.current_time() + ERASER_WAIT_S
    while not await try_lock(connection, lock):
        if anyio.current_time() > give_up:
            raise Unavailable(f"the eraser has been at work for {ERASER_WAIT_S:.0f} s; try again later")
        await anyio.sleep(POLL_S)
