"""Tables of a sync at one position, for people who read them as Arrow: those of a cut, and live ones as long as their
ledger stands still.

Every session that reads asks in its own snapshot whether the rows are still what was found. Moments with a zone come
without it, in UTC, for so they are stored.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date
from functools import partial

from seamline.adapters.connections import resolve
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.catalogue import Table
from seamline.domain.cut_names import OWN_COLUMNS
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.kinds.cut_reading import (
    Ask,
    CutTables,
    find_cut,
    require_one_position,
    require_same_place,
    require_there,
    required,
)
from seamline.kinds.reading import LIVE, SyncTables, place_of
from seamline.plan.model import DestinationPlan
from seamline.sinks.lake.sql_table import SqlTable
from seamline.sinks.relational.cut_catalogue import base_tables_in, has_catalogue
from seamline.sinks.relational.cut_changes import primary_key
from seamline.sinks.relational.cut_columns import stored_columns
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.ledger import is_pending, read_ledger
from seamline.sinks.relational.places import Place, ledger_database, ledger_place
from seamline.sinks.relational.publish import still_pending
from seamline.sinks.relational.read_back import open_views
from seamline.sinks.relational.read_view import RelationalReadView
from seamline.sinks.relational.session import Session, execute, open_session, query, rolled_back, translated
from seamline.sinks.relational.stored_types import columns_of


def open_tables(destination: DestinationPlan, stream: StreamId, at: date | str, dialect: Dialect) -> SyncTables:
    """`kinds.sink.ReadsAtOnePosition`."""
    with (
        closing(open_session(resolve(destination.connection), dialect)) as session,
        translated(f"find the tables of {stream}"),
        rolled_back(session),
    ):
        if at == LIVE:
            return _live(session, destination, stream, dialect)
        return _cut(session, destination, stream, at, dialect)


def _cut(
    session: Session, destination: DestinationPlan, stream: StreamId, at: date | str, dialect: Dialect
) -> SyncTables:
    place, found = place_of(at), None
    if has_catalogue(session, destination):
        found = find_cut(_asking(session), _kept(destination), stream, place)
    found = required(found, stream, at)
    cut = found.business_date, found.version
    tables = {}
    for name, one in found.tables.items():
        stored = destination.cut_namespace, one.relation
        key = primary_key(session, stored) or _key_of_version(session, destination, stream.sync, name, cut)
        table = _definition(session, name, stored, key)
        view = partial(_view_of_cut, destination, stream, cut, found.position, table, stored, dialect)
        tables[name] = SqlTable(table, one.rows, view)
    return SyncTables(stream.sync, found.position, tables, found.tag, found.left_out)


def _live(session: Session, destination: DestinationPlan, stream: StreamId, dialect: Dialect) -> SyncTables:
    at = ledger_place(destination)
    ledger = require_one_position(read_ledger(session, at, stream), stream)
    place = ledger.epoch, ledger.next_offset
    tables = {}
    for name in sorted(boundary.table for boundary in ledger.boundaries):
        stored = destination.namespace, name
        table = _definition(session, name, stored, primary_key(session, stored))
        view = partial(_view_of_live, destination, stream, place, ledger.position, table, stored, dialect)
        tables[name] = SqlTable(table, None, view)
    return SyncTables(stream.sync, ledger.position, tables)


def _key_of_version(
    session: Session, destination: DestinationPlan, sync: str, table: str, cut: tuple[date, int]
) -> Sequence[str]:
    """The key of a table whose cut is stored as a version; () where it is stored as a copy, or has none."""
    if "cut_number" not in base_tables_in(session, ledger_database(destination)):
        return ()
    rows = query(
        session,
        f"SELECT rows_table FROM {ledger_place(destination)}.cut_number"
        " WHERE sync = %s AND table_name = %s AND business_date = %s AND version = %s",
        (sync, table, *cut),
    )
    return primary_key(session, (destination.cut_namespace, str(rows[0][0]))) if rows else ()


def _definition(session: Session, name: str, place: Place, key: Sequence[str]) -> Table:
    own = {column: one for column, one in stored_columns(session, place).items() if column not in OWN_COLUMNS}
    return Table(name, columns_of(own), tuple(key))


def _view_of_cut(
    destination: DestinationPlan,
    stream: StreamId,
    cut: tuple[date, int],
    position: Position,
    table: Table,
    place: Place,
    dialect: Dialect,
) -> RelationalReadView:
    def position_of(session: WatchedSession) -> Position:
        with translated(f"look for the cut of {cut[0]} of {stream}", table=table.name):
            # A cut that is stored as a version is a view, whose rows would else be copied before the first one comes.
            execute(session, "SET SESSION optimizer_switch = 'derived_merge=on'")
            require_there(_asking(session), _kept(destination), stream, cut, table.name)
        return position

    return _opened(destination, table, place, dialect, position_of)


def _view_of_live(
    destination: DestinationPlan,
    stream: StreamId,
    ledger_at: tuple[int, int],
    position: Position,
    table: Table,
    place: Place,
    dialect: Dialect,
) -> RelationalReadView:
    def position_of(session: WatchedSession) -> Position:
        at = ledger_place(destination)
        with translated(f"look where {stream} stands", table=table.name):
            require_same_place(read_ledger(session, at, stream), stream, ledger_at, position)
            if is_pending(session, at, stream):
                raise still_pending(stream)
        return position

    return _opened(destination, table, place, dialect, position_of)


def _opened(
    destination: DestinationPlan,
    table: Table,
    place: Place,
    dialect: Dialect,
    position_of: Callable[[WatchedSession], Position],
) -> RelationalReadView:
    """By the connection's id, where the rows are read."""
    (view,) = open_views(resolve(destination.connection), [table], {table.name: place}, 1, position_of, dialect=dialect)
    return view


def _kept(destination: DestinationPlan) -> CutTables:
    return CutTables(ledger_place(destination), relation="version_table", rows="row_count", is_shown="t.is_published")


def _asking(session: Session) -> Ask:
    return lambda statement, values: query(session, statement, values)
