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
            findings = applied(session, place, changes)
            if findings and dates is None:
                raise does_not_go_on(table.name, base, findings)
        if dates is not None:
            column = quoted(table.column(dates.date_column).name)
            wanted = " AND ".join(date_conditions(column, dates))
            session.execute(f"DELETE FROM {relation(place)} WHERE ({wanted}) IS NOT TRUE".encode())
        row = session.execute(f"SELECT count(*) FROM {relation(place)}".encode()).fetchone()
    return int(row[0]) if row else 0


def take_over(destination: DestinationPlan, load: Load, base: PublishedTable, *, through: int) -> int:
    """`kinds.sink.CarriesCutsOn.take_over`."""
    table = load.table
    columns, key = ", ".join(quoted(column.name) for column in table.columns), quoted(table.key[0])
    place = Relation(destination.stage_namespace, load.staged_as)
    session = open_session(resolve(destination.connection), application_name="seamline staging", stalls_ms=_STALLS_MS)
    with closing(session), translated("take rows of an earlier cut over", table=table.name):
        made = session.execute(
            f"INSERT INTO {place} ({columns}) SELECT {columns} FROM {Relation(base.schema, base.name)}"
            f" WHERE {key} <= {int(through)}".encode()
        )
        session.execute(f"ANALYZE {place}".encode())
        return made.rowcount


def applied(session: Session, place: StagedPlace, changes: ChangeBatch) -> list[Finding]:
    """Let changes happen to staged rows by the statements of a stream; what met something else than it expects."""
    on = TableStatements(replace(place.table, name=place.name), schema=place.schema, number=0)
    applier = SpanApplier(session, {place.name: on})
    batches = {place.name: [encoded(on, changes)]}
    applier.prepare_tables(batches)
    with session.transaction():
        findings, _ = applier.apply(batches, between=lambda: None, delete_insert={})
    return findings
