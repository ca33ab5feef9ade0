"""Tables of a sync at one position, for people who read them as Arrow: those of a cut, and live ones as long as their
ledger stands still.

Every session that reads asks in its own snapshot whether the rows are still what was found.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date
from functools import partial

import psycopg

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.ledger import read_ledger
from seamline.databases.postgres.read import PostgresReadView, Relation, open_views
from seamline.domain.catalogue import Table
from seamline.domain.cut_names import OWN_COLUMNS
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.kinds.cut_reading import (
    Ask,
    CutTables,
    FoundCut,
    find_cut,
    require_one_position,
    require_same_place,
    require_there,
    required,
)
from seamline.kinds.reading import LIVE, SyncTables, place_of
from seamline.plan.model import DestinationPlan
from seamline.sinks.lake.sql_table import SqlTable
from seamline.sinks.postgres.cut_changes import primary_key
from seamline.sinks.postgres.cut_columns import stored_columns
from seamline.sinks.postgres.cut_versions import key_of_version
from seamline.sinks.postgres.stored_types import columns_of

_CUTS = CutTables("seamline", relation="partition_name", rows="rows")


def open_tables(destination: DestinationPlan, stream: StreamId, at: date | str) -> SyncTables:
    """`kinds.sink.ReadsAtOnePosition`."""
    with (
        closing(open_session(resolve(destination.connection), application_name="seamline reads a sync")) as session,
        translated(f"find the tables of {stream}"),
    ):
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return _live(session, destination, stream) if at == LIVE else _cut(session, destination, stream, at)


def _cut(session: Session, destination: DestinationPlan, stream: StreamId, at: date | str) -> SyncTables:
    found = required(_found(session, stream, place_of(at)), stream, at)
    cut = found.business_date, found.version
    tables = {}
    for name, one in found.tables.items():
        relation = Relation(destination.cut_namespace, one.relation)
        key = primary_key(session, relation) or key_of_version(
            session, destination, stream.sync, name, day=found.business_date, version=found.version
        )
        table = _definition(session, name, relation, key)
        tables[name] = SqlTable(
            table, one.rows, partial(_view_of_cut, destination, stream, cut, found.position, table, relation)
        )
    return SyncTables(stream.sync, found.position, tables, found.tag, found.left_out)


def _found(session: Session, stream: StreamId, place: date | str | None) -> FoundCut | None:
    try:
        return find_cut(_asking(session), _CUTS, stream, place)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None


def _live(session: Session, destination: DestinationPlan, stream: StreamId) -> SyncTables:
    ledger = require_one_position(read_ledger(session, stream), stream)
    place = ledger.epoch, ledger.next_offset
    tables = {}
    for name in sorted(boundary.table for boundary in ledger.boundaries):
        relation = Relation(destination.namespace, name)
        table = _definition(session, name, relation, primary_key(session, relation))
        tables[name] = SqlTable(
            table, None, partial(_view_of_live, destination, stream, place, ledger.position, table, relation)
        )
    return SyncTables(stream.sync, ledger.position, tables)


def _definition(session: Session, name: str, relation: Relation, key: Sequence[str]) -> Table:
    own = {column: one for column, one in stored_columns(session, relation).items() if column not in OWN_COLUMNS}
    return Table(name, columns_of(own), tuple(key))


def _view_of_cut(
    destination: DestinationPlan,
    stream: StreamId,
    cut: tuple[date, int],
    position: Position,
    table: Table,
    relation: Relation,
) -> PostgresReadView:
    def position_of(session: Session) -> Position:
        with translated(f"look for the cut of {cut[0]} of {stream}", table=table.name):
            require_there(_asking(session), _CUTS, stream, cut, table.name)
        return position

    return _opened(destination, table, relation, position_of)


def _view_of_live(
    destination: DestinationPlan,
    stream: StreamId,
    place: tuple[int, int],
    position: Position,
    table: Table,
    relation: Relation,
) -> PostgresReadView:
    def position_of(session: Session) -> Position:
        with translated(f"look where {stream} stands", table=table.name):
            require_same_place(read_ledger(session, stream), stream, place, position)
        return position

    return _opened(destination, table, relation, position_of)


def _opened(
    destination: DestinationPlan, table: Table, relation: Relation, position_of: Callable[[Session], Position]
) -> PostgresReadView:
    """By the connection's id, where the rows are read."""
    (view,) = open_views(
        resolve(destination.connection),
        tables=[table],
        relations={table.name: relation},
        count=1,
        position_of=position_of,
    )
    return view


def _asking(session: Session) -> Ask:
    return lambda statement, values: session.execute(statement.encode(), values).fetchall()
