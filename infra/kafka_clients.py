"""Making and closing Kafka clients: every wait bounded, every failure an error of the tree that names the broker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol, TypeVar

import anyio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)

from turnlog.domain.errors import Misconfigured, Unavailable
from turnlog.domain.events import MAX_RECORD_BYTES

REQUEST_TIMEOUT_MS = 10_000
START_S = 15.0
CLOSE_S = 1.0
LONG_POLL_MS = 250
"""How long the broker holds a fetch open. New records end it at once; a seek waits for it (measured)."""
FETCH_BYTES = MAX_RECORD_BYTES + 1024 * 1024
BATCH_BYTES = 1024 * 1024

T = TypeVar("T")


class KafkaSettings(Protocol):
    """What the Kafka log needs of the settings."""

    @property
    def kafka_bootstrap_servers(self) -> str | None:
        """`host:port`, several separated by commas."""

    @property
    def topic(self) -> str:
        """The event topic."""

    @property
    def partitions(self) -> int:
        """How many partitions a topic is created with, and must have."""

    @property
    def replication_factor(self) -> int:
        """How many replicas a topic is created with, and must have at least."""

    @property
    def min_insync_replicas(self) -> int:
        """How many replicas must hold a record before it counts as appended."""

    @property
    def append_timeout_ms(self) -> int:
        """How long an append may wait for its answer."""


def bootstrap_of(settings: KafkaSettings) -> str:
    """The bootstrap address. Raises Misconfigured if there is none."""
    if not settings.kafka_bootstrap_servers:
        raise Misconfigured("TURNLOG_KAFKA_BOOTSTRAP_SERVERS must name a Kafka broker, as in kafka-1:9092")
    return settings.kafka_bootstrap_servers


@contextmanager
def kafka_errors(bootstrap: str) -> Iterator[None]:
    """Turn the client's errors into Unavailable, or Misconfigured where trying again can't help."""
    try:
        yield
    except (AuthenticationFailedError, ClusterAuthorizationFailedError, TopicAuthorizationFailedError) as error:
        raise Misconfigured(f"Kafka at {bootstrap} refuses access: {type(error).__name__}") from error
    except TimeoutError as error:
        raise Unavailable(f"Kafka at {bootstrap} doesn't answer in time") from error
    except (KafkaError, OSError) as error:
        raise Unavailable(f"Kafka at {bootstrap} doesn't answer: {str(error) or type(error).__name__}") from error


async def bounded(bootstrap: str, call: Awaitable[T], seconds: float | None = None) -> T:
    """The call's result, or an error of the tree after `seconds`, `START_S` unless said otherwise."""
    with kafka_errors(bootstrap), anyio.fail_after(START_S if seconds is None else seconds):
        return await call


async def _started(bootstrap: str, start: Coroutine[Any, Any, None]) -> None:
    """Start a client. One that is cancelled in the middle of its first connection would leave that open."""
    starting = asyncio.ensure_future(start)
    try:
        await bounded(bootstrap, asyncio.shield(starting))
    except BaseException:
        with anyio.CancelScope(shield=True):
            await asyncio.wait([starting], timeout=CLOSE_S)
        if not starting.cancel() and not starting.cancelled():
            starting.exception()  # seen
        raise


@asynccontextmanager
async def open_admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client. Raises Unavailable if no broker answers at `bootstrap`."""
    admin = AIOKafkaAdminClient(bootstrap_servers=_checked(bootstrap), request_timeout_ms=REQUEST_TIMEOUT_MS)
    try:
        await _started(bootstrap, admin.start())
        yield admin
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await admin.close()


async def open_producer(bootstrap: str) -> AIOKafkaProducer:
    """A started idempotent producer."""
    producer = AIOKafkaProducer(
        bootstrap_servers=_checked(bootstrap),
        acks="all",
        enable_idempotence=True,
        linger_ms=0,
        max_batch_size=BATCH_BYTES,
        max_request_size=MAX_RECORD_BYTES + 1024 * 1024,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    try:
        await _started(bootstrap, producer.start())
    except BaseException:
        await abandon_producer(producer)
        raise
    return producer


async def close_producer(producer: AIOKafkaProducer, flush_s: float) -> None:
    """Deliver what is pending, for at most `flush_s` seconds, then close. What is still pending then is unknown."""
    with anyio.move_on_after(flush_s, shield=True) as scope:
        await producer.flush()
    if scope.cancelled_caught:
        await abandon_producer(producer)
        return
    with anyio.move_on_after(CLOSE_S, shield=True) as scope:
        await producer.stop()
    if scope.cancelled_caught:
        await abandon_producer(producer)


async def abandon_producer(producer: AIOKafkaProducer) -> None:
    """End the producer whatever it is doing. `stop()` waits for ever for pending records while the broker is down."""
    with anyio.CancelScope(shield=True):
        sender: asyncio.Task[None] | None = producer._sender.sender_task  # noqa: SLF001 - there is no public way
        if sender is not None:
            sender.cancel()
            await asyncio.wait([sender], timeout=CLOSE_S / 2)
        with anyio.move_on_after(CLOSE_S):
            await producer.client.close()
        for _ in range(10):
            if sender is None or sender.done():
                break
            # While a request is in flight the first cancel only ends the outer loop.
            sender.cancel()
            await asyncio.wait([sender], timeout=CLOSE_S / 10)
    producer._closed = True  # noqa: SLF001 - or it warns that nobody stopped it


async def open_consumer(bootstrap: str, fetch_bytes: int = FETCH_BYTES) -> AIOKafkaConsumer:
    """A started consumer without an assignment; `fetch_bytes` bounds one answer, but always lets one record through."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=_checked(bootstrap),
        enable_auto_commit=False,
        auto_offset_reset="none",
        fetch_max_wait_ms=LONG_POLL_MS,
        max_partition_fetch_bytes=fetch_bytes,
        fetch_max_bytes=fetch_bytes,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    try:
        await _started(bootstrap, consumer.start())
    except BaseException:
        await close_consumer(consumer)
        raise
    return consumer


async def close_consumer(consumer: AIOKafkaConsumer) -> None:
    """Close it, for at most a second. Its `stop` can raise a cancellation of its own, so it runs in a task apart."""
    with anyio.CancelScope(shield=True):
        stopping = asyncio.ensure_future(consumer.stop())
        await asyncio.wait([stopping], timeout=CLOSE_S)
        if stopping.done() and not stopping.cancelled() and stopping.exception() is None:
            return
        stopping.cancel()
        with anyio.move_on_after(CLOSE_S):
            await consumer._client.close()  # noqa: SLF001 - a stop that broke off leaves the connections open


def _checked(bootstrap: str) -> str:
    for address in bootstrap.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
            raise Misconfigured(
                f"TURNLOG_KAFKA_BOOTSTRAP_SERVERS must look like host:port,host:port; got {bootstrap!r}"
            )
    return bootstrap
