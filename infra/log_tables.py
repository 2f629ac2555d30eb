"""The tables of the Postgres event log: the records, and the counter row whose lock serialises writers."""

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    Uuid,
    event,
    text,
)

log_metadata = MetaData(schema="turnlog")

event_log_head = Table(
    "event_log_head",
    log_metadata,
    Column("one", Boolean, primary_key=True, server_default=text("true")),
    Column("next_offset", BigInteger, nullable=False, server_default=text("0")),
    Column("appended_ms", BigInteger, nullable=False, server_default=text("0"), comment="Append times never go back"),
    CheckConstraint("one", name="event_log_head_one_row"),
    postgresql_with={"fillfactor": 10},
)

event_log = Table(
    "event_log",
    log_metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("event_id", Uuid, nullable=False),
    Column("appended_ms", BigInteger, nullable=False),
    Column("time_ms", BigInteger, comment="When it was accepted, Unix ms"),
    Column("sent_after", BigInteger),
    Column("attempt", Integer, nullable=False),
    Column("ignorable", Boolean, nullable=False),
    Column("type", Text),
    Column("stream", Text),
    Column("subject", Text),
    Column("producer", Uuid),
    Column("idempotency_key", LargeBinary),
    Column("request_hash", LargeBinary),
    Column("actor", Text),
    Column("traceparent", Text),
    Column("value", LargeBinary, comment="UTF-8 JSON; null = erased"),
    # An ordinary turn stays in its page instead of being cut up into a TOAST table.
    postgresql_with={"toast_tuple_target": 8160},
)

# The planner's statistics would keep samples of the content past its erasure.
for _column in ("value", "actor", "traceparent"):
    _forget_samples = DDL(f"ALTER TABLE turnlog.event_log ALTER COLUMN {_column} SET STATISTICS 0")  # type: ignore[no-untyped-call]  # in SQLAlchemy
    event.listen(event_log, "after_create", _forget_samples)
