"""Sessions full of a canary, their deletes, and erasers for tests."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from uuid import uuid4

import anyio
import msgspec

from tests.integration.projecting import caught_up, new_projector, running
from tests.integration.story_events import event, turn
from turnlog.domain import event_data as d
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import Event
from turnlog.infra.postgres import Database
from turnlog.infra.postgres_log import PostgresLog, ensure_genesis
from turnlog.services.erasure_schedule import ErasureSchedule

K = "agent:a:native"
KEPT = "agent:b:native"
CANARY = "canary-5d1f7c20"
QUICK = ErasureSchedule(interval_s=0.01, tick_s=0.0, verify_s=0.0, rewrite_s=0.001, retry_s=0.0)
"""Everything is due in every round."""


@asynccontextmanager
async def postgres_log(database: Database) -> AsyncIterator[PostgresLog]:
    """The Postgres log of the database, taking appends."""
    log = PostgresLog(database, await ensure_genesis(database, uuid4(), 0))
    async with anyio.create_task_group() as tasks:
        await tasks.start(log.run)
        yield log
        tasks.cancel_scope.cancel()


async def project_all(database: Database, log: EventLog) -> None:
    """Project to the end of the log."""
    async with running(new_projector(database, log)):
        await caught_up(database, log)


async def append_all(log: EventLog, items: Sequence[Event]) -> list[int]:
    """Append one after the other; their offsets."""
    return [(await log.append(item)).position.offset for item in items]


def raw(**fields: object) -> msgspec.Raw:
    """JSON text of an object."""
    return msgspec.Raw(msgspec.json.encode(fields))


def canaries(random: Random, key: str, canary: str) -> list[Event]:
    """Every way in which a session can hold content: kept, refused by a condition, and sent twice."""
    said = event(random, d.TurnAppended(key, f"ws://{canary}", [raw(entryId="e1", text=canary)]), key)
    long = event(random, d.TurnAppended(key, entries=[raw(entryId="e2", text=f"{canary} " * 2000)]), key)
    refused = d.TurnAppended(key, entries=[raw(entryId="e3", text=canary)], if_position=999)
    return [
        said,
        long,
        event(random, refused, key),
        replace(said, attempt=2),
        event(random, d.ResumePointSaved(key, "codex", canary), key),
        event(random, d.AttachmentAdded(key, "m1", f"{canary}.png", "image/png", 3, "ab" * 32), key),
        event(random, d.TurnStarted(key, f"run-{canary}", 60_000), key),
        event(random, d.HistoryRestored(key, [raw(role="user", content=canary)]), key),
    ]


def deletion(random: Random, key: str) -> Event:
    """The delete of a session."""
    return event(random, d.SessionDeleted(key, "asked for", "admin"), key)


def late(random: Random, key: str, canary: str, sent_after: int) -> Event:
    """A resend that lands after the delete."""
    said = d.TurnAppended(key, entries=[raw(entryId="late", text=canary)])
    return replace(event(random, said, key), sent_after=sent_after, attempt=2)


async def write_and_delete(database: Database, log: EventLog, *, seed: int = 5, canary: str = CANARY) -> None:
    """A session full of the canary, another beside it, projected; then the delete and a late resend."""
    random = Random(seed)
    first = await append_all(log, canaries(random, K, canary))
    await append_all(log, [turn(random, KEPT, "kept")])
    await project_all(database, log)
    await append_all(log, [deletion(random, K), late(random, K, canary, first[0])])
    await project_all(database, log)


def files_holding(directory: Path, content: bytes) -> list[str]:
    """The files below the directory in which these bytes occur."""
    found = []
    for path in directory.rglob("*"):
        try:
            if path.is_file() and content in path.read_bytes():
                found.append(str(path.relative_to(directory)))
        except FileNotFoundError:
            continue  # removed meanwhile
    return found
