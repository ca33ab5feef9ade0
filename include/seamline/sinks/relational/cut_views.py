"""The views of cuts: each version is a table of its own, and a view adds up those that the catalogue lets it show.

    SELECT v.id, …, DATE'2026-03-05' AS cut_business_date, 1 AS cut_version FROM settlement_cut.entry_20260305_v1 AS v
    JOIN settlement_seamline.cut_pointer AS p ON p.sync = … AND p.table_name = … AND p.business_date = … AND …
    UNION ALL …

The joined row is found by its whole key before anything else is read; where it is not there, neither is the table
(handlers counted on MariaDB 11.4.5 and MySQL 9.7.4). A condition on the cut's date or on a column of the table goes
into each part. The rows that are left are written into a temporary table before the reader gets them. Every version
stays in each view while its table is there: a transaction that is open since before a publish finds what it has found.

A view is replaced when a version's table has come or will go, and shows the same as before. That waits for whoever
reads the view, and others wait behind it, so each attempt lasts a second at most.
"""

import time
from collections.abc import Mapping, Sequence

import pymysql
from pymysql.constants import ER

from seamline.databases.mysql.canonical import quoted, text_literal
from seamline.domain.cut_names import CUT_COLUMNS, DATE_COLUMN, VALID_FROM, VALID_TO, VERSION_COLUMN
from seamline.domain.errors import TransientError
from seamline.plan.model import DestinationPlan
from seamline.sinks.relational.cut_catalogue import Version, views_of_all
from seamline.sinks.relational.cut_changes import changes_query, primary_key
from seamline.sinks.relational.cut_columns import StoredColumn, shown_columns, stored_columns
from seamline.sinks.relational.cut_places import changes_place, current_place, proven_place, standing
from seamline.sinks.relational.places import Place, ledger_place, relation
from seamline.sinks.relational.session import Session, code_of, execute

# Between two attempts those go on who waited behind us.
_PAUSE_S = 0.2


def remake_views(
    session: Session, destination: DestinationPlan, table: str, versions: Sequence[Version], *, sync: str, until: float
) -> None:
    """All views of a table's cuts, over exactly these versions. `sync`: whose cuts count; "" for nobody's. `until`: by
    the monotonic clock, until when readers are waited for; TransientError then. A repeat changes nothing."""
    for shown_in in views_of_all(session, ledger_place(destination), table):
        of_view = [one for one in versions if one.shown_in == shown_in]
        place = (destination.cut_namespace, shown_in)
        columns = _ColumnsOf(session, destination, place, of_view)
        if not columns.are_shown(session, place):
            _replace(session, place, columns.query("cut_table", "p.is_published", of_view), until)
        if shown_in == table and sync:
            own = [one for one in of_view if one.sync == sync]
            for pointer, view in (("cut_pointer", current_place), ("cut_proven", proven_place)):
                if not columns.are_shown(session, view(destination, table)):
                    query = columns.query(pointer, "TRUE", own, sync=sync)
                    _replace(session, view(destination, table), query, until)
            if of_view:
                changes = _changes(session, destination, of_view[-1], sync)
                _replace(session, changes_place(destination, table), changes, until)


def _changes(session: Session, destination: DestinationPlan, newest: Version, sync: str) -> str:
    cuts = destination.cut_namespace, newest.table
    shown = stored_columns(session, cuts)
    return changes_query(
        cuts,
        [column for name, column in shown.items() if name not in CUT_COLUMNS],
        primary_key(session, (destination.cut_namespace, newest.rows_table or newest.name)),
        at=ledger_place(destination),
        sync=sync,
        table=newest.table,
    )


