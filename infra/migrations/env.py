"""What Alembic runs: the connection is handed over by `turnlog.infra.migrations.upgrade`."""

from alembic import context

from turnlog.infra.migrations import VERSION_SCHEMA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    version_table_schema=VERSION_SCHEMA,
)
with context.begin_transaction():
    context.run_migrations()
