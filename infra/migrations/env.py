"""Alembic runs this file for every upgrade. The connection comes from `upgrade`; there is no alembic.ini."""

from alembic import context

from turnlog.infra.postgres_connection import LEDGER_SCHEMA

context.configure(
    connection=context.config.attributes["connection"],
    version_table_schema=LEDGER_SCHEMA,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
