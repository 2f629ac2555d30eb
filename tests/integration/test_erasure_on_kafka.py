"""Erasure on a real broker: compaction takes the canary out of every file, and tables can be refolded at any stage."""

from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import anyio
import pytest

from tests.integration.erasing import (
    CANARY,
    QUICK,
    K,
    append_all,
    canaries,
    deletion,
    late,
    project_all,
    write_and_delete,
)
from tests.integration.story_events import turn
from tests.kafka_log.topics import QUICK_COMPACTION, configure_topic, make_topic, raw_records
from tests.kafka_server import KafkaBroker
from tests.log_settings import KafkaLogSettings
from tests.own_task import in_own_task
from turnlog.infra.kafka_log import KafkaLog, open_kafka_log
from turnlog.infra.postgres import Database
from turnlog.projections import checkpoints, erasure_outbox
from turnlog.services.eraser import Eraser
from turnlog.services.rebuild import rebuild_tables
from turnlog.services.verify import verify_tables

pytestmark = [pytest.mark.needs_kafka, pytest.mark.timeout(300)]

PATIENT = replace(QUICK, tick_s=0.4, rewrite_s=0.0)


@pytest.fixture
def settings(kafka_broker: KafkaBroker, kafka_topic_name: str) -> KafkaLogSettings:
    """One partition on the module's own broker."""
    return KafkaLogSettings(kafka_broker.bootstrap, kafka_topic_name, partitions=1)


@pytest.fixture
async def log(settings: KafkaLogSettings) -> AsyncIterator[KafkaLog]:
    """The log in a topic that compacts within a second."""
    await make_topic(settings, QUICK_COMPACTION)
    async with in_own_task(open_kafka_log(settings, None)) as opened:
        yield opened


async def open_rows(tables: Database) -> bool:
    async with tables.connection() as connection:
        work = await erasure_outbox.work(connection)
        return work.unpublished or work.unverified


async def rebuilt_and_verified(tables: Database, log: KafkaLog) -> None:
    await verify_tables(tables, log)
    await rebuild_tables(tables, log)
    await tables.refresh_generation()
    await verify_tables(tables, log)


async def test_after_delete_and_compaction_no_segment_holds_the_canary_and_tables_refold_at_every_stage(
    log: KafkaLog, tables: Database, settings: KafkaLogSettings, kafka_broker: KafkaBroker
) -> None:
    await write_and_delete(tables, log)
    eraser = Eraser(tables, log, PATIENT)
    assert kafka_broker.segments_holding(settings.topic, CANARY.encode())
    await rebuilt_and_verified(tables, log)

    await eraser.work_once()
    await rebuilt_and_verified(tables, log)
    rounds = 0
    with anyio.fail_after(120):
        while await open_rows(tables) or kafka_broker.segments_holding(settings.topic, CANARY.encode()):
            await eraser.work_once()
            rounds += 1
            if rounds % 5 == 0:
                await rebuilt_and_verified(tables, log)
            await anyio.sleep(0.1)

    await rebuilt_and_verified(tables, log)
    assert kafka_broker.segments_holding(settings.topic, b"kept")
    await eraser.work_once()
    await project_all(tables, log)
    await rebuilt_and_verified(tables, log)
    async with tables.connection() as connection:
        ((_, records),) = await connection.fetch("SELECT last_delete, records FROM erasures")
    assert records == len(canaries(Random(5), K, CANARY)) + 1


async def test_a_projector_restarts_at_a_checkpoint_whose_record_is_compacted_away(
    log: KafkaLog, tables: Database, settings: KafkaLogSettings
) -> None:
    """The last applied records, a whole tail of them, are gone when it comes back."""
    await configure_topic(settings, {**QUICK_COMPACTION, "delete.retention.ms": "0"})
    random = Random(3)
    (first, *_) = await append_all(log, canaries(random, K, CANARY))
    await append_all(log, [deletion(random, K)])
    tail = await append_all(log, [late(random, K, CANARY, first) for _ in range(10)])
    await project_all(tables, log)
    async with tables.connection() as connection:
        (before,) = await connection.fetch("SELECT next_offset, last_offset FROM checkpoints")
    assert tuple(before) == (tail[-1] + 1, tail[-1])

    eraser = Eraser(tables, log, PATIENT)
    with anyio.fail_after(120):
        while await open_rows(tables) or tail[-1] in {message.offset for message in await raw_records(settings, 0)}:
            await eraser.work_once()
            await anyio.sleep(0.1)
    assert not {message.offset for message in await raw_records(settings, 0)} & {first, *tail}

    await project_all(tables, log)
    await append_all(log, [turn(random, K, "after")])
    await project_all(tables, log)
    async with tables.connection() as connection:
        (after,) = await checkpoints.read(connection, tables.generation)
    assert after.stopped is None
    await rebuilt_and_verified(tables, log)
    await project_all(tables, log)
