"""Positions, row ids and their written forms (events.md, "Written form of a position")."""

import re
from typing import NamedTuple

from turnlog.domain.errors import BadInput

ROWS_PER_EVENT = 4096
"""Rows one event can make: entries and agent messages share this space."""

MAX_SAFE_INTEGER = 2**53 - 1
"""JavaScript's largest safe integer; every row id stays at or below it."""

_POSITION = re.compile(r"([0-9]{1,4})-([0-9]{1,16})")


class Position(NamedTuple):
    """One record's place: (partition, offset). Inside a stream the offset alone is strictly increasing."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.offset}"


def row_id(offset: int, index: int) -> int:
    """The row id of entry `index` (0..4095) of the event at `offset`."""
    return offset * ROWS_PER_EVENT + index


def last_row_id(offset: int) -> int:
    """The largest row id that belongs to the event at `offset`; as a floor it hides everything up to and with it."""
    return offset * ROWS_PER_EVENT + ROWS_PER_EVENT - 1


def offset_of(row: int) -> int:
    """The offset of the event that made the row."""
    return row // ROWS_PER_EVENT


def parse_position(text: str) -> Position:
    """Read `<partition>-<offset>`. Raises BadInput for anything else."""
    match = _POSITION.fullmatch(text)
    if match is None:
        raise BadInput(f"position must look like 0-1234, several separated by commas: {text[:60]!r}")
    return Position(int(match[1]), int(match[2]))


def parse_positions(text: str) -> tuple[Position, ...]:
    """Read a comma-separated list of positions, as in `Turnlog-After`. Raises BadInput."""
    return tuple(parse_position(part.strip()) for part in text.split(","))


def format_positions(positions: list[Position] | tuple[Position, ...]) -> str:
    """Write positions as `parse_positions` reads them, sorted, each partition's latest only."""
    latest: dict[int, int] = {}
    for partition, offset in positions:
        latest[partition] = max(offset, latest.get(partition, -1))
    return ",".join(f"{p}-{o}" for p, o in sorted(latest.items()))
