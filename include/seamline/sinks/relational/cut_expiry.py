"""Cuts that have served their time leave MariaDB and MySQL, one date at a time.

First it is asked whether somebody reads one of the tables: then the date stays until the next hour. One transaction
takes the rows of the date from the catalogue, and with them all of it from every view at once. After that the views
are made without the tables, and these are dropped. What cannot be dropped, since a reader has come meanwhile, shows
nowhere and goes with the next hour; so does what a kill has left.

Each wait for a reader is for one table or view, with nothing held beside it: nobody is ended for a deadlock, and a
reader waits a second behind us at most.

The row of the cut in the catalogue stays, with position, verdict and signature, and says when it expired.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pymysql
from pymysql.constants import ER

from seamline.adapters.connections import resolve
from seamline.domain.cut_keep import KeptCut
from seamline.domain.errors import Refused, TransientError
from seamline.plan.model import DestinationPlan
from seamline.sinks.relational.cut_catalogue import (
    base_tables_in,
    create_catalogue,
    has_catalogue,
    locked_cuts,
    note_newest_proven,
    versions_of,
    views_of_all,
)
from seamline.sinks.relational.cut_places import current_place, standing, views_of
from seamline.sinks.relational.cut_versions import drop_rows_of_no_cut
from seamline.sinks.relational.cut_views import remake_views
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.places import Place, ledger_place, relation
from seamline.sinks.relational.session import (
    Session,
    close,
    code_of,
    execute,
    open_session,
    query,
    transaction,
    translated,
)

# What has left the catalogue was judged before, and may go at any time.
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_CUTS = """
SELECT t.table_name, t.business_date, t.version, c.attached_at, c.published_at, p.version IS NOT NULL, t.is_proven,
    t.version_table, t.is_expired
