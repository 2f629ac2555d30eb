"""Who may run a turn: a lease per session, in append time (orchestrator.md; fold.md, `turn.started`). Pure values."""

from typing import Literal, NamedTuple

from turnlog.domain.fold.state import Lease

Policy = Literal["reject", "enqueue", "interrupt"]


class LeaseAnswer(NamedTuple):
    """The answer to a run that asked: 200 it holds the lease, 202 it waits, 409 it was rejected (nothing changes)."""

    status: int
    lease: Lease | None


def unexpired(lease: Lease | None, now_ms: int) -> Lease | None:
    """The lease as it stands at `now_ms`: each expired holder is followed by the first that waits, from the moment of
    expiry on.
    """
    while lease is not None and lease.until_ms <= now_ms:
        lease = _next(lease, lease.until_ms)
    return lease


def ask(lease: Lease | None, run_id: str, lease_ms: int, policy: Policy, now_ms: int) -> LeaseAnswer:
    """A run asks to start at `now_ms`. The same run asking again renews what it has: its lease, or its place."""
    lease = unexpired(lease, now_ms)
    mine = (run_id, lease_ms)
    if lease is None:
        return LeaseAnswer(200, Lease(run_id, now_ms + lease_ms))
    if lease.run_id == run_id:
        return LeaseAnswer(200, lease._replace(until_ms=now_ms + lease_ms))
    if policy == "interrupt":
        return LeaseAnswer(200, Lease(run_id, now_ms + lease_ms, _without(lease, run_id)))
    if policy == "reject":
        return LeaseAnswer(409, lease)
    if any(waiting == run_id for waiting, _ in lease.waiting):
        kept = tuple(mine if run == run_id else (run, length) for run, length in lease.waiting)
        return LeaseAnswer(202, lease._replace(waiting=kept))
    return LeaseAnswer(202, lease._replace(waiting=(*lease.waiting, mine)))


def release(lease: Lease | None, run_id: str, now_ms: int) -> Lease | None:
    """A run gives back its lease or its place in the queue; any other run changes nothing."""
    if lease is None:
        return None
    if lease.run_id == run_id:
        return _next(lease, now_ms)
    return lease._replace(waiting=_without(lease, run_id))


def _next(lease: Lease, from_ms: int) -> Lease | None:
    if not lease.waiting:
        return None
    (run_id, lease_ms), *rest = lease.waiting
    return Lease(run_id, from_ms + lease_ms, tuple(rest))


def _without(lease: Lease, run_id: str) -> tuple[tuple[str, int], ...]:
    return tuple(waiting for waiting in lease.waiting if waiting[0] != run_id)
