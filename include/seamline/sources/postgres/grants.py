"""The statements that the owner of a PostgreSQL source's tables runs once: roles, marker table, grants, publication."""

from collections.abc import Iterable, Sequence

from seamline.databases.postgres.canonical import quoted, text_literal
from seamline.databases.postgres.roles import made_login
from seamline.domain.table_places import TablePlace
from seamline.kinds.logins import Logins, logins_of
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.marker import create_statement
from seamline.sources.postgres.places import relation_at


def grant_script(source: SourcePlan, tables: Sequence[str], *, logins: Logins | None = None) -> str:
    """The whole script; `tables` as the capture calls them. Passwords are placeholders: they never pass through
    Seamline."""
    names = logins or logins_of(source.name)
    if not source.has_log:
        return _read_script(source, tables, names.reader)
    everyone = sorted({names.capture, names.reader, names.marker})
    listed = ", ".join(quoted(name) for name in everyone)
    schema = quoted(source.schema)
    marker = relation_at(TablePlace(source.schema, source.marker_table))
    publication = quoted(source.publication)
    captured = (*tables, source.marker_table)
    return "\n".join(
        [
            f"-- PostgreSQL source, database {source.database}, run in that database. Replace the passwords.",
            "-- A role with REPLICATION is made by a superuser; one that is there keeps its password. The rest takes",
            "-- the owner of the tables.",
            *(made_login(name, may="REPLICATION" if name == names.capture else "") for name in everyone),
            f"GRANT CONNECT ON DATABASE {quoted(source.database)} TO {listed};",
            *(f"GRANT USAGE ON SCHEMA {quoted(name)} TO {listed};" for name in _schemas(source, tables)),
            "",
            "-- The marker table: its rows prove order and progress in the log.",
            f"{create_statement(source.schema, source.marker_table)};",
            "",
            "-- capture: the connector reads the log through a replication slot.",
            *_selects(source, captured, names.capture),
            "",
            "-- reader: snapshots and reconciliation.",
            *_selects(source, captured, names.reader),
            "",
            "-- marker: rows of one table, nothing else; it deletes its own old ones.",
            f"GRANT SELECT, INSERT, DELETE ON {marker} TO {quoted(names.marker)};",
            "",
            "-- A table without a primary key is identified by whole rows. Published without that, it would refuse",
            "-- every UPDATE and DELETE.",
            _whole_rows(_relations(source, tables)),
            "",
            "-- What the log shows, as a list of tables: FOR ALL TABLES would make every UPDATE and DELETE fail on any",
            "-- other table that has neither a primary key nor another replica identity.",
            f"{publication_statement(source, tables)};",
            "-- A table that a sync gets later, after the same grants for it:",
            f'-- ALTER PUBLICATION {publication} ADD TABLE {schema}."<table>";',
            *_of_budget(source, names.reader),
            "",
        ]
    )


def _of_budget(source: SourcePlan, reader: str) -> list[str]:
    if source.budget is None or not (source.budget.running_max or source.budget.replica_lag_max_s):
        return []
    return [
        "",
        "-- `budget`: what the sessions of others do, by number; and how far standbys are behind.",
        f"GRANT pg_read_all_stats TO {quoted(reader)};",
    ]


def _read_script(source: SourcePlan, tables: Sequence[str], reader: str) -> str:
    """Of a source without a log: one role, which may SELECT."""
    schemas = sorted({source.places.of_captured(table).namespace for table in tables})
    statements = [
        f"-- PostgreSQL source without a log, database {source.database}, run in that database by the tables' owner.",
        "-- Replace the password. It reads, and needs nothing else.",
        made_login(reader),
        f"GRANT CONNECT ON DATABASE {quoted(source.database)} TO {quoted(reader)};",
        *(f"GRANT USAGE ON SCHEMA {quoted(name)} TO {quoted(reader)};" for name in schemas),
        *_selects(source, tables, reader),
        *_of_budget(source, reader),
    ]
    return "\n".join(statements) + "\n"


def publication_statement(source: SourcePlan, tables: Iterable[str]) -> str:
    """CREATE PUBLICATION of these tables, as the capture calls them, and of the marker table, run by the owner of them
    all. A partitioned table is one table in it, whatever its partitions are."""
    listed = ",\n  ".join(_relations(source, (*tables, source.marker_table)))
    options = "WITH (publish_via_partition_root = true)"
    return f"CREATE PUBLICATION {quoted(source.publication)} FOR TABLE\n  {listed}\n  {options}"


def _whole_rows(relations: Iterable[str]) -> str:
    listed = ",\n    ".join(map(text_literal, relations))
    return f"""DO $$
DECLARE one regclass;
BEGIN
  FOR one IN SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND relreplident <> 'f' AND oid = ANY(ARRAY[
    {listed}]::regclass[])
    AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)
  LOOP
    EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', one);
  END LOOP;
END $$;"""


def _selects(source: SourcePlan, tables: Iterable[str], login: str) -> list[str]:
    return [f"GRANT SELECT ON {relation} TO {quoted(login)};" for relation in _relations(source, tables)]


def _relations(source: SourcePlan, tables: Iterable[str]) -> list[str]:
    return [str(relation_at(source.places.of_captured(table))) for table in tables]


def _schemas(source: SourcePlan, tables: Iterable[str]) -> list[str]:
    """Of all tables, the source's own first."""
    others = {source.places.of_captured(table).namespace for table in tables} - {source.schema}
    return [source.schema, *sorted(others)]
