"""The statements that the owner of a PostgreSQL source's tables runs once: roles, marker table, grants, publication."""

from collections.abc import Iterable, Sequence

from seamline.databases.postgres.canonical import quoted, text_literal
from seamline.kinds.logins import Logins, logins_of
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.marker import create_statement


def grant_script(source: SourcePlan, tables: Sequence[str], *, logins: Logins | None = None) -> str:
    """The whole script. Passwords are placeholders: they never pass through Seamline."""
    names = logins or logins_of(source.name)
    everyone = sorted({names.capture, names.reader, names.marker})
    listed = ", ".join(quoted(name) for name in everyone)
    schema = quoted(source.schema)
    marker = f"{schema}.{quoted(source.marker_table)}"
    publication = quoted(source.publication)
    return "\n".join(
        [
            f"-- PostgreSQL source, database {source.database}, run in that database. Replace the passwords.",
            "-- A role with REPLICATION is made by a superuser; the rest takes the owner of the tables.",
            *(_create_role(name, names) for name in everyone),
            f"GRANT CONNECT ON DATABASE {quoted(source.database)} TO {listed};",
            f"GRANT USAGE ON SCHEMA {schema} TO {listed};",
            "",
            "-- The marker table: its rows prove order and progress in the log.",
            f"{create_statement(source.schema, source.marker_table)};",
            "",
            "-- capture: the connector reads the log through a replication slot.",
            *_selects(source, tables, names.capture),
            "",
            "-- reader: snapshots and reconciliation.",
            *_selects(source, tables, names.reader),
            "",
            "-- marker: rows of one table, nothing else; it deletes its own old ones.",
            f"GRANT SELECT, INSERT, DELETE ON {marker} TO {quoted(names.marker)};",
            "",
            "-- A table without a primary key is identified by whole rows; it needs this before it is published:",
            f'-- ALTER TABLE {schema}."<table>" REPLICA IDENTITY FULL;',
            "",
            "-- What the log shows, as a list of tables: FOR ALL TABLES would make every UPDATE and DELETE fail on any",
            "-- other table that has neither a primary key nor another replica identity.",
            f"{publication_statement(source, tables)};",
            "-- A table that a sync gets later, after the same grants for it:",
            f'-- ALTER PUBLICATION {publication} ADD TABLE {schema}."<table>";',
            "",
        ]
    )


def publication_statement(source: SourcePlan, tables: Iterable[str]) -> str:
    """CREATE PUBLICATION of these tables and of the marker table, run by the owner of them all. A partitioned table is
    one table in it, whatever its partitions are."""
    schema = quoted(source.schema)
    listed = ",\n  ".join(f"{schema}.{quoted(table)}" for table in (*tables, source.marker_table))
    options = "WITH (publish_via_partition_root = true)"
    return f"CREATE PUBLICATION {quoted(source.publication)} FOR TABLE\n  {listed}\n  {options}"


def _create_role(name: str, names: Logins) -> str:
    replication = " REPLICATION" if name == names.capture else ""
    return f"CREATE ROLE {quoted(name)} LOGIN{replication} PASSWORD {text_literal(f'<password of {name}>')};"


def _selects(source: SourcePlan, tables: Sequence[str], login: str) -> list[str]:
    return [
        f"GRANT SELECT ON {quoted(source.schema)}.{quoted(table)} TO {quoted(login)};"
        for table in (*tables, source.marker_table)
    ]
