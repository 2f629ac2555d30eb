"""The producer of a process, and its replacement when it died.

An idempotent producer that lost one batch refuses all later ones, and may still deliver what it holds: records handed
to a broker that hangs land when it goes on. So a dead one gets a successor with another instance id; what it left
without an answer is sent again by the successor, after a `producer.fenced` (kafka_appender.py).
"""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import anyio
import structlog
from aiokafka import AIOKafkaProducer

from turnlog.domain.errors import Unavailable
from turnlog.infra.kafka_clients import abandon_producer, close_producer, open_producer

GRACE_S = 1.0
"""How long a replaced producer may go on delivering what it holds for other partitions."""
LAST_FLUSH_S = 0.2
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 2.0

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Producer:
    """One producer instance. `id` is its `producer` header; `gone` is done once it can't answer any more."""

    client: AIOKafkaProducer
    id: UUID = field(default_factory=uuid4)
    gone: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Producers:
    """Always one producer to use, except while it is being replaced."""

    def __init__(self, bootstrap: str, first: AIOKafkaProducer) -> None:
        self._bootstrap = bootstrap
        self._current = Producer(first)
        self._usable = asyncio.Event()
        self._usable.set()

    async def current(self) -> Producer:
        """The producer to use; waits while there is none."""
        await self._usable.wait()
        return self._current

    async def replace(self, dead: Producer, reason: str) -> None:
        """Make a successor, unless there is one already, for as long as that takes; `dead` is closed after a grace."""
        if self._current is not dead:
            return
        if not self._usable.is_set():
            await self._usable.wait()
            return
        self._usable.clear()
        _log.warning("producer_replaced", producer=str(dead.id), reason=reason)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_retire, dead)
            self._current = Producer(await self._open())
            self._usable.set()

    async def close(self) -> None:
        """End. Whoever appends has waited for the answers; what has none by now gets none."""
        await close_producer(self._current.client, LAST_FLUSH_S)
        _set_gone(self._current)

    async def _open(self) -> AIOKafkaProducer:
        pause = FIRST_RETRY_S
        while True:
            try:
                return await open_producer(self._bootstrap)
            except Unavailable as error:
                _log.warning("producer_not_started", reason=str(error))
                await anyio.sleep(pause)
                pause = min(pause * 2, LAST_RETRY_S)


async def _retire(dead: Producer) -> None:
    try:
        with anyio.move_on_after(GRACE_S):
            await dead.client.flush()
    finally:
        await abandon_producer(dead.client)
        _set_gone(dead)


def _set_gone(producer: Producer) -> None:
    if not producer.gone.done():
        producer.gone.set_result(None)
