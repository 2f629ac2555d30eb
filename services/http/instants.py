"""Instants as the API writes them."""

from datetime import UTC, datetime


def iso_instant(unix_ms: int) -> str:
    """Unix ms as ISO 8601 with milliseconds and offset: `2026-11-30T12:00:00.000+00:00`."""
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")
