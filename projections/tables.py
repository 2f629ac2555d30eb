"""The tables, as SQLAlchemy metadata. Migrations create them; a test proves that both agree.

Two kinds. *Projection* tables are what the fold makes: they live in one schema per generation (`turnlog_g1`, …), named
without a schema here and found by the search path, so that a rebuild can fill a second generation beside the first.
*Ledgers* live in the schema `turnlog`, survive rebuilds and stand outside the law of erasure (fold.md, "The law").

Times are Unix ms from the log's append time, unless a column says otherwise. Ids are derived, never drawn.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    Uuid,
    func,
    text,
)

LEDGER_SCHEMA = "turnlog"
GENERATION_PREFIX = "turnlog_g"

CONTENT = "content"
"""In a column's `info`: it holds what somebody wrote or named. The planner's statistics would keep samples of it past
its deletion, so none are collected.
"""

_NAMES = {
    "ix": "%(table_name)s_by_%(column_0_N_name)s",
    "pk": "%(table_name)s_pkey",
    "ck": "%(table_name)s_%(constraint_name)s",
}

projection_metadata = MetaData(naming_convention=_NAMES)
ledger_metadata = MetaData(naming_convention=_NAMES, schema=LEDGER_SCHEMA)


def generation_schema(generation: int) -> str:
    """The schema that holds the projection tables of a generation (1, 2, …)."""
    return f"{GENERATION_PREFIX}{generation}"


sessions = Table(
    "sessions",
    projection_metadata,
    Column("session_id", Uuid, primary_key=True),
    Column("partition", SmallInteger, nullable=False),
    Column("session_key", Text(collation="C"), nullable=False),
    Column("agent_id", Text(collation="C"), comment="Set for 1:1 keys of an agent only"),
    Column("team_id", Text(collation="C")),
    Column("room_id", Text(collation="C")),
    Column("last_delete", BigInteger, nullable=False),
    Column("last_clear", BigInteger, nullable=False),
    Column("last_reset", BigInteger, nullable=False),
    Column("context_floor", BigInteger, nullable=False, comment="Row id; the model sees rows above it"),
    Column("cleared_floor", BigInteger, nullable=False, comment="Row id; pages and streams show rows above it"),
    Column("last_position", BigInteger, nullable=False),
    Column("visible_entries", BigInteger, nullable=False),
    Column("total_entries", BigInteger, nullable=False),
    Column("total_messages", BigInteger, nullable=False),
    Column("first_activity_ms", BigInteger, nullable=False),
    Column("last_activity_ms", BigInteger, nullable=False),
    Column("fork_source", Text, info={CONTENT: True}),
    Column("fork_at", BigInteger, comment="Row id of the source"),
    Column("lease", Text, comment="JSON: run id, until (ms), waiting", info={CONTENT: True}),
    Column("replayed_entries", BigInteger, nullable=False, comment="Of turns without messages"),
    Column("fork_position", BigInteger),
    Index("sessions_by_session_key", "session_key", unique=True),
    Index("sessions_by_team", "team_id", "room_id", postgresql_where=text("team_id IS NOT NULL")),
    Index("sessions_by_agent", "agent_id", postgresql_where=text("agent_id IS NOT NULL")),
)

fences = Table(
    "fences",
    projection_metadata,
    Column("session_id", Uuid, primary_key=True),
    Column("partition", SmallInteger, nullable=False),
    Column("last_delete", BigInteger, nullable=False),
)

clears = Table(
    "clears",
    projection_metadata,
    Column("team_id", Text(collation="C"), primary_key=True),
    Column("scope", Text(collation="C"), primary_key=True),
    Column("partition", SmallInteger, nullable=False),
    Column("last_clear", BigInteger, nullable=False),
)

endings = Table(
    "endings",
    projection_metadata,
    Column("partition", SmallInteger, primary_key=True),
    Column("position", BigInteger, primary_key=True),
    Column("ordinal", SmallInteger, primary_key=True),
    Column("kind", SmallInteger, nullable=False, comment="1 reset, 2 clear, 3 delete"),
    Column("session_id", Uuid),
    Column("team_id", Text),
    Column("scope", Text),
    Column("actor", Text),
    Column("reason", Text),
    Column("cleared_at_ms", BigInteger),
    Column("appended_ms", BigInteger, nullable=False),
    Index("endings_by_session", "session_id", "position", postgresql_where=text("session_id IS NOT NULL")),
    Index("endings_by_team", "team_id", "position", postgresql_where=text("team_id IS NOT NULL")),
)

transcript_entries = Table(
    "transcript_entries",
    projection_metadata,
    Column("session_id", Uuid, primary_key=True),
    Column("entry_hash", Uuid, nullable=False),
    Column("row_id", BigInteger, primary_key=True),
    Column("arrived_ms", BigInteger, nullable=False),
    Column("placement", SmallInteger, nullable=False, comment="0 in context, 1 outside context, 2 set aside"),
    Column("gateway_url", Text, nullable=False, info={CONTENT: True}),
    Column("entry", Text, nullable=False, comment="The exact JSON text", info={CONTENT: True}),
    CheckConstraint("entry IS JSON OBJECT", name="entry_is_json"),
    Index("transcript_entries_by_entry_hash", "entry_hash", unique=True),
)

agent_messages = Table(
    "agent_messages",
    projection_metadata,
    Column("session_id", Uuid, primary_key=True),
    Column("row_id", BigInteger, primary_key=True, comment="Of the first message; the others follow"),
    Column("placement", SmallInteger, nullable=False),
    Column("message_count", Integer, nullable=False),
    Column("messages", Text, nullable=False, comment="The exact JSON array", info={CONTENT: True}),
    Column("user_messages", Integer, nullable=False),
    Column("appended_ms", BigInteger, nullable=False),
    Column("based_on", BigInteger, comment="Row id that the turn was prompted from"),
    Column("restores", Boolean, nullable=False, comment="Replaces all before it"),
    Column("valid", Boolean, nullable=False, comment="The text replays as it is"),
    CheckConstraint("messages IS JSON ARRAY", name="messages_is_json"),
    Index("agent_messages_by_restore", "session_id", "row_id", postgresql_where=text("restores")),
    Index("agent_messages_by_defect", "session_id", "row_id", postgresql_where=text("NOT valid")),
)

resume_points = Table(
    "resume_points",
    projection_metadata,
    Column("session_id", Uuid, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("saved_ms", BigInteger, nullable=False),
    Column("runtime", Text, nullable=False, info={CONTENT: True}),
    Column("resume_id", Text, nullable=False, info={CONTENT: True}),
)

attachments = Table(
    "attachments",
    projection_metadata,
    Column("session_id", Uuid, primary_key=True),
    Column("position", BigInteger, primary_key=True),
    Column("message_id", Text, nullable=False, info={CONTENT: True}),
    Column("name", Text, nullable=False, info={CONTENT: True}),
    Column("mime_type", Text, nullable=False, info={CONTENT: True}),
    Column("size", BigInteger, nullable=False, comment="Bytes"),
    Column("sha256", LargeBinary, nullable=False),
)

event_index = Table(
    "event_index",
    projection_metadata,
    Column("subject_id", Uuid, primary_key=True),
    Column("event_id", Uuid, nullable=False),
    Column("position", BigInteger, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("partition", SmallInteger, nullable=False),
    Column("type", SmallInteger, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("key_hash", LargeBinary),
    Index("event_index_by_event_id", "event_id"),
    Index("event_index_by_key_hash", "key_hash", postgresql_where=text("key_hash IS NOT NULL")),
)

fenced_producers = Table(
    "fenced_producers",
    projection_metadata,
    Column("partition", SmallInteger, primary_key=True),
    Column("producer", Uuid, primary_key=True),
    Column("position", BigInteger, nullable=False),
)

generations = Table(
    "generations",
    ledger_metadata,
    Column("one", Boolean, primary_key=True, server_default=text("true")),
    Column("live", Integer, nullable=False, comment="The generation that readers and projectors use"),
    Column("previous", Integer, comment="Kept for rollback"),
    Column("flipped_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("one", name="one_row"),
)

log_identity = Table(
    "log_identity",
    ledger_metadata,
    Column("one", Boolean, primary_key=True, server_default=text("true")),
    Column("log_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False, comment="kafka or postgres"),
    Column("topic", Text),
    Column("partitions", SmallInteger, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    CheckConstraint("one", name="one_row"),
)

checkpoints = Table(
    "checkpoints",
    ledger_metadata,
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("partition", SmallInteger, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False, server_default=text("0")),
    Column("fence", BigInteger, nullable=False, server_default=text("0")),
    Column("owner", Uuid),
    Column("lease_until", DateTime(timezone=True)),
    Column("last_offset", BigInteger, comment="Of the last applied record with a value"),
    Column("last_event_id", Uuid),
    Column("stopped", Text, comment="Why this partition is stopped, if a record can't be folded"),
    postgresql_with={"fillfactor": 50},
)

projector_members = Table(
    "projector_members",
    ledger_metadata,
    Column("member", Uuid, primary_key=True),
    Column("seen_until", DateTime(timezone=True), nullable=False),
)

requests = Table(
    "requests",
    ledger_metadata,
    Column("event_id", Uuid, primary_key=True),
    Column("subject_id", Uuid, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("partition", SmallInteger, nullable=False),
    Column("type", SmallInteger, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("stored", Integer, nullable=False),
    Column("key_hash", LargeBinary),
    Column("request_hash", LargeBinary),
    Column("first_event_id", Uuid, comment="On a duplicate: the event whose verdict it repeats"),
    Column("error", Text),
    Column("session_keys", Text, comment="JSON array: what a clear ended"),
    Column("applied_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Index("requests_by_key_hash", "key_hash", postgresql_where=text("key_hash IS NOT NULL")),
    Index("requests_by_applied_at", "applied_at", postgresql_where=text("key_hash IS NULL")),
)

erasure_outbox = Table(
    "erasure_outbox",
    ledger_metadata,
    Column("partition", SmallInteger, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("event_id", Uuid, nullable=False),
    Column("session_id", Uuid, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("queued_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("published_at", DateTime(timezone=True)),
    Column("erased_at", DateTime(timezone=True)),
    Column("rewritten_at", DateTime(timezone=True), comment="When Postgres' own files had lost the bytes"),
    Index("erasure_outbox_open", "published_at", "partition", "position", postgresql_where=text("erased_at IS NULL")),
    Index("erasure_outbox_unrewritten", "published_at", postgresql_where=text("rewritten_at IS NULL")),
    Index("erasure_outbox_by_session", "session_id"),
)

erasures = Table(
    "erasures",
    ledger_metadata,
    Column("session_id", Uuid, primary_key=True),
    Column("last_delete", BigInteger, primary_key=True, autoincrement=False),
    Column("partition", SmallInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("completed_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

PROJECTION_TABLES = tuple(projection_metadata.tables.values())
"""Every table the law of erasure and `verify` speak of."""

CONTENT_COLUMNS = {
    table.name: [column.name for column in table.columns if column.info.get(CONTENT)]
    for table in PROJECTION_TABLES
    if any(column.info.get(CONTENT) for column in table.columns)
}
"""Projection table → its columns that hold content, for the tables that have any."""