class _ColumnsOf:
    """What the views of a table select from each version, and from each table of rows of versions."""

    def __init__(
        self, session: Session, destination: DestinationPlan, view: Place, versions: Sequence[Version]
    ) -> None:
        self._at, self._schema = ledger_place(destination), destination.cut_namespace
        self._tables = list(dict.fromkeys(one.rows_table for one in versions if one.rows_table))
        self._is_versioned_alone = bool(versions) and all(one.rows_table for one in versions)
        self._of: Mapping[str, Mapping[str, StoredColumn]] = {
            name: _own_columns(session, (self._schema, name))
            for name in [*self._tables, *(one.name for one in versions if not one.rows_table)]
        }
        self._names = shown_columns(stored_columns(session, view), list(self._of.values()))

    def are_shown(self, session: Session, view: Place) -> bool:
        """Whether a view may stay, so that nobody who reads it is waited for: it shows tables of rows alone, these very
        ones with these columns."""
        there = standing(session, view).definition
        named = all(f"`{name.replace('`', '``')}`" in there for name in self._tables)
        return self._is_versioned_alone and named and len(stored_columns(session, view)) == len(self._names)

    def query(self, joined: str, condition: str, versions: Sequence[Version], *, sync: str = "") -> str:
        parts = [self._part(joined, condition, one) for one in versions if not one.rows_table]
        named = dict.fromkeys(one.rows_table for one in versions if one.rows_table)
        parts += [self._part_of_rows(joined, condition, name, sync) for name in named]
        if parts:
            return " UNION ALL ".join(parts)
        # A view that others build on stays, though it has nothing to show.
        nothing = ", ".join(f"NULL AS {quoted(name)}" for name in self._names)
        of_sync = f"p.sync = {text_literal(sync)}"
        return f"SELECT {nothing} FROM {self._at}.{joined} AS p WHERE {of_sync} AND FALSE"

    def _part(self, joined: str, condition: str, version: Version) -> str:
        literals = {DATE_COLUMN: f"DATE'{version.business_date.isoformat()}'", VERSION_COLUMN: str(version.version)}
        return (
            f"SELECT {self._selected(version.name, literals)} FROM {relation(self._schema, version.name)} AS v"
            f" JOIN {self._at}.{joined} AS p"
            f" ON p.sync = {text_literal(version.sync)} AND p.table_name = {text_literal(version.table)}"
            f" AND p.business_date = {literals[DATE_COLUMN]} AND p.version = {version.version} AND {condition}"
        )

    def _part_of_rows(self, joined: str, condition: str, rows: str, sync: str) -> str:
        """Every cut whose rows are in one table. The few rows of the catalogue are read first."""
        own = {DATE_COLUMN: "n.business_date", VERSION_COLUMN: "n.version"}
        of_sync = f"p.sync = {text_literal(sync)}" if sync else "p.sync = n.sync"
        same = " AND ".join(f"p.{name} = n.{name}" for name in ("sync", "table_name", "business_date", "version"))
        return (
            f"SELECT {self._selected(rows, own)} FROM {self._at}.cut_number AS n"
            f" STRAIGHT_JOIN {self._at}.{joined} AS p ON {of_sync} AND {same} AND {condition}"
            f" STRAIGHT_JOIN {relation(self._schema, rows)} AS v"
            f" ON v.{VALID_FROM} <= n.number AND n.number < v.{VALID_TO} WHERE n.rows_table = {text_literal(rows)}"
        )

    def _selected(self, name: str, literals: Mapping[str, str]) -> str:
        own = self._of[name]
        return ", ".join(
            f"{f'v.{quoted(name)}' if name.lower() in own else literals.get(name, 'NULL')} AS {quoted(name)}"
            for name in self._names
        )


def _own_columns(session: Session, place: Place) -> Mapping[str, StoredColumn]:
    found = stored_columns(session, place)
    return {name: column for name, column in found.items() if name not in (VALID_FROM, VALID_TO)}


def _replace(session: Session, place: Place, query: str, until: float) -> None:
    # Without it a view would lose what its owner has set.
    security = standing(session, place).security
    statement = f"CREATE OR REPLACE SQL SECURITY {security} VIEW {relation(*place)} AS {query}"
    until_done(session, statement, place, until)


def until_done(session: Session, statement: str, place: Place, until: float) -> None:
    """Try a statement that needs a table or view for itself until its readers let it."""
    while not _is_done(session, statement):
        if time.monotonic() >= until:
            raise TransientError(
                f"{relation(*place)} is being read without an end: it could not be changed",
                hint="end the transactions of its readers; a repeat goes on where this one stopped",
            )
        time.sleep(_PAUSE_S)


def _is_done(session: Session, statement: str) -> bool:
    """False where a reader held the view for as long as we wait."""
    try:
        execute(session, statement)
    except pymysql.err.OperationalError as exc:
        if code_of(exc) == ER.LOCK_WAIT_TIMEOUT:
            return False
        raise
    return True
