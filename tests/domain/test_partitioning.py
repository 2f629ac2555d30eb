"""The partition of a stream: Kafka's murmur2 (events.md)."""

import pytest
from aiokafka.partitioner import murmur2 as kafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from turnlog.domain.partitioning import murmur2, partition_of


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_vectors_of_kafkas_own_test(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed % 2**32


@given(st.binary(max_size=40))
def test_another_implementation_agrees(data: bytes) -> None:
    assert murmur2(data) == kafka_murmur2(data) % 2**32


@given(st.text(max_size=20).filter(lambda text: "\ud800" not in text), st.integers(1, 1024))
def test_a_stream_has_one_partition(stream: str, partitions: int) -> None:
    partition = partition_of(stream, partitions)
    assert 0 <= partition < partitions
    assert partition == (murmur2(stream.encode()) & 0x7FFFFFFF) % partitions
