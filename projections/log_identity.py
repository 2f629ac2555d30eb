"""Which log these tables were projected from: its id, kind and partition count (one row, `log_identity`)."""

from typing import NamedTuple
from uuid import UUID

from turnlog.domain.errors import Misconfigured
from turnlog.projections.statement import Connection

_READ = "SELECT log_id, kind, topic, partitions FROM log_identity"
_RECORD = """
INSERT INTO log_identity (log_id, kind, topic, partitions) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING
"""


class LogIdentity(NamedTuple):
    """`kind` is `kafka` or `postgres`; `topic` is set for Kafka."""

    log_id: UUID
    kind: str
    topic: str | None
    partitions: int


async def recorded(connection: Connection) -> LogIdentity | None:
    """The log these tables belong to, or None before the first start."""
    row = await connection.fetchrow(_READ)
    return None if row is None else LogIdentity(*row)


def refuse_other_kind(known: LogIdentity | None, kind: str) -> None:
    """Raise Misconfigured if the tables were projected from a log of another kind."""
    if known is not None and known.kind != kind:
        raise Misconfigured(
            f"these tables were projected from a {known.kind} log, this start uses a {kind} log: "
            "point turnlog at the former log, or at an empty database"
        )


async def claim(connection: Connection, found: LogIdentity) -> None:
    """Record the log at the first start; later refuse any other by name. Raises Misconfigured."""
    await connection.execute(_RECORD, *found)
    known = await recorded(connection)
    if known is None or known == found:
        return
    refuse_other_kind(known, found.kind)
    if known.log_id != found.log_id:
        raise Misconfigured(
            f"another log: the tables belong to log {known.log_id}, {_where(found)} holds log {found.log_id}. "
            "Was the topic recreated? Use the former log, or an empty database"
        )
    if known.partitions != found.partitions:
        raise Misconfigured(
            f"{_where(found)} has {found.partitions} partitions, its log was made with {known.partitions}: "
            "the partition count of a log never changes"
        )
    raise Misconfigured(f"the log is known as {_where(known)}, this start names {_where(found)}")


def _where(identity: LogIdentity) -> str:
    return "the Postgres event log" if identity.topic is None else f"topic {identity.topic!r}"
