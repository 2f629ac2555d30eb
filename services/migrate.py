"""`turnlog migrate`: bring the database to the newest schema and, with Kafka, the topic to its contract; then end.

Every command migrates by itself; this one is for deployments that want it done before anything serves.
"""

from turnlog.infra.settings import Settings
from turnlog.services.composition import open_database


async def migrate(settings: Settings) -> list[str]:
    """What was done, a line each. Raises Unavailable, Misconfigured."""
    async with open_database(settings):
        lines = ["the database has the newest schema"]
    if settings.kafka_bootstrap_servers is not None:
        from turnlog.services.topic import create

        lines += await create(settings)
    return lines
