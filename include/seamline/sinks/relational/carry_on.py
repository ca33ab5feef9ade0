"""A cut of the one before it, inside MariaDB or MySQL: its rows are copied there, and the log's changes happen to them
by the statements of a stream."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date

from seamline.adapters.connections import resolve
from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.read import where_clause
from seamline.domain.catalogue import Column
from seamline.domain.changes import Finding
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import Segment
from seamline.kinds.bulk import StagedPlace
from seamline.kinds.cut_rules import does_not_go_on
from seamline.plan.model import DestinationPlan
from seamline.ports import Load
from seamline.sinks.relational.apply import SpanApplier
from seamline.sinks.relational.cut_catalogue import has_catalogue
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.encode_changes import encoded
from seamline.sinks.relational.places import ledger_place, relation, staged_place
from seamline.sinks.relational.session import Session, close, execute, open_session, query, translated
from seamline.sinks.relational.staging import index_rows
from seamline.sinks.relational.statements import COPY, HASH, TableStatements, number_copies
from seamline.values.changes import ChangeBatch


def published_tables(
    destination: DestinationPlan, sync: str, business_date: date, version: int, dialect: Dialect
) -> Sequence[PublishedTable]:
    """`kinds.sink.CarriesCutsOn.published_tables`."""
    at = ledger_place(destination)
    with (
        _opened(destination, dialect) as session,
        translated(f"look for the tables of the cut of {business_date} of {sync}"),
    ):
        if not has_catalogue(session, destination):
            return ()
        rows = query(
            session,
            f"SELECT table_name, version_table FROM {at}.cut_table JOIN {at}.cut USING (sync, business_date, version)"
            " WHERE sync = %s AND business_date = %s AND version = %s AND published_at IS NOT NULL"
            " AND expired_at IS NULL ORDER BY table_name",
            (sync, business_date, version),
        )
    schema = destination.cut_namespace
    return [PublishedTable(str(table), business_date, version, schema, str(name)) for table, name in rows]


def carry_on(
    destination: DestinationPlan,
    place: StagedPlace,
    base: PublishedTable,
    changes: ChangeBatch | None,
    dialect: Dialect,
    *,
    dates: Segment | None,
) -> int:
    """`kinds.sink.CarriesCutsOn.carry_on`. A repeat begins again: the place is emptied first."""
    table, staged = place.table, relation(place.schema, place.name)
    own = {} if table.is_keyed else {HASH: HASH, COPY: "1"}
    taken = {**own, **{quoted(column.name): quoted(column.name) for column in table.columns}}
    columns, values = ", ".join(taken), ", ".join(taken.values())
    with _opened(destination, dialect) as session, translated("carry a cut on", table=table.name):
        execute(session, f"TRUNCATE TABLE {staged}")
        if changes is None or not changes.truncate_first:
            origin = relation(base.schema, base.name)
            execute(session, f"INSERT INTO {staged} ({columns}) SELECT {values} FROM {origin}")
        index_rows(session, table, staged)
        if changes is not None and not changes.is_empty:
            findings = brought(session, place, changes, dialect)()
            if findings and dates is None:
                raise does_not_go_on(table.name, base, findings)
        if dates is not None:
            wanted = where_clause(table, dates).removeprefix(" WHERE ")
            execute(session, f"DELETE FROM {staged} WHERE ({wanted}) IS NOT TRUE")
        ((count,),) = query(session, f"SELECT COUNT(*) FROM {staged}")
    return int(count)


def take_over(
    destination: DestinationPlan, load: Load, base: PublishedTable, dialect: Dialect, *, read: Segment
) -> int:
    """`kinds.sink.CarriesCutsOn.take_over`."""
    table, staged = load.table, relation(*staged_place(load, destination))
    own = {} if table.is_keyed else {HASH: HASH, COPY: "1"}
    taken = {**own, **{quoted(column.name): quoted(column.name) for column in table.columns}}
    wanted = where_clause(table, read).removeprefix(" WHERE ")
    kept = f"({wanted}) IS NOT TRUE"
    if table.is_keyed and read.date_column:
        # A row that was changed has another time than before: it is read again, and the old one is not kept.
        key = ", ".join(map(quoted, table.key))
        kept += f" AND ({key}) NOT IN (SELECT {key} FROM {staged})"
    with _opened(destination, dialect) as session, translated("take rows of an earlier cut over", table=table.name):
        origin = relation(base.schema, base.name)
        count = execute(
            session,
            f"INSERT INTO {staged} ({', '.join(taken)}) SELECT {', '.join(taken.values())} FROM {origin} WHERE {kept}",
        )
        if not table.is_keyed:
            # Equal rows are known by the number of their copy, as by cuts that are stored as versions.
            execute(session, number_copies(staged))
    return count


def newest_in(destination: DestinationPlan, base: PublishedTable, column: Column, dialect: Dialect) -> str:
    """`kinds.sink.CarriesCutsOn.newest_in`."""
    with _opened(destination, dialect) as session, translated("look for the newest row of an earlier cut"):
        newest = f"CAST(MAX({quoted(column.name)}) AS CHAR)"
        ((found,),) = query(session, f"SELECT {newest} FROM {relation(base.schema, base.name)}")
    return str(found or "")


def brought(
    session: Session, place: StagedPlace, changes: ChangeBatch, dialect: Dialect
) -> Callable[[], list[Finding]]:
    """Bring changes of staged rows to the server, outside of a transaction: it would end there. What is returned lets
    them happen by the statements of a stream, and gives what met something else than it expects."""
    table = replace(place.table, name=place.name)
    on = TableStatements(table, database=place.schema, at=quoted(place.schema), number=0, dialect=dialect)
    applier = SpanApplier(session, {place.name: on})
    batches = {place.name: [encoded(on, changes)]}
    applier.bring(batches)
    return lambda: applier.apply(batches, between=lambda: None, delete_insert={})[0]


@contextmanager
def _opened(destination: DestinationPlan, dialect: Dialect) -> Iterator[Session]:
    session = open_session(resolve(destination.connection), dialect)
    try:
        yield session
    finally:
        close(session)
