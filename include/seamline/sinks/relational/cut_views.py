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
from seamline.domain.cut_names import CUT_COLUMNS, DATE_COLUMN, VERSION_COLUMN
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
        _replace(session, place, columns.query("cut_table", "p.is_published", of_view), until)
        if shown_in == table and sync:
            own = [one for one in of_view if one.sync == sync]
            for pointer, view in (("cut_pointer", current_place), ("cut_proven", proven_place)):
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
        primary_key(session, (destination.cut_namespace, newest.name)),
        at=ledger_place(destination),
        sync=sync,
        table=newest.table,
    )


class _ColumnsOf:
    """What the views of a table select from each version."""

    def __init__(
        self, session: Session, destination: DestinationPlan, view: Place, versions: Sequence[Version]
    ) -> None:
        self._at, self._schema = ledger_place(destination), destination.cut_namespace
        self._of: Mapping[str, Mapping[str, StoredColumn]] = {
            one.name: stored_columns(session, (self._schema, one.name)) for one in versions
        }
        self._names = shown_columns(stored_columns(session, view), list(self._of.values()))

    def query(self, joined: str, condition: str, versions: Sequence[Version], *, sync: str = "") -> str:
        if versions:
            return " UNION ALL ".join(self._part(joined, condition, one) for one in versions)
        # A view that others build on stays, though it has nothing to show.
        nothing = ", ".join(f"NULL AS {quoted(name)}" for name in self._names)
        of_sync = f"p.sync = {text_literal(sync)}"
        return f"SELECT {nothing} FROM {self._at}.{joined} AS p WHERE {of_sync} AND FALSE"

    def _part(self, joined: str, condition: str, version: Version) -> str:
        own = self._of[version.name]
        literals = {DATE_COLUMN: f"DATE'{version.business_date.isoformat()}'", VERSION_COLUMN: str(version.version)}
        selected = ", ".join(
            f"{f'v.{quoted(name)}' if name.lower() in own else literals.get(name, 'NULL')} AS {quoted(name)}"
            for name in self._names
        )
        return (
            f"SELECT {selected} FROM {relation(self._schema, version.name)} AS v JOIN {self._at}.{joined} AS p"
            f" ON p.sync = {text_literal(version.sync)} AND p.table_name = {text_literal(version.table)}"
            f" AND p.business_date = {literals[DATE_COLUMN]} AND p.version = {version.version} AND {condition}"
        )


def _replace(session: Session, place: Place, query: str, until: float) -> None:
    # Without it a view would lose what its owner has set.
    security = standing(session, place).security
    statement = f"CREATE OR REPLACE SQL SECURITY {security} VIEW {relation(*place)} AS {query}"
    while not _is_done(session, statement):
        if time.monotonic() >= until:
            raise TransientError(
                f"{relation(*place)} is being read without an end: it could not be replaced",
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
