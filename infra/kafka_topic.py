"""The event topic's contract: created with it, compared with it at every start and while running.

Retention would silently delete the truth, a topic that isn't compacted would never forget, and append times made by
producers could lie; so a topic that differs is refused, with what to set (events.md; kafka-and-postgres.md, K1-K7).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

import anyio
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from turnlog.domain.errors import Misconfigured, Unavailable
from turnlog.domain.events import MAX_RECORD_BYTES
from turnlog.infra.kafka_clients import KafkaSettings, bootstrap_of, bounded, open_admin

DAY_MS = 24 * 60 * 60 * 1000
LEADERS_S = 15.0
_UNKNOWN_TOPIC = 3
_TOPIC_EXISTS = 36


class Rule(NamedTuple):
    """One setting: what the topic is created with, and how else it may stand ("", "at most" or "at least")."""

    name: str
    value: str
    bound: str = ""

    def holds(self, found: str | None) -> bool:
        """True if the topic's value keeps the contract."""
        if found is None or not self.bound:
            return found == self.value
        try:
            return int(found) <= int(self.value) if self.bound == "at most" else int(found) >= int(self.value)
        except ValueError:
            return False


def contract(settings: KafkaSettings) -> tuple[Rule, ...]:
    """Every setting of the topic that turnlog depends on."""
    return (
        Rule("cleanup.policy", "compact"),
        Rule("max.compaction.lag.ms", str(DAY_MS), "at most"),
        Rule("segment.ms", str(DAY_MS), "at most"),
        Rule("delete.retention.ms", str(7 * DAY_MS), "at least"),
        Rule("max.message.bytes", str(MAX_RECORD_BYTES)),
        Rule("message.timestamp.type", "LogAppendTime"),
        Rule("min.insync.replicas", str(settings.min_insync_replicas), "at least"),
        Rule("retention.ms", "-1"),
        Rule("retention.bytes", "-1"),
        Rule("unclean.leader.election.enable", "false"),
    )


async def check_topic(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> bool:
    """False if there is no such topic. Raises Misconfigured with all that differs and what to set; Unavailable."""
    bootstrap = bootstrap_of(settings)
    found = await _configuration(admin, settings)
    if found is None:
        return False
    differing = [
        f"{rule.name} is {found.get(rule.name, 'not set')}, set it to {rule.bound} {rule.value}".replace("  ", " ")
        for rule in contract(settings)
        if not rule.holds(found.get(rule.name))
    ]
    partitions = await _partitions(admin, settings)
    if len(partitions) != settings.partitions:
        differing.append(
            f"it has {len(partitions)} partitions, set TURNLOG_PARTITIONS to {len(partitions)} if its log was made "
            f"with that many (the partition count of a log never changes), else create another topic with "
            f"{settings.partitions}"
        )
    replicas = min((len(partition["replicas"]) for partition in partitions), default=0)
    if replicas < settings.replication_factor:
        differing.append(
            f"it has {replicas} replicas, reassign its partitions to {settings.replication_factor} or set "
            f"TURNLOG_REPLICATION_FACTOR to {replicas}"
        )
    if differing:
        raise Misconfigured(f"topic {settings.topic!r} at {bootstrap} breaks its contract: " + "; ".join(differing))
    return True


async def create_topic(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> bool:
    """Create the topic; False if it exists already. Returns once every partition has a leader.

    Raises Misconfigured if the broker refuses, Unavailable if it doesn't answer.
    """
    bootstrap = bootstrap_of(settings)
    new = NewTopic(
        settings.topic,
        num_partitions=settings.partitions,
        replication_factor=settings.replication_factor,
        topic_configs={rule.name: rule.value for rule in contract(settings)},
    )
    answer = await bounded(bootstrap, admin.create_topics([new]))
    _, code, message = answer.topic_errors[0]
    if code not in (0, _TOPIC_EXISTS):
        reason = f"topic {settings.topic!r} can't be created at {bootstrap}: {message or for_code(code).__name__}"
        raise Unavailable(reason) if for_code(code).retriable else Misconfigured(reason)
    await _wait_for_leaders(admin, settings)
    return bool(code == 0)


async def ensure_topic(settings: KafkaSettings, known: UUID | None) -> None:
    """Check the topic. A missing one is created, unless the tables know the log that was in it. Raises as above."""
    async with open_admin(bootstrap_of(settings)) as admin:
        if await check_topic(admin, settings):
            return
        if known is not None:
            raise Misconfigured(
                f"these tables belong to log {known}, and topic {settings.topic!r} doesn't exist at "
                f"{bootstrap_of(settings)}: name the former topic with TURNLOG_TOPIC, or use an empty database"
            )
        await create_topic(admin, settings)
        await check_topic(admin, settings)


async def _configuration(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> dict[str, str] | None:
    # Not by metadata: where brokers create topics by themselves, asking for a missing one makes it.
    bootstrap = bootstrap_of(settings)
    resource = ConfigResource(ConfigResourceType.TOPIC, settings.topic)
    (answer,) = await bounded(bootstrap, admin.describe_configs([resource]))
    code, message, _, _, entries = answer.resources[0]
    if code == _UNKNOWN_TOPIC:
        return None
    if code:
        raise Misconfigured(f"topic {settings.topic!r} at {bootstrap} can't be read: {message or for_code(code)}")
    return {entry[0]: entry[1] for entry in entries}


async def _partitions(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> list[dict[str, Any]]:
    (topic,) = await bounded(bootstrap_of(settings), admin.describe_topics([settings.topic]))
    found: list[dict[str, Any]] = topic["partitions"]
    return found


async def _wait_for_leaders(admin: AIOKafkaAdminClient, settings: KafkaSettings) -> None:
    with anyio.move_on_after(LEADERS_S):
        while True:
            partitions = await _partitions(admin, settings)
            if partitions and _all_lead(partitions):
                return
            await anyio.sleep(0.1)
    raise Unavailable(
        f"topic {settings.topic!r} has partitions without a leader {LEADERS_S:.0f} s after it was created"
    )


def _all_lead(partitions: Iterable[dict[str, Any]]) -> bool:
    return all(partition["error_code"] == 0 and partition["leader"] >= 0 for partition in partitions)
