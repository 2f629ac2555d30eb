"""Who may run a turn, for the naive model: the lease of a session as a plain dict."""

from typing import Any

from tests.model.naive_records import LogRecord, number_of, text_of

Row = dict[str, Any]


def take_lease(lease: Row | None, record: LogRecord, raw: dict[str, str]) -> tuple[int, Row | None]:
    """Status and the lease afterwards; the given one isn't changed."""
    now, run, length = record.appended_ms, text_of(raw, "runId"), number_of(raw, "lease") or 0
    while lease is not None and lease["until_ms"] <= now:
        lease = _next(lease["waiting"], lease["until_ms"])
    if lease is None or lease["run_id"] == run:
        return 200, {"run_id": run, "until_ms": now + length, "waiting": lease["waiting"] if lease else []}
    policy = text_of(raw, "policy") or "reject"
    if policy == "reject":
        return 409, lease
    others = [waiting for waiting in lease["waiting"] if waiting[0] != run]
    if policy == "interrupt":
        return 200, {"run_id": run, "until_ms": now + length, "waiting": others}
    # A run that waits already keeps its place.
    place = next((number for number, waiting in enumerate(lease["waiting"]) if waiting[0] == run), len(others))
    return 202, lease | {"waiting": [*others[:place], (run, length), *others[place:]]}


def release(lease: Row | None, record: LogRecord, raw: dict[str, str]) -> Row | None:
    run = text_of(raw, "runId")
    if lease is None:
        return None
    if lease["run_id"] == run:
        return _next(lease["waiting"], record.appended_ms)
    return lease | {"waiting": [waiting for waiting in lease["waiting"] if waiting[0] != run]}


def _next(waiting: list[tuple[str, int]], since_ms: int) -> Row | None:
    """The lease of the queue's head, running from `since_ms`."""
    if not waiting:
        return None
    run, length = waiting[0]
    return {"run_id": run, "until_ms": since_ms + length, "waiting": waiting[1:]}
