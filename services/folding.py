"""A batch of records made ready and folded, with a name for the record that can't be."""

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio.lowlevel

from turnlog.domain.errors import Bug, Unfoldable
from turnlog.domain.events import Record
from turnlog.domain.fold.decode import DecodedRecord, decode
from turnlog.domain.fold.effects import Effects
from turnlog.domain.fold.judge import judge
from turnlog.domain.fold.state import Loaded
from turnlog.domain.fold.work import Work

AT_ONCE = 16
"""Records decoded or judged before other tasks get a turn: an append's answer must not wait for a whole batch."""


async def decoded(records: Sequence[Record]) -> list[DecodedRecord]:
    """What of these there is to judge. Raises Unfoldable."""
    found: list[DecodedRecord] = []
    for start in range(0, len(records), AT_ONCE):
        if start:
            await anyio.lowlevel.checkpoint()
        found += [ready for record in records[start : start + AT_ONCE] if (ready := decode(record))]
    return found


async def folded(loaded: Loaded, ready: Sequence[DecodedRecord]) -> Effects:
    """The batch's effects. Whatever goes wrong is Unfoldable."""
    work = Work(loaded)
    for start in range(0, len(ready), AT_ONCE):
        if start:
            await anyio.lowlevel.checkpoint()
        with _unfoldable():
            judge(work, ready[start : start + AT_ONCE])
    with _unfoldable():
        return work.settle()


@contextmanager
def _unfoldable() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # The place, not the message, which could quote what somebody wrote.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise Unfoldable(f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}") from error


def cannot_be_folded(record: Record, error: Bug) -> str:
    """What to tell people of a record that stops a partition."""
    kind = record.event.type if record.event is not None else "no event"
    return f"record {record.position} ({kind[:200]}) can't be folded: {error}"
