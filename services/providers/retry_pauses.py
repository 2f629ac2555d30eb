"""How long to wait before a request is tried again."""

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def backoff(attempt: int, *, first_s: float, longest_s: float) -> float:
    """Seconds before retry number `attempt` (from 0): doubling, and spread over the upper half of that time."""
    return min(longest_s, first_s * 2.0 ** min(attempt, 32)) * random.uniform(0.5, 1)  # noqa: S311 - only spreads load


def retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or a date; None for none or an unreadable one."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
