"""Where event ids and times come from."""

import os
import time
from uuid import UUID


def now_ms() -> int:
    """The wall clock in Unix ms. Never decides order."""
    return time.time_ns() // 1_000_000


def new_event_id() -> UUID:
    """A UUIDv7 (RFC 9562, section 5.7)."""
    random = int.from_bytes(os.urandom(10), "big")
    value = (now_ms() & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | (random >> 68) << 64 | 0b10 << 62 | random & (1 << 62) - 1
    return UUID(int=value)