FROM {at}.cut_table AS t JOIN {at}.cut AS c USING (sync, business_date, version)
LEFT JOIN {at}.cut_pointer AS p USING (sync, table_name, business_date, version)
WHERE t.sync = %s
"""
_VIEWS = "SELECT table_name FROM information_schema.views WHERE table_schema = %s"
_OF_TABLE = "sync = %s AND table_name = %s AND business_date = %s AND version = %s"
_FOREIGN_KEYS = {ER.ROW_IS_REFERENCED, ER.ROW_IS_REFERENCED_2, 3730}
_CUTS_ARE_READ = "the cuts of {day} of {sync} are being read"


@dataclass(frozen=True, slots=True)
class Dropped:
    """What left with a date: tables of versions and their bytes."""

    partitions: int
    size_bytes: int


class RelationalCutExpiry:
    """`ports.cuts.CutStore`: the cuts of one destination, in a session of their owner."""

    def __init__(self, destination: DestinationPlan, session: Session) -> None:
        self._destination = destination
        self._at = ledger_place(destination)
        self._session = session

    def close(self) -> None:
        close(self._session)

    def kept_cuts(self, sync: str) -> tuple[Sequence[KeptCut], datetime]:
        """Every table of every version that is there, and the time by this server's clock."""
        with translated(f"read the cuts of {sync}"):
            ((now,),) = query(self._session, "SELECT UTC_TIMESTAMP(6)")
            kept = self._kept(sync) if has_catalogue(self._session, self._destination) else {}
            return tuple(kept), now.replace(tzinfo=UTC)

    def _kept(self, sync: str) -> dict[KeptCut, str]:
        """Each with the name of its table."""
        return {_kept_cut(row): str(row[7]) for row in query(self._session, _CUTS.format(at=self._at), (sync,))}

    def expire(self, sync: str, business_date: date, cuts: Sequence[KeptCut]) -> Dropped:
        """Let these tables of a date go; a repeat finds them gone. What became of one since it was judged, as that it
        was published after all, is for the next hour: it stays.

        TransientError: readers did not let the date go in time. Refused: somebody's view or table builds on one of its
        tables; it is named. Nothing of the date has changed then, unless a reader came while it was on its way: then
        it shows nowhere any more, and its tables go with the next attempt.
        """
        doing = f"let the cut of {business_date} of {sync} expire"
        with (
            translated(doing),
            locked_cuts(self._session, self._destination),
            _in_use_is_transient(sync, business_date),
        ):
            kept = self._kept(sync)
            gone = sorted((cut for cut in cuts if cut in kept), key=lambda one: (one.table, one.version))
            there = base_tables_in(self._session, self._destination.cut_namespace)
            places = [(self._destination.cut_namespace, kept[cut]) for cut in gone if kept[cut] in there]
            stored = self._stored(sync, gone, kept)
            self._require_unused(sync, business_date, {cut.table for cut in gone}, [*places, *stored.values()])
            for place in places:
                # Never two at once: a reader who has one and wants the other would be ended for the deadlock.
                execute(self._session, f"LOCK TABLES {relation(*place)} WRITE")
                execute(self._session, "UNLOCK TABLES")
            size = sum(self._size(place) for place in places)
            self._hide(sync, gone)
            self._drop(sync, gone, places)
            size += self._drop_versions(stored)
            self._forget(sync, business_date, gone)
        return Dropped(len(gone), size)

    def _stored(self, sync: str, gone: Sequence[KeptCut], kept: Mapping[KeptCut, str]) -> Mapping[KeptCut, Place]:
        """Those that are stored as versions, with their views, which a kill may have left alone."""
        create_catalogue(self._session, self._destination)
        asked = f"SELECT table_name, business_date, version FROM {self._at}.cut_number WHERE sync = %s"
        numbered = query(self._session, asked, (sync,))
        schema = self._destination.cut_namespace
        views = {str(name) for (name,) in query(self._session, _VIEWS, (schema,))}
        of = {(str(table), day, int(version)) for table, day, version in numbered}
        return {
            cut: (schema, kept[cut])
            for cut in gone
            if (cut.table, cut.business_date, cut.version) in of or kept[cut] in views
        }

    def _drop_versions(self, stored: Mapping[KeptCut, Place]) -> int:
        """Their views, and the rows that no cut has any more; the bytes of these."""
        for place in stored.values():
            execute(self._session, f"DROP VIEW IF EXISTS {relation(*place)}")
        return sum(
            drop_rows_of_no_cut(self._session, self._destination, name) for name in {cut.table for cut in stored}
        )

    def expired(self, sync: str) -> Sequence[tuple[date, int]]:
        """(business date, version) of every cut of which nothing is left."""
        with translated(f"read the expired cuts of {sync}"):
            if not has_catalogue(self._session, self._destination):
                return ()
            rows = query(
                self._session,
                f"SELECT business_date, version FROM {self._at}.cut WHERE sync = %s AND expired_at IS NOT NULL",
                (sync,),
            )
        return [(day, int(version)) for day, version in rows]

    # ---- before anything changes -----------------------------------------------------------------------------------

    def _require_unused(self, sync: str, day: date, tables: set[str], places: Sequence[Place]) -> None:
        """The server drops a table that a view reads, and leaves the view broken. Of views that this login may not see
        we do not know."""
        if not places:
            return
        wanted = [relation(*place) for place in places]
        rows = query(self._session, "SELECT table_schema, table_name, view_definition FROM information_schema.views")
        ours = {relation(*one) for table in tables for one in self._views_of(table)}
        for schema, name, definition in rows:
            view = relation(str(schema), str(name))
            read = [place for place in wanted if place in str(definition)]
            if read and view not in ours:
                raise Refused(
                    f"the cut of {day} of {sync} stays: view {view} reads {read[0]}",
                    hint="let it read the view of all cuts, or `_current`, in place of one version's table",
                    sync=sync,
                )

    def _views_of(self, table: str) -> Iterator[Place]:
        yield from views_of(self._destination, table)
        for name in views_of_all(self._session, self._at, table):
            yield self._destination.cut_namespace, name

    def _size(self, place: Place) -> int:
        ((size,),) = query(
            self._session,
            "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name = %s",
            place,
        )
        return int(size)

    # ---- what readers notice, and the rest ---------------------------------------------------------------------------

    def _hide(self, sync: str, gone: Sequence[KeptCut]) -> None:
        """From every view, in one commit."""
        with transaction(self._session):
            for cut in gone:
                of_table = (sync, cut.table, cut.business_date, cut.version)
                for table in ("cut_pointer", "cut_number"):
                    execute(self._session, f"DELETE FROM {self._at}.{table} WHERE {_OF_TABLE}", of_table)
                execute(
                    self._session,
                    f"UPDATE {self._at}.cut_table SET is_expired = TRUE, is_published = FALSE, is_proven = FALSE"
                    f" WHERE {_OF_TABLE}",
                    of_table,
                )
            note_newest_proven(self._session, self._at, sync, sorted({cut.table for cut in gone}))

    def _drop(self, sync: str, gone: Sequence[KeptCut], places: Sequence[Place]) -> None:
        # One attempt per view: the next hour has others.
        until = time.monotonic()
        for table in sorted({cut.table for cut in gone}):
            versions = versions_of(self._session, self._at, self._destination.cut_namespace, table)
            owner = standing(self._session, current_place(self._destination, table)).sync
            remake_views(self._session, self._destination, table, versions, sync=owner, until=until)
        for place in places:
            execute(self._session, f"DROP TABLE IF EXISTS {relation(*place)}")

    def _forget(self, sync: str, business_date: date, gone: Sequence[KeptCut]) -> None:
        with transaction(self._session):
            for cut in gone:
                of_table = (sync, cut.table, cut.business_date, cut.version)
                execute(self._session, f"DELETE FROM {self._at}.cut_table WHERE {_OF_TABLE}", of_table)
            for version in sorted({cut.version for cut in gone}):
                of_version = (sync, business_date, version)
                execute(
                    self._session,
                    f"UPDATE {self._at}.cut SET expired_at = UTC_TIMESTAMP(6)"
                    " WHERE sync = %s AND business_date = %s AND version = %s AND expired_at IS NULL"
                    f" AND NOT EXISTS (SELECT 1 FROM {self._at}.cut_table AS t"
                    " WHERE t.sync = %s AND t.business_date = %s AND t.version = %s)",
                    (*of_version, *of_version),
                )


