"""Appending to one partition: micro-batches, one in flight, and what a dead producer left is sent again.

While a batch waits for its answer the next one gathers; there is no linger time. A batch whose producer died is
*unknown*: its events are sent again by the successor, in one batch behind a `producer.fenced` for every dead producer
that may still deliver, with the next attempt number and `sentafter` (events.md; architecture, "The log").

`sentafter` is the largest end of the partition that this process had seen when it first sent the event. It is at most
the true end, so a deleted session never comes back. It can be older than the true end, by appends of other processes
that weren't seen yet (a second's worth, see kafka_log.py): if a delete lies exactly in between, the resend is refused
although the delete came first. Nothing acknowledged is lost by that: a resent event counts only by its verdict, and
whoever waits for it is told 410.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

import anyio
import structlog
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from turnlog.domain.errors import Misconfigured, OutcomeUnknown, TooLarge, TurnlogError, Unavailable
from turnlog.domain.event_data import ProducerFenced
from turnlog.domain.event_json import encode_data
from turnlog.domain.event_log import Appended
from turnlog.domain.events import MAX_RECORD_BYTES, Event, EventType, RecordKey
from turnlog.domain.positions import Position
from turnlog.infra.cloud_events import Headers, encode_headers, encode_key, producer_header
from turnlog.infra.event_ids import new_event_id, now_ms
from turnlog.infra.kafka_producers import FIRST_RETRY_S, LAST_RETRY_S, Producer, Producers

LATER_HEADER_BYTES = 128
"""Room for the headers `producer` and `sentafter`, and for a longer attempt number, which are set when it is sent."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Pending:
    """One record on its way: an event, or with `event` None a tombstone. `key` is the record key, `size` in bytes.

    `first_end` is what was known of the partition's end when it was first sent, None before.
    """

    key: bytes
    event: Event | None
    headers: Headers
    size: int
    answer: "asyncio.Future[Appended]"
    first_end: int | None = None
    resent: bool = False

    @property
    def sent(self) -> bool:
        """False as long as it can't be in the log."""
        return self.first_end is not None

    def refuse(self, error: TurnlogError) -> None:
        """Answer with an error, unless nobody waits any more."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Budget:
    """Bytes that may still be taken on their way, over all partitions."""

    def __init__(self, limit: int) -> None:
        self.left = limit


class PartitionEnd:
    """The largest end of one partition that was seen: by answers to appends, fetches and questions."""

    def __init__(self, seen: int) -> None:
        self.seen = seen

    def note(self, end: int) -> None:
        """The partition ended at `end` at some time before now."""
        self.seen = max(self.seen, end)


class _Lost(NamedTuple):
    """A batch that isn't known to be in the log, and why. `sent` is False if it certainly isn't.

    `refusal` is what the broker has against its records.
    """

    reason: str
    sent: bool = True
    refusal: TurnlogError | None = None


class PartitionAppender:
    """Appends what is submitted, in order, while `run` runs. `source` is the log's `ce_source`.

    `on_broken` is told if the partition turns out to be another one than before.
    """

    def __init__(
        self,
        *,
        topic: str,
        partition: int,
        source: bytes,
        producers: Producers,
        budget: Budget,
        end: PartitionEnd,
        on_broken: Callable[[Misconfigured], None],
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._source = source
        self._producers = producers
        self._budget = budget
        self._end = end
        self._on_broken = on_broken
        self._queue: deque[Pending] = deque()
        self._unanswered: deque[Pending] = deque()
        self._in_flight: list[Pending] = []
        self._to_fence: list[UUID] = []
        self._arrived = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._singly = 0

    async def drained(self) -> None:
        """Return once nothing is on its way."""
        await self._drained.wait()

    def submit(self, event: Event) -> Pending:
        """Queue an event. Raises TooLarge, BadInput, or Unavailable if too much is on its way."""
        key, headers = encode_key(event.key), encode_headers(event, self._source)
        return self._submit(key, event, headers, _record_bytes(key, event.data, headers) + LATER_HEADER_BYTES)

    def submit_tombstone(self, key: RecordKey) -> Pending:
        """Queue a null value for `key`. Raises Unavailable if too much is on its way."""
        raw_key = encode_key(key)
        return self._submit(raw_key, None, [], _record_bytes(raw_key, None, []))

    def expire(self, pending: Pending) -> None:
        """Its time is over: take it back if it was never sent, and answer."""
        if pending in self._queue and not pending.sent:
            self._queue.remove(pending)
            self._budget.left += pending.size
            pending.refuse(Unavailable("the log did not take the event in time; nothing is stored"))
        else:
            pending.refuse(OutcomeUnknown("Kafka did not answer in time; the event may still be stored"))

    async def run(self) -> None:
        """Append until cancelled; then whatever is left is answered."""
        pause = FIRST_RETRY_S
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                while self._queue or self._unanswered:
                    if await self._deliver():
                        pause = FIRST_RETRY_S
                    else:
                        await anyio.sleep(pause)
                        pause = min(pause * 2, LAST_RETRY_S)
                self._drained.set()
        finally:
            for pending in (*self._in_flight, *self._unanswered, *self._queue):
                if pending.sent or pending in self._in_flight:
                    pending.refuse(OutcomeUnknown("the log is closing; the event may be stored"))
                else:
                    pending.refuse(Unavailable("the log is closing; nothing is stored"))

    def _submit(self, key: bytes, event: Event | None, headers: Headers, size: int) -> Pending:
        if size > MAX_RECORD_BYTES:
            raise TooLarge(f"an event may take {MAX_RECORD_BYTES} bytes with its headers, this one takes {size}")
        if size > self._budget.left:
            raise Unavailable("the log takes no more events right now: too many wait for Kafka's answer")
        pending = Pending(key, event, headers, size, asyncio.get_running_loop().create_future())
        self._budget.left -= size
        self._queue.append(pending)
        self._drained.clear()
        self._arrived.set()
        return pending

    async def _deliver(self) -> bool:
        """Send one batch and take its answer. False if some of it has to be sent again."""
        producer = await self._producers.current()
        builder = producer.client.create_batch()
        fences = len(self._to_fence)
        for dead in self._to_fence:
            self._add_fence(builder, producer, dead)
        batch = self._in_flight = self._take(builder, producer)
        seen = self._end.seen
        answer = await self._send(producer, builder, batch)
        self._in_flight = []
        if isinstance(answer, _Lost):
            await self._give_up(producer, batch, answer)
            return False
        del self._to_fence[:fences]
        self._singly = max(0, self._singly - len(batch))
        if answer < seen:
            self._break(batch, seen, answer)
            return True
        self._end.note(answer + fences + len(batch))
        for offset, pending in enumerate(batch, start=answer + fences):
            self._budget.left += pending.size
            if not pending.answer.done():
                pending.answer.set_result(Appended(Position(self._partition, offset), pending.resent))
        return True

    def _add_fence(self, builder: Any, producer: Producer, dead: UUID) -> None:  # noqa: ANN401 - no types there
        data = encode_data(ProducerFenced(producer=str(dead)))
        wire_name = EventType.PRODUCER_FENCED.wire_name
        fence = Event(new_event_id(), wire_name, "producer", f"producer:{dead}", now_ms(), data, producer=producer.id)
        _add(builder, encode_key(fence.key), data, encode_headers(fence, self._source))

    def _take(self, builder: Any, producer: Producer) -> list[Pending]:  # noqa: ANN401 - no types there
        """Move what fits into the builder, in order: first what a dead producer left."""
        batch: list[Pending] = []
        by = producer_header(producer.id)
        for waiting in (self._unanswered, self._queue):
            while waiting and not (batch and self._singly):
                pending = waiting[0]
                event = pending.event
                value, headers = (None, []) if event is None else (event.data, [*pending.headers, by])
                if not _add(builder, pending.key, value, headers):
                    return batch
                batch.append(waiting.popleft())
        return batch

    async def _send(self, producer: Producer, builder: Any, batch: Sequence[Pending]) -> int | _Lost:  # noqa: ANN401
        """The batch's first offset, or how it was lost. Waits as long as the producer goes on trying."""
        seen = self._end.seen
        try:
            answer = await producer.client.send_batch(builder, self._topic, partition=self._partition)
        except (KafkaError, AssertionError) as error:
            return _Lost(f"not taken: {type(error).__name__}", sent=False)
        for pending in batch:
            if pending.first_end is None:
                pending.first_end = seen
        await asyncio.wait((answer, producer.gone), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            return _Lost("its producer is gone")
        failure = answer.exception()
        if failure is not None:
            return _Lost(type(failure).__name__, refusal=self._refusal(failure))
        offset: int = answer.result().offset
        # A broker that only remembers that it has the batch already names no offset.
        return offset if offset >= 0 else _Lost("its answer named no offset")

    def _refusal(self, error: BaseException) -> TurnlogError | None:
        if isinstance(error, (MessageSizeTooLargeError, RecordListTooLargeError)):
            return TooLarge(f"topic {self._topic!r} takes no record of this size: check its max.message.bytes")
        if isinstance(error, TopicAuthorizationFailedError):
            return Misconfigured(f"topic {self._topic!r} may not be written with these credentials")
        return None

    async def _give_up(self, producer: Producer, batch: list[Pending], lost: _Lost) -> None:
        """Keep what must be sent again, answer what was refused, and get another producer."""
        if isinstance(lost.refusal, TooLarge) and len(batch) > 1:
            self._singly = len(batch)  # one of them is too large, the others must not fail with it
        elif lost.refusal is not None:
            for pending in batch:
                self._budget.left += pending.size
                pending.refuse(lost.refusal)
            batch = []
        if lost.sent:
            self._to_fence.append(producer.id)
        for pending in reversed(batch):
            if pending.sent:
                self._again(pending)
                self._unanswered.appendleft(pending)
            else:
                self._queue.appendleft(pending)
        _log.warning(
            "batch_lost", partition=self._partition, records=len(batch), producer=str(producer.id), reason=lost.reason
        )
        await self._producers.replace(producer, lost.reason)

    def _again(self, pending: Pending) -> None:
        """The next attempt. A tombstone stays what it is: twice is the same as once."""
        event = pending.event
        if event is None:
            return
        sent_after = pending.first_end if event.sent_after is None else event.sent_after
        event = replace(event, attempt=event.attempt + 1, sent_after=sent_after)
        pending.event, pending.key, pending.resent = event, encode_key(event.key), True
        pending.headers = encode_headers(event, self._source)

    def _break(self, batch: Sequence[Pending], seen: int, offset: int) -> None:
        broken = Misconfigured(
            f"topic {self._topic!r} went back: partition {self._partition} had reached offset {seen}, now it took a "
            f"record at {offset}. Was it recreated or truncated? Stop turnlog and restore the former log"
        )
        self._on_broken(broken)
        for pending in batch:
            self._budget.left += pending.size
            pending.refuse(broken)


def _record_bytes(key: bytes, value: bytes | None, headers: Headers) -> int:
    """An upper bound of what the record takes in a batch of its own, the batch's header included."""
    size: int = DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers)
    return size


def _add(builder: Any, key: bytes, value: bytes | None, headers: Headers) -> bool:  # noqa: ANN401 - no types there
    """False if the batch is full. An empty batch takes one record of any size."""
    return builder.append(timestamp=None, key=key, value=value, headers=headers) is not None
