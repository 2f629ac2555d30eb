"""The port every log adapter implements. One contract suite runs on all of them (tests/contract)."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from turnlog.domain.errors import BadInput
from turnlog.domain.events import Batch, Event, RecordKey
from turnlog.domain.positions import Position


class Appended(NamedTuple):
    """Where an event went.

    `resent` is True if a dead writer left it without an answer and it was sent again: another record of it may stand
    before this one, or its session may have been deleted in between, so only the fold's verdict says what became of it.
    """

    position: Position
    resent: bool = False


def check_names(event: Event) -> None:
    """Refuse names that no log takes. Raises BadInput."""
    for name in ("stream", "subject", "actor", "traceparent"):
        if "\x00" in (getattr(event, name) or ""):
            raise BadInput(f"{name} must not contain U+0000")


class EventLog(Protocol):
    """A durable, ordered log of events in one or more partitions.

    Inside a partition offsets strictly increase; they may have gaps. Offset 0 holds the genesis record.
    """

    @property
    def log_id(self) -> UUID:
        """The random id in the genesis records."""
        ...

    @property
    def partitions(self) -> int:
        """How many partitions there are; fixed for the life of the log."""
        ...

    async def append(self, event: Event) -> Appended:
        """Append to the partition of `event.stream`; durable and atomic when it returns.

        Cancelling the caller doesn't withdraw the event. Raises OutcomeUnknown if no answer came within the
        deadline (the event may still land), Unavailable if nothing was sent (queue full, log closed), TooLarge
        if the record is beyond `MAX_RECORD_BYTES`.
        """
        ...

    async def append_to(self, partition: int, event: Event) -> Appended:
        """`append` for what belongs to a partition and no stream, such as a tick."""
        ...

    async def read(self, partition: int, next_offset: int, *, limit: int, wait_ms: int) -> Batch:
        """Up to `limit` records at offsets ≥ `next_offset`, waiting at most `wait_ms` for the first.

        Never skips a record that a slower writer commits later. An empty batch can still move `next_offset`
        forward over compacted ranges. Raises Unavailable, or Misconfigured if the offset is outside the log.
        """
        ...

    async def end(self, partition: int) -> int:
        """The offset the next record will get. Raises Unavailable."""
        ...

    async def erase(self, partition: int, records: Sequence[tuple[int, RecordKey]]) -> None:
        """Erase the values of these (offset, key) records: tombstones on Kafka, nulling in Postgres. Idempotent."""
        ...

    async def unerased(self, partition: int, records: Sequence[tuple[int, RecordKey]]) -> Sequence[RecordKey]:
        """Which of these records' values can still be read back or still lie in the log's files, as far as seen."""
        ...