def _kept_cut(row: Sequence[Any]) -> KeptCut:
    table, day, version, attached_at, published_at, is_current, is_proven, _, is_expired = row
    if is_expired:
        return KeptCut(str(table), day, int(version), _LONG_AGO, None, is_current=False, is_proven=False)
    return KeptCut(
        str(table),
        day,
        int(version),
        attached_at.replace(tzinfo=UTC),
        published_at.replace(tzinfo=UTC) if published_at else None,
        is_current=bool(is_current),
        is_proven=bool(is_proven),
    )


@contextmanager
def _in_use_is_transient(sync: str, day: date) -> Iterator[None]:
    try:
        yield
    except pymysql.err.MySQLError as exc:
        if code_of(exc) in _FOREIGN_KEYS:
            raise Refused(
                f"the cut of {day} of {sync} stays: {exc.args[-1]}",
                hint="drop the foreign key that points to it",
                sync=sync,
            ) from exc
        if code_of(exc) != ER.LOCK_WAIT_TIMEOUT:
            raise
        raise TransientError(
            _CUTS_ARE_READ.format(day=day, sync=sync),
            hint="it is tried again in an hour; a reader that never ends its transaction has to be ended",
            sync=sync,
        ) from exc


def open_cut_expiry(destination: DestinationPlan, dialect: Dialect) -> RelationalCutExpiry:
    return RelationalCutExpiry(destination, open_session(resolve(destination.connection), dialect))
