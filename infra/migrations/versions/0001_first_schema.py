"""The first schema: ledgers, the Postgres event log, and the first generation of projection tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

GENERATION = "turnlog_g1"

# The planner's statistics would keep samples of the content past its erasure.
_WITHOUT_STATISTICS = {
    f"{GENERATION}.sessions": ("fork_source", "lease"),
    f"{GENERATION}.transcript_entries": ("gateway_url", "entry"),
    f"{GENERATION}.agent_messages": ("messages",),
    f"{GENERATION}.resume_points": ("runtime", "resume_id"),
    f"{GENERATION}.attachments": ("message_id", "name", "mime_type"),
    "turnlog.event_log": ("value", "actor", "traceparent"),
}


def upgrade() -> None:
    """Create everything; a first generation is live and the event log is empty. The schema `turnlog` is there."""
    op.execute(f"CREATE SCHEMA {GENERATION}")
    _create_ledgers()
    _create_projections()
    for table, columns in _WITHOUT_STATISTICS.items():
        for column in columns:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0")
    op.execute("INSERT INTO turnlog.generations (live) VALUES (1)")
    op.execute("INSERT INTO turnlog.event_log_head DEFAULT VALUES")


def _create_ledgers() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("generation", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("next_offset", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("owner", sa.Uuid(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_offset", sa.BigInteger(), nullable=True, comment="Of the last applied record with a value"),
        sa.Column("last_event_id", sa.Uuid(), nullable=True),
        sa.Column(
            "stopped", sa.Text(), nullable=True, comment="Why this partition is stopped, if a record can't be folded"
        ),
        sa.PrimaryKeyConstraint("generation", "partition", name=op.f("checkpoints_pkey")),
        schema="turnlog",
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "erasure_outbox",
        sa.Column("partition", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("erased_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "rewritten_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When Postgres' own files had lost the bytes",
        ),
        sa.PrimaryKeyConstraint("partition", "position", name=op.f("erasure_outbox_pkey")),
        schema="turnlog",
    )
    op.create_index(
        "erasure_outbox_open",
        "erasure_outbox",
        ["published_at", "partition", "position"],
        unique=False,
        schema="turnlog",
        postgresql_where=sa.text("erased_at IS NULL"),
    )
    op.create_index(
        "erasure_outbox_unrewritten",
        "erasure_outbox",
        ["published_at"],
        unique=False,
        schema="turnlog",
        postgresql_where=sa.text("rewritten_at IS NULL"),
    )
    op.create_index("erasure_outbox_by_session", "erasure_outbox", ["session_id"], unique=False, schema="turnlog")
    op.create_table(
        "erasures",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("last_delete", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("session_id", "last_delete", name=op.f("erasures_pkey")),
        schema="turnlog",
    )
    op.create_table(
        "event_log",
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("appended_ms", sa.BigInteger(), nullable=False),
        sa.Column("time_ms", sa.BigInteger(), nullable=True, comment="When it was accepted, Unix ms"),
        sa.Column("sent_after", sa.BigInteger(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("ignorable", sa.Boolean(), nullable=False),
        sa.Column("type", sa.Text(), nullable=True),
        sa.Column("stream", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("producer", sa.Uuid(), nullable=True),
        sa.Column("idempotency_key", sa.LargeBinary(), nullable=True),
        sa.Column("request_hash", sa.LargeBinary(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=True),
        sa.Column("traceparent", sa.Text(), nullable=True),
        sa.Column("value", sa.LargeBinary(), nullable=True, comment="UTF-8 JSON; null = erased"),
        sa.PrimaryKeyConstraint("position"),
        schema="turnlog",
        postgresql_with={"toast_tuple_target": 8160},
    )
    op.create_table(
        "event_log_head",
        sa.Column("one", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "appended_ms",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Append times never go back",
        ),
        sa.CheckConstraint("one", name="event_log_head_one_row"),
        sa.PrimaryKeyConstraint("one"),
        schema="turnlog",
        postgresql_with={"fillfactor": 10},
    )
    op.create_table(
        "generations",
        sa.Column("one", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("live", sa.Integer(), nullable=False, comment="The generation that readers and projectors use"),
        sa.Column("previous", sa.Integer(), nullable=True, comment="Kept for rollback"),
        sa.Column("flipped_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("one", name=op.f("generations_one_row")),
        sa.PrimaryKeyConstraint("one", name=op.f("generations_pkey")),
        schema="turnlog",
    )
    op.create_table(
        "log_identity",
        sa.Column("one", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("log_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False, comment="kafka or postgres"),
        sa.Column("topic", sa.Text(), nullable=True),
        sa.Column("partitions", sa.SmallInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("one", name=op.f("log_identity_one_row")),
        sa.PrimaryKeyConstraint("one", name=op.f("log_identity_pkey")),
        schema="turnlog",
    )
    op.create_table(
        "projector_members",
        sa.Column("member", sa.Uuid(), nullable=False),
        sa.Column("seen_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("member", name=op.f("projector_members_pkey")),
        schema="turnlog",
    )
    op.create_table(
        "requests",
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("subject_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("type", sa.SmallInteger(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("stored", sa.Integer(), nullable=False),
        sa.Column("key_hash", sa.LargeBinary(), nullable=True),
        sa.Column("request_hash", sa.LargeBinary(), nullable=True),
        sa.Column(
            "first_event_id", sa.Uuid(), nullable=True, comment="On a duplicate: the event whose verdict it repeats"
        ),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("session_keys", sa.Text(), nullable=True, comment="JSON array: what a clear ended"),
        sa.Column("applied_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name=op.f("requests_pkey")),
        schema="turnlog",
    )
    op.create_index(
        "requests_by_applied_at",
        "requests",
        ["applied_at"],
        unique=False,
        schema="turnlog",
        postgresql_where=sa.text("key_hash IS NULL"),
    )
    op.create_index(
        "requests_by_key_hash",
        "requests",
        ["key_hash"],
        unique=False,
        schema="turnlog",
        postgresql_where=sa.text("key_hash IS NOT NULL"),
    )


def _create_projections() -> None:

    op.create_table(
        "agent_messages",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("row_id", sa.BigInteger(), nullable=False, comment="Of the first message; the others follow"),
        sa.Column("placement", sa.SmallInteger(), nullable=False),
        sa.Column("message_count", sa.Integer(), nullable=False),
        sa.Column("messages", sa.Text(), nullable=False, comment="The exact JSON array"),
        sa.CheckConstraint("messages IS JSON ARRAY", name=op.f("agent_messages_messages_is_json")),
        sa.PrimaryKeyConstraint("session_id", "row_id", name=op.f("agent_messages_pkey")),
        schema=GENERATION,
    )
    op.create_table(
        "attachments",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("mime_type", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False, comment="Bytes"),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", "position", name=op.f("attachments_pkey")),
        schema=GENERATION,
    )
    op.create_table(
        "clears",
        sa.Column("team_id", sa.Text(collation="C"), nullable=False),
        sa.Column("scope", sa.Text(collation="C"), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("last_clear", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("team_id", "scope", name=op.f("clears_pkey")),
        schema=GENERATION,
    )
    op.create_table(
        "endings",
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("ordinal", sa.SmallInteger(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False, comment="1 reset, 2 clear, 3 delete"),
        sa.Column("session_id", sa.Uuid(), nullable=True),
        sa.Column("team_id", sa.Text(), nullable=True),
        sa.Column("scope", sa.Text(), nullable=True),
        sa.Column("actor", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("cleared_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("appended_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("partition", "position", "ordinal", name=op.f("endings_pkey")),
        schema=GENERATION,
    )
    op.create_index(
        "endings_by_session",
        "endings",
        ["session_id", "position"],
        unique=False,
        schema=GENERATION,
        postgresql_where=sa.text("session_id IS NOT NULL"),
    )
    op.create_index(
        "endings_by_team",
        "endings",
        ["team_id", "position"],
        unique=False,
        schema=GENERATION,
        postgresql_where=sa.text("team_id IS NOT NULL"),
    )
    op.create_table(
        "event_index",
        sa.Column("subject_id", sa.Uuid(), nullable=False),
        sa.Column("event_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("type", sa.SmallInteger(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("key_hash", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("subject_id", "position", name=op.f("event_index_pkey")),
        schema=GENERATION,
    )
    op.create_index("event_index_by_event_id", "event_index", ["event_id"], unique=False, schema=GENERATION)
    op.create_index(
        "event_index_by_key_hash",
        "event_index",
        ["key_hash"],
        unique=False,
        schema=GENERATION,
        postgresql_where=sa.text("key_hash IS NOT NULL"),
    )
    op.create_table(
        "fenced_producers",
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("producer", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("partition", "producer", name=op.f("fenced_producers_pkey")),
        schema=GENERATION,
    )
    op.create_table(
        "fences",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("last_delete", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", name=op.f("fences_pkey")),
        schema=GENERATION,
    )
    op.create_table(
        "resume_points",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("saved_ms", sa.BigInteger(), nullable=False),
        sa.Column("runtime", sa.Text(), nullable=False),
        sa.Column("resume_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("session_id", name=op.f("resume_points_pkey")),
        schema=GENERATION,
    )
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("session_key", sa.Text(collation="C"), nullable=False),
        sa.Column("agent_id", sa.Text(collation="C"), nullable=True, comment="Set for 1:1 keys of an agent only"),
        sa.Column("team_id", sa.Text(collation="C"), nullable=True),
        sa.Column("room_id", sa.Text(collation="C"), nullable=True),
        sa.Column("last_delete", sa.BigInteger(), nullable=False),
        sa.Column("last_clear", sa.BigInteger(), nullable=False),
        sa.Column("last_reset", sa.BigInteger(), nullable=False),
        sa.Column("context_floor", sa.BigInteger(), nullable=False, comment="Row id; the model sees rows above it"),
        sa.Column(
            "cleared_floor", sa.BigInteger(), nullable=False, comment="Row id; pages and streams show rows above it"
        ),
        sa.Column("last_position", sa.BigInteger(), nullable=False),
        sa.Column("visible_entries", sa.BigInteger(), nullable=False),
        sa.Column("total_entries", sa.BigInteger(), nullable=False),
        sa.Column("total_messages", sa.BigInteger(), nullable=False),
        sa.Column("first_activity_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_activity_ms", sa.BigInteger(), nullable=False),
        sa.Column("fork_source", sa.Text(), nullable=True),
        sa.Column("fork_at", sa.BigInteger(), nullable=True),
        sa.Column("lease", sa.Text(), nullable=True, comment="JSON: run id, until (ms), waiting"),
        sa.PrimaryKeyConstraint("session_id", name=op.f("sessions_pkey")),
        schema=GENERATION,
    )
    op.create_index(
        "sessions_by_agent",
        "sessions",
        ["agent_id"],
        unique=False,
        schema=GENERATION,
        postgresql_where=sa.text("agent_id IS NOT NULL"),
    )
    op.create_index("sessions_by_session_key", "sessions", ["session_key"], unique=True, schema=GENERATION)
    op.create_index(
        "sessions_by_team",
        "sessions",
        ["team_id", "room_id"],
        unique=False,
        schema=GENERATION,
        postgresql_where=sa.text("team_id IS NOT NULL"),
    )
    op.create_table(
        "transcript_entries",
        sa.Column("session_id", sa.Uuid(), nullable=False),
        sa.Column("entry_hash", sa.Uuid(), nullable=False),
        sa.Column("row_id", sa.BigInteger(), nullable=False),
        sa.Column("arrived_ms", sa.BigInteger(), nullable=False),
        sa.Column(
            "placement", sa.SmallInteger(), nullable=False, comment="0 in context, 1 outside context, 2 set aside"
        ),
        sa.Column("gateway_url", sa.Text(), nullable=False),
        sa.Column("entry", sa.Text(), nullable=False, comment="The exact JSON text"),
        sa.CheckConstraint("entry IS JSON OBJECT", name=op.f("transcript_entries_entry_is_json")),
        sa.PrimaryKeyConstraint("session_id", "row_id", name=op.f("transcript_entries_pkey")),
        schema=GENERATION,
    )
    op.create_index(
        "transcript_entries_by_entry_hash", "transcript_entries", ["entry_hash"], unique=True, schema=GENERATION
    )
