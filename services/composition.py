"""The composition root: the one place that names concrete adapters and puts a running turnlog together."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import anyio

from turnlog.domain.errors import Unavailable
from turnlog.domain.event_log import EventLog
from turnlog.domain.positions import Position
from turnlog.infra import migrations
from turnlog.infra.embedded_postgres import EmbeddedPostgres, embedded_postgres
from turnlog.infra.postgres import Database
from turnlog.infra.postgres_log import PostgresLog, ensure_genesis
from turnlog.infra.settings import Settings
from turnlog.projections import checkpoints, log_identity, projector_members
from turnlog.projections.log_identity import LogIdentity
from turnlog.services.agent_turns import AgentTurns
from turnlog.services.applied import AppliedPositions
from turnlog.services.changes import ChangeHub
from turnlog.services.checkpoint_follower import CheckpointFollower
from turnlog.services.conversations import Conversations
from turnlog.services.eraser import Eraser
from turnlog.services.erasure_schedule import ErasureSchedule
from turnlog.services.event_factory import now_ms
from turnlog.services.projector import Projector
from turnlog.services.reading import Reading
from turnlog.services.request_pruning import RequestPruning
from turnlog.services.snapshots import Snapshots
from turnlog.services.verdicts import Verdicts


@dataclass(slots=True)
class Turnlog:
    """A running turnlog: its parts, wired."""

    settings: Settings
    database: Database
    log: EventLog
    applied: AppliedPositions
    changes: ChangeHub
    conversations: Conversations
    reading: Reading
    turns: AgentTurns
    snapshots: Snapshots
    projector: Projector | None


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """The database named by the settings, or the embedded one, migrated to the newest schema."""
    async with AsyncExitStack() as stack:
        url = settings.database_url
        if url is None:
            server = await stack.enter_async_context(embedded_postgres(settings.data_dir))
            url = server.dsn
            await stack.enter_async_context(_ending_with(server))
        await migrations.upgrade(url)
        database = await stack.enter_async_context(Database(url, pool_size=settings.pool_size))
        if settings.database_url is None:
            await _forget_projectors(database)
        yield database


async def _forget_projectors(database: Database) -> None:
    """Who has the data directory is alone: what a killed process held is free now, not when its lease runs out."""
    async with database.connection() as connection:
        await checkpoints.release_everyones(connection)
        await projector_members.leave_all(connection)


@asynccontextmanager
async def _ending_with(server: EmbeddedPostgres) -> AsyncIterator[None]:
    """Ends everything inside when the embedded server dies: it isn't restarted under running transactions."""

    async def watch() -> None:
        await server.wait_stopped()
        raise Unavailable("the embedded PostgreSQL has stopped; start turnlog again")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        yield
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_log(settings: Settings, database: Database) -> AsyncIterator[EventLog]:
    """The log named by the settings, its identity checked against the tables. Raises Misconfigured."""
    async with database.connection() as connection:
        known = await log_identity.recorded(connection)
    log_identity.refuse_other_kind(known, "postgres" if settings.kafka_bootstrap_servers is None else "kafka")
    if settings.kafka_bootstrap_servers is None:
        log_id = await ensure_genesis(database, uuid4(), now_ms())
        await _claim(database, LogIdentity(log_id, "postgres", None, PostgresLog.partitions))
        log = PostgresLog(database, log_id, append_timeout_ms=settings.append_timeout_ms)
        async with anyio.create_task_group() as tasks:
            await tasks.start(log.run)
            yield log
            tasks.cancel_scope.cancel()
        return
    from turnlog.infra.kafka_log import open_kafka_log  # a Postgres log needs no Kafka client in memory

    async with open_kafka_log(settings, known.log_id if known else None) as kafka:
        await _claim(database, LogIdentity(kafka.log_id, "kafka", settings.topic, kafka.partitions))
        yield kafka


async def _claim(database: Database, identity: LogIdentity) -> None:
    async with database.connection() as connection:
        await log_identity.claim(connection, identity)


@asynccontextmanager
async def open_turnlog(settings: Settings, *, projecting: bool = True) -> AsyncIterator[Turnlog]:
    """Everything but the HTTP server, running until the context ends. `projecting` runs projector and eraser too."""
    async with open_database(settings) as database, open_log(settings, database) as log:
        applied = AppliedPositions(log.partitions)
        for partition in range(log.partitions):
            applied.note_own(Position(partition, await log.end(partition) - 1))
        changes = ChangeHub(log.partitions)
        verdicts = Verdicts(database, log, applied, wait_ms=settings.read_wait_ms)
        projector = None
        if projecting:
            projector = Projector(
                database=database,
                log=log,
                applied=applied,
                on_changes=changes.publish,
                lease_ms=settings.lease_ms,
                member=uuid4(),
            )
        follower = CheckpointFollower(
            database,
            applied,
            on_advance=lambda partition: changes.publish(partition, ()),
            is_local=lambda partition: projector is not None and partition in projector.partitions,
            on_ending=lambda partition, ending: changes.publish(partition, (ending,)),
        )
        async with anyio.create_task_group() as tasks:
            await tasks.start(follower.run)
            if projector is not None:
                await tasks.start(projector.run)
                await tasks.start(Eraser(database, log, _erasure_schedule(settings)).run)
                await tasks.start(RequestPruning(database, kept_s=settings.requests_kept_s).run)
            reading = Reading(database, log, applied, wait_ms=settings.read_wait_ms, linear=settings.reads == "linear")
            yield Turnlog(
                settings=settings,
                database=database,
                log=log,
                applied=applied,
                changes=changes,
                conversations=Conversations(verdicts),
                reading=reading,
                turns=AgentTurns(verdicts, reading),
                snapshots=Snapshots(database, reading),
                projector=projector,
            )
            tasks.cancel_scope.cancel()


def _erasure_schedule(settings: Settings) -> ErasureSchedule:
    return ErasureSchedule(
        interval_s=settings.erasure_interval_s,
        tick_s=settings.erasure_tick_s,
        # The Postgres log erases at once, Kafka by compaction.
        verify_s=0 if settings.kafka_bootstrap_servers is None else settings.erasure_verify_s,
        rewrite_s=settings.erasure_rewrite_s,
        rewrite_max_bytes=settings.erasure_rewrite_max_bytes,
    )
