"""What history snapshots need of the tables, in every generation of them.

Agent messages that are there already get zeros and false: `turnlog rebuild` gives them what the fold makes.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_GENERATIONS = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^turnlog_g[0-9]+$' ORDER BY 1"

# Entries count that were neither part of a turn with messages nor a reset's divider.
_REPLAYED = """
UPDATE {schema}.sessions AS s SET replayed_entries = (
  SELECT count(*) FROM {schema}.transcript_entries AS e WHERE e.session_id = s.session_id
    AND NOT EXISTS (SELECT FROM {schema}.agent_messages AS m
                    WHERE m.session_id = s.session_id AND m.row_id / 4096 = e.row_id / 4096)
    AND NOT EXISTS (SELECT FROM {schema}.endings AS d WHERE d.partition = s.partition AND d.position = e.row_id / 4096))
"""


def upgrade() -> None:
    """Add the columns and indexes."""
    for (schema,) in op.get_bind().execute(sa.text(_GENERATIONS)).all():
        _upgrade_generation(schema)


def _upgrade_generation(schema: str) -> None:
    _add(
        schema,
        "sessions",
        sa.Column("replayed_entries", sa.BigInteger(), nullable=False, comment="Of turns without messages"),
    )
    _add(schema, "sessions", sa.Column("fork_position", sa.BigInteger(), nullable=True))
    op.alter_column("sessions", "fork_at", comment="Row id of the source", schema=schema)
    op.execute(_REPLAYED.format(schema=schema))
    for column in (
        sa.Column("user_messages", sa.Integer(), nullable=False),
        sa.Column("appended_ms", sa.BigInteger(), nullable=False),
        sa.Column("based_on", sa.BigInteger(), nullable=True, comment="Row id that the turn was prompted from"),
        sa.Column("restores", sa.Boolean(), nullable=False, comment="Replaces all before it"),
        sa.Column("valid", sa.Boolean(), nullable=False, comment="The text replays as it is"),
    ):
        _add(schema, "agent_messages", column)
    for name, condition in (("restore", "restores"), ("defect", "NOT valid")):
        op.create_index(
            f"agent_messages_by_{name}",
            "agent_messages",
            ["session_id", "row_id"],
            schema=schema,
            postgresql_where=sa.text(condition),
        )


def _add(schema: str, table: str, column: sa.Column[Any]) -> None:
    """A column that rows already there get zero or false in; later ones must say."""
    if not column.nullable:
        column.server_default = sa.DefaultClause("false" if isinstance(column.type, sa.Boolean) else "0")
    op.add_column(table, column, schema=schema)
    if not column.nullable:
        op.alter_column(table, column.name, server_default=None, schema=schema)
