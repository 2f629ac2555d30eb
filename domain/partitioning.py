"""Which partition a stream lives in: Kafka's murmur2, masked positive, modulo the count (events.md)."""

from functools import lru_cache


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 (`org.apache.kafka.common.utils.Utils.murmur2`), as an unsigned integer."""
    length = len(data)
    mixer = 0x5BD1E995
    mask = 0xFFFFFFFF
    h = (0x9747B28C ^ length) & mask
    whole = length - length % 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little")
        k = (k * mixer) & mask
        k ^= k >> 24
        k = (k * mixer) & mask
        h = (h * mixer) & mask
        h ^= k
    rest = data[whole:]
    if rest:
        h ^= int.from_bytes(rest, "little")
        h = (h * mixer) & mask
    h ^= h >> 13
    h = (h * mixer) & mask
    h ^= h >> 15
    return h


@lru_cache(maxsize=4096)
def partition_of(stream: str, partitions: int) -> int:
    """The partition of a stream in a log of `partitions`. The one rule for every writer and reader."""
    if partitions == 1:
        return 0
    return (murmur2(stream.encode()) & 0x7FFFFFFF) % partitions
