"""A server that comes back to a log whose tail was compacted while it was dead."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from tests.chaos.api import api, entry
from tests.chaos.installations import Installation, log_of
from tests.counts import Report
from tests.kafka_log.topics import QUICK_COMPACTION, make_topic, raw_records
from tests.log_settings import KafkaLogSettings, turn
from tests.postgres_server import Database
from turnlog.domain.event_log import EventLog
from turnlog.domain.events import RecordKey

DOOMED = tuple(f"doomed-{number}" for number in range(20))


@pytest.fixture
def topic(kafka_bootstrap: str, kafka_topic_name: str) -> KafkaLogSettings:
    """One partition, to be compacted within a second."""
    return KafkaLogSettings(kafka_bootstrap, kafka_topic_name, partitions=1)


@pytest.fixture
async def installation(topic: KafkaLogSettings, database: Database, tmp_path: Path) -> AsyncIterator[Installation]:
    """On that topic; its eraser looks once, at the start, so that the test decides what is erased when."""
    await make_topic(topic, QUICK_COMPACTION)
    settings = {"kafka_bootstrap_servers": str(topic.kafka_bootstrap_servers), "topic": topic.topic, "partitions": "1"}
    settings |= {"database_url": database.dsn, "erasure_interval_s": "3600"}
    installation = Installation("kafka", settings, tmp_path)
    try:
        yield installation
    finally:
        await installation.close()


@pytest.mark.timeout(180)
async def test_a_server_goes_on_where_the_last_applied_record_and_all_behind_it_are_gone(
    installation: Installation, topic: KafkaLogSettings, report: Report
) -> None:
    server = installation.process()
    await server.start()
    key = "agent:a1:native"
    async with api(server.url) as client:
        assert (await client.save("agent:a1:kept", entry("kept"))).status == 200
        async with log_of(installation) as log:
            doomed = [turn(key, text) for text in DOOMED]
            places = [(await log.append(event)).position for event in doomed]
            deleted = await client.delete(key)
            assert deleted.status == 200
            # Records of the dead session that land late: refused, and the last ones that the checkpoint passes.
            late = [turn(key, "late", sent_after=place.offset) for place in places]
            places += [(await log.append(event)).position for event in late]
            assert await client.entry_ids(key, Turnlog_After=str(places[-1])) == []
            await server.kill()
            gone = [(place.offset, event.key) for place, event in zip(places, doomed + late, strict=True)]
            rounds = await _compact(log, gone)
            end = await log.end(0)
        left = {record.offset for record in await raw_records(topic, 0) if record.value is not None}
        assert left.isdisjoint(offset for offset, _ in gone)
        assert max(left) == deleted.offset
        await server.start()
        again = await client.save(key, entry("again"))
        assert again.offset >= end
        assert await client.entry_ids(key, Turnlog_After=again.position) == ["again"]
        assert await client.entry_ids("agent:a1:kept") == ["kept"]
    assert await server.stop() == 0
    await installation.verify()
    report(f"{len(gone)} records compacted away in {rounds} rounds, the one at the checkpoint among them")


async def _compact(log: EventLog, gone: list[tuple[int, RecordKey]]) -> int:
    """Write tombstones until the broker has nothing of these any more; how often that took."""
    rounds = 0
    with anyio.fail_after(60):
        while rounds == 0 or await log.unerased(0, gone):
            rounds += 1
            await log.erase(0, gone)
            await anyio.sleep(0.35)
    return rounds
