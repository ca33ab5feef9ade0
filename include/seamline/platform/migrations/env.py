"""Alembic's entry. It is run by `migrate.upgrade` only, which hands its open connection over in the config."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table="schema_version",
    version_table_schema="seamline",
)
with context.begin_transaction():
    context.run_migrations()
