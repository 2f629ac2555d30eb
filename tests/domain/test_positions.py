"""Positions and row ids (events.md, "Written form of a position")."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.domain.errors import BadInput
from turnlog.domain.positions import (
    MAX_SAFE_INTEGER,
    ROWS_PER_EVENT,
    Position,
    format_positions,
    last_row_id,
    offset_of,
    parse_position,
    parse_positions,
    row_id,
)

OFFSETS = st.integers(0, MAX_SAFE_INTEGER // ROWS_PER_EVENT - 1)
POSITIONS = st.builds(Position, st.integers(0, 1023), st.integers(0, 10**15))


@given(OFFSETS, st.integers(0, ROWS_PER_EVENT - 1))
def test_a_row_id_knows_its_offset_and_is_a_safe_integer(offset: int, index: int) -> None:
    row = row_id(offset, index)
    assert offset_of(row) == offset
    assert row <= last_row_id(offset) <= MAX_SAFE_INTEGER
    assert last_row_id(offset) + 1 == row_id(offset + 1, 0)


@given(POSITIONS)
def test_a_position_reads_as_it_is_written(position: Position) -> None:
    assert parse_position(str(position)) == position


@given(st.lists(POSITIONS, min_size=1, max_size=5))
def test_several_positions_are_written_as_the_latest_of_each_partition(positions: list[Position]) -> None:
    latest = {partition: max(o for p, o in positions if p == partition) for partition, _ in positions}
    assert dict(parse_positions(format_positions(positions))) == latest


def test_spaces_around_the_commas_are_read() -> None:
    assert parse_positions("0-1 , 3-20") == (Position(0, 1), Position(3, 20))


@pytest.mark.parametrize(
    "text", ["", "5", "0-", "-1", "0-1-2", "a-1", "0--1", "0-1 2", "0-" + "1" * 17, "00000-1", "0-1,", "٣-1\n"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="position must look like 0-1234"):
        parse_positions(text)
