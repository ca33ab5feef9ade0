"""A cut of the one before it, inside PostgreSQL: its rows are copied there, and the log's changes merged into them by
the statements of a stream."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date

import psycopg

from seamline.adapters.connections import resolve
from seamline.databases.postgres.canonical import date_conditions, quoted
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.read import Relation
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import Finding
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import Segment
from seamline.kinds.bulk import StagedPlace
from seamline.kinds.cut_rules import does_not_go_on
from seamline.plan.model import DestinationPlan
from seamline.ports import Load
from seamline.sinks.postgres.apply import SpanApplier
from seamline.sinks.postgres.encode_changes import encoded
from seamline.sinks.postgres.staging import index_rows, relation
from seamline.sinks.postgres.statements import TableStatements
from seamline.values.changes import ChangeBatch

_STALLS_MS = 600_000


def published_tables(
    destination: DestinationPlan, sync: str, business_date: date, version: int
) -> Sequence[PublishedTable]:
    """`kinds.sink.CarriesCutsOn.published_tables`."""
    with (
        closing(open_session(resolve(destination.connection), application_name="seamline cuts")) as session,
        translated(f"look for the tables of the cut of {business_date} of {sync}"),
    ):
        try:
            rows = session.execute(
                "SELECT table_name, partition_name FROM seamline.cut_table JOIN seamline.cut"
                " USING (sync, business_date, version) WHERE sync = %s AND business_date = %s AND version = %s"
                " AND published_at IS NOT NULL AND expired_at IS NULL ORDER BY table_name",
                (sync, business_date, version),
            ).fetchall()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return ()
    schema = destination.cut_namespace
    return [PublishedTable(table, business_date, version, schema, name) for table, name in rows]


def carry_on(
    destination: DestinationPlan,
    place: StagedPlace,
    base: PublishedTable,
    changes: ChangeBatch | None,
    *,
    dates: Segment | None,
) -> int:
    """`kinds.sink.CarriesCutsOn.carry_on`. A repeat begins again: the place is emptied first."""
    table = place.table
    session = open_session(resolve(destination.connection), application_name="seamline staging", stalls_ms=_STALLS_MS)
    with closing(session), translated("carry a cut on", table=table.name):
        columns = ", ".join(quoted(column.name) for column in table.columns)
        with session.transaction():
            session.execute(f"TRUNCATE {relation(place)}".encode())
            if changes is None or not changes.truncate_first:
                origin = Relation(base.schema, base.name)
                session.execute(f"INSERT INTO {relation(place)} ({columns}) SELECT {columns} FROM {origin}".encode())
        index_rows(session, table, relation(place))
        if changes is not None and not changes.is_empty:
            # By the writer, who makes temporary tables: the publisher has no right to.
            with closing(
                open_session(resolve(destination.writer), application_name="seamline staging", stalls_ms=_STALLS_MS)
            ) as writer:
                findings = applied(writer, place, changes)
            if findings and dates is None:
                raise does_not_go_on(table.name, base, findings)
        if dates is not None:
            column = quoted(table.column(dates.date_column).name)
            wanted = " AND ".join(date_conditions(column, dates))
            session.execute(f"DELETE FROM {relation(place)} WHERE ({wanted}) IS NOT TRUE".encode())
        row = session.execute(f"SELECT count(*) FROM {relation(place)}".encode()).fetchone()
    return int(row[0]) if row else 0


def take_over(destination: DestinationPlan, load: Load, base: PublishedTable, *, read: Segment) -> int:
    """`kinds.sink.CarriesCutsOn.take_over`."""
    table = load.table
    columns = ", ".join(f"b.{quoted(column.name)}" for column in table.columns)
    into = ", ".join(quoted(column.name) for column in table.columns)
    place = Relation(destination.stage_namespace, load.staged_as)
    kept = f"({' AND '.join(_conditions(table, read))}) IS NOT TRUE"
    if table.is_keyed and read.date_column:
        # A row that was changed has another time than before: it is read again, and the old one is not kept.
        same = " AND ".join(f"s.{quoted(name)} = b.{quoted(name)}" for name in table.key)
        kept += f" AND NOT EXISTS (SELECT FROM {place} s WHERE {same})"
    session = open_session(resolve(destination.connection), application_name="seamline staging", stalls_ms=_STALLS_MS)
    with closing(session), translated("take rows of an earlier cut over", table=table.name):
        made = session.execute(
            (
                f"INSERT INTO {place} ({into}) SELECT {columns} FROM {Relation(base.schema, base.name)} b WHERE {kept}"
            ).encode()
        )
        session.execute(f"ANALYZE {place}".encode())
        return made.rowcount


def _conditions(table: Table, read: Segment) -> list[str]:
    if read.date_column:
        return date_conditions(f"b.{quoted(table.column(read.date_column).name)}", read)
    return [f"b.{quoted(table.key[0])} >= {int(read.key_from or 0)}"]


def newest_in(destination: DestinationPlan, base: PublishedTable, column: Column) -> str:
    """`kinds.sink.CarriesCutsOn.newest_in`."""
    newest = f"max({quoted(column.name)})"
    if column.kind is Kind.INSTANT:
        newest = f"{newest} AT TIME ZONE 'UTC'"
    form = "YYYY-MM-DD" if column.kind is Kind.DATE else "YYYY-MM-DD HH24:MI:SS.US"
    session = open_session(resolve(destination.connection), application_name="seamline cuts")
    with closing(session), translated("look for the newest row of an earlier cut", table=base.table):
        statement = f"SELECT to_char({newest}, '{form}') FROM {Relation(base.schema, base.name)}"
        row = session.execute(statement.encode()).fetchone()
    return str(row[0]) if row and row[0] else ""


def applied(session: Session, place: StagedPlace, changes: ChangeBatch) -> list[Finding]:
    """Let changes happen to staged rows by the statements of a stream; what met something else than it expects.

    `session`: of a destination's writer. What is not small goes through a temporary table."""
    on = TableStatements(replace(place.table, name=place.name), schema=place.schema, number=0)
    applier = SpanApplier(session, {place.name: on})
    batches = {place.name: [encoded(on, changes)]}
    applier.prepare_tables(batches)
    with session.transaction():
        findings, _ = applier.apply(batches, between=lambda: None, delete_insert={})
    return findings
