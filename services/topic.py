"""`turnlog topic check | create`: the event topic against its contract, without starting anything."""

from turnlog.domain.errors import Misconfigured
from turnlog.infra.kafka_clients import KafkaSettings, bootstrap_of, open_admin
from turnlog.infra.kafka_topic import check_topic, contract, create_topic


async def check(settings: KafkaSettings) -> list[str]:
    """What was found to be right, one line a setting. Raises Misconfigured with what to set, or Unavailable."""
    async with open_admin(bootstrap_of(settings)) as admin:
        if not await check_topic(admin, settings):
            raise Misconfigured(
                f"topic {settings.topic!r} doesn't exist at {bootstrap_of(settings)}: run `turnlog topic create`"
            )
    return _lines(settings)


async def create(settings: KafkaSettings) -> list[str]:
    """Create the topic with its contract; one that exists is checked. Raises Misconfigured, Unavailable."""
    async with open_admin(bootstrap_of(settings)) as admin:
        created = await create_topic(admin, settings)
        await check_topic(admin, settings)
    return [f"topic {settings.topic} {'created' if created else 'exists and keeps its contract'}", *_lines(settings)]


def _lines(settings: KafkaSettings) -> list[str]:
    rules = [f"{rule.name} {rule.bound} {rule.value}".replace("  ", " ") for rule in contract(settings)]
    return [f"partitions {settings.partitions}", f"replicas at least {settings.replication_factor}", *rules]
