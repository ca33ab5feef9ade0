"""Cuts in MariaDB and MySQL: a table per version, a catalogue that says which count, views over both.

`<schema>_cut.<table>_20260305_v1` holds one table of one version. Readers see it through views: `<schema>_cut.<table>`
shows every version, `<schema>_cut.<table>_current` those that count, `<schema>.<table>_proven` the newest cut that
reconciled or that a person signed, `<schema>_cut.<table>_cut_changes` what differs between two (`cut_changes.py`).

These servers commit at each CREATE, RENAME and DROP. So everything that readers could notice is a row: a view shows a
version's table only while the catalogue has the row that it joins (`cut_views.py`). A publish

1. writes the version down, with the tables that are to hold it, in one transaction;
2. renames all staged tables to these, in one statement;
3. replaces the views, which have one more table to show and show the same as before;
4. moves the pointers of all tables, in one transaction. Readers notice this and nothing else.

Of a table whose cuts are stored as versions (`cut_versions.py`) the first step writes the rows too, and nothing is
renamed.

Each step finds what an earlier attempt of the run has done, so a kill between any two is mended by a repeat. Step 3
waits for the readers of a view, for a statement keeps what a view was when it began: one that began before step 3 has
ended before step 4 (ADR 41). Older dates and versions end by `cut_expiry.py`.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date

from seamline.adapters.connections import resolve
from seamline.domain.catalogue import Table
from seamline.domain.cut_names import OWN_COLUMNS, partition_name
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused, SchemaConflict
from seamline.domain.position import position_from_json, position_to_json
from seamline.domain.staged_cut import CutMode, Lateness, Published, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.kinds.cut_rules import CutMisfit, KnownCut, of_all_misfits, other_storage, require_repeat_of
from seamline.plan.model import DestinationPlan
from seamline.sinks.relational.cut_catalogue import (
    Version,
    base_tables_in,
    create_catalogue,
    has_catalogue,
    locked_cuts,
    note_newest_proven,
    versions_of,
)
from seamline.sinks.relational.cut_columns import ColumnsMisfit, StoredColumn, require_fit, stored_columns
from seamline.sinks.relational.cut_lateness import lateness
from seamline.sinks.relational.cut_places import name_conflicts
from seamline.sinks.relational.cut_versions import make_room, put_aside, rows_place, show_version, write_version
from seamline.sinks.relational.cut_views import remake_views
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.places import Place, ledger_place, relation
from seamline.sinks.relational.session import Session, close, execute, open_session, query, transaction, translated
from seamline.sinks.relational.staged_rows import require_as_compared

_PUT_ASIDE = (
    "nothing was published. Put the earlier cuts aside as they are, then repeat the publish, which gives them views by"
    " the names that you give them here: {aside}"
)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """How far the publish of a run has come."""

    version: int
    is_published: bool
    signed_by: str


class RelationalCuts:
    """The cuts of one destination. Not safe to share between threads.

    `reader_patience_s`: how long a publish waits for those who read the views.
    """

    def __init__(
        self, destination: DestinationPlan, session: Session, dialect: Dialect, *, reader_patience_s: float = 60.0
    ) -> None:
        self._destination = destination
        self._at = ledger_place(destination)
        self._session = session
        self._dialect = dialect
        self._reader_patience_s = reader_patience_s

    def close(self) -> None:
        close(self._session)

    def lateness(self, sync: str, table: str, business_date: date, *, staged_as: str) -> Lateness | None:
        """What the staged rows have beyond the version that counts now, and what they lack; None without one.

        A row that changed counts in both. Of a table that has another definition since, the columns that both have are
        compared.
        """
        with translated("compare the staged rows with the cut before", table=table):
            if not has_catalogue(self._session, self._destination):
                return None
            rows = query(
                self._session,
                f"SELECT t.version_table FROM {self._at}.cut_pointer AS p JOIN {self._at}.cut_table AS t"
                " USING (sync, table_name, business_date, version)"
                " WHERE p.sync = %s AND p.table_name = %s AND p.business_date = %s",
                (sync, table, business_date),
            )
            if not rows:
                return None
            staged, before = self._staged(staged_as), (self._destination.cut_namespace, str(rows[0][0]))
            return lateness(self._session, staged=staged, before=before)

    def date_before(self, sync: str, business_date: date) -> Sequence[PublishedTable]:
        """The tables by business date of the newest date before this one that is published, as its pointers say."""
        with translated(f"look for the cut before {business_date} of {sync}"):
            if not has_catalogue(self._session, self._destination):
                return ()
            rows = query(
                self._session,
                f"SELECT t.table_name, t.business_date, t.version, t.version_table FROM {self._at}.cut_pointer AS p"
                f" JOIN {self._at}.cut_table AS t USING (sync, table_name, business_date, version)"
                " WHERE p.sync = %s AND t.mode = %s AND p.business_date = (SELECT MAX(business_date)"
                f" FROM {self._at}.cut_pointer WHERE sync = %s AND business_date < %s) ORDER BY t.table_name",
                (sync, CutMode.DATE.value, sync, business_date),
            )
        schema = self._destination.cut_namespace
        return [PublishedTable(table, day, int(version), schema, name) for table, day, version, name in rows]

    def publish(self, cut: StagedCut, *, definitions: Mapping[str, Table], signed_by: str = "") -> Published:
        """Make every staged table the next version of the date; readers get all of them in one commit.

        Repeat-safe by the cut's run id, after a crash at any place too. TransientError when a reader keeps a view for
        longer than `reader_patience_s`, or somebody else publishes: readers have noticed nothing then. GateFailed where
        a staged table holds something else than what was compared; one that `definitions` lacks is only counted.
        """
        doing = f"publish the cut of {cut.business_date} of {cut.sync}"
        with translated(doing), locked_cuts(self._session, self._destination):
            create_catalogue(self._session, self._destination)
            known = self._recorded(cut)
            # Who has signed last: a later question about this very cut may have been answered by somebody else.
            signer = signed_by or (known.signed_by if known else "")
            if known is not None and known.is_published:
                if signer != known.signed_by:
                    self._sign(cut, known.version, signer)
                return Published(known.version, is_new=False, signed_by=signer)
            version = self._put_in_place(cut, known, definitions, signer)
            for table in filter(self._is_versioned, cut.tables):
                self._require_stored(cut, table, version, definitions.get(table.table))
            self._remake_views(cut)
            self._point_to(cut, version, signer)
        return Published(version, is_new=True, signed_by=signer)

    # ---- what is there of the run ----------------------------------------------------------------------------------

    def _recorded(self, cut: StagedCut) -> _Recorded | None:
        rows = query(
            self._session,
            "SELECT sync, business_date, version, published_at IS NOT NULL, signed_by, position, expired_at IS NOT NULL"
            f" FROM {self._at}.cut WHERE run_id = %s",
            (cut.run_id,),
        )
        if not rows:
            return None
        sync, day, version, is_published, signed_by, position, has_expired = rows[0]
        require_repeat_of(cut, KnownCut(sync, day, position_from_json(json.loads(position)), bool(has_expired)))
        return _Recorded(int(version), bool(is_published), str(signed_by))

    # ---- steps 1 and 2: the version's tables -----------------------------------------------------------------------

    def _put_in_place(
        self, cut: StagedCut, known: _Recorded | None, definitions: Mapping[str, Table], signed_by: str
    ) -> int:
        """The version; its tables have their own names then. Nothing has changed where one of them cannot stand."""
        version = known.version if known else self._next_version(cut)
        there = base_tables_in(self._session, self._destination.cut_namespace)
        names = {table.table: partition_name(table.table, cut.business_date, version) for table in cut.tables}
        wanted = [table for table in cut.tables if known is None or not self._has_moved(table, names, there)]
        places = self._places(cut, wanted, definitions)
        stored = {name: (rows, staged) for name, (rows, staged) in places.items() if rows is not None}
        if known is None:
            until = time.monotonic() + self._reader_patience_s
            for name, (rows, staged) in stored.items():
                make_room(self._session, self._at, name, rows, staged, until=until)
            self._record(cut, version, names, signed_by, stored)
        moves = {names[name]: staged for name, (rows, staged) in places.items() if rows is None}
        if moves:
            renames = [f"{relation(*staged)} TO {self._in_cuts(name)}" for name, staged in sorted(moves.items())]
            execute(self._session, f"RENAME TABLE {', '.join(renames)}")
        return version

    def _has_moved(self, table: StagedTable, names: Mapping[str, str], there: Collection[str]) -> bool:
        """Of a version that is written down: its rows, where they are versions, came with that."""
        return names[table.table] in there or self._is_versioned(table)

    def _places(
        self, cut: StagedCut, tables: Sequence[StagedTable], definitions: Mapping[str, Table]
    ) -> Mapping[str, tuple[Place | None, Place]]:
        """By table where its rows of versions are, None where its cuts are copies, and where it is staged."""
        places: dict[str, tuple[Place | None, Place]] = {}
        misfits: list[CutMisfit] = []
        for table in tables:
            try:
                staged = self._as_it_may_stand(cut, table, definitions.get(table.table))
                rows = self._rows_place(cut, table, staged) if self._is_versioned(table) else None
                places[table.table] = (rows, staged)
            except CutMisfit as misfit:
                misfits.append(misfit)
        if misfits:
            raise of_all_misfits(misfits, cure=_PUT_ASIDE)
        return places

    def _is_versioned(self, table: StagedTable) -> bool:
        return table.table in self._destination.versioned

    def _shown_with(self, table: str) -> Sequence[Version]:
        """The earlier cuts that stand in the view of all."""
        versions = versions_of(self._session, self._at, self._destination.cut_namespace, table)
        return [one for one in versions if one.shown_in == table]

    def _rows_place(self, cut: StagedCut, table: StagedTable, staged: Place) -> Place:
        versions = self._shown_with(table.table)
        return rows_place(self._session, self._destination, table.table, staged, versions, day=cut.business_date)

    def _require_stored(self, cut: StagedCut, table: StagedTable, version: int, definition: Table | None) -> None:
        """What a cut shows that was written as a difference is what was compared. Its staged rows go then."""
        numbered = (cut.sync, table.table, cut.business_date, version)
        schema, _, name = table.staged_as.rpartition(".")
        staged = (schema or self._destination.stage_namespace, name)
        columns = list(stored_columns(self._session, staged).values())
        shown = show_version(self._session, self._destination, columns, numbered)
        require_as_compared(
            self._session,
            shown,
            rows=table.rows,
            digest=table.digest,
            definition=definition,
            position=cut.position,
            dialect=self._dialect,
        )
        execute(self._session, f"DROP TABLE IF EXISTS {relation(*staged)}")

    def _next_version(self, cut: StagedCut) -> int:
        """Above that of another sync that has cut one of the tables for this date: they share the view of all cuts."""
        marks = ", ".join(["%s"] * len(cut.tables)) or "NULL"
        tables = [table.table for table in cut.tables]
        ((version,),) = query(
            self._session,
            f"SELECT COALESCE(MAX(version), 0) + 1 FROM (SELECT version FROM {self._at}.cut"
            f" WHERE sync = %s AND business_date = %s UNION ALL SELECT version FROM {self._at}.cut_table"
            f" WHERE table_name IN ({marks}) AND business_date = %s) AS taken",
            (cut.sync, cut.business_date, *tables, cut.business_date),
        )
        return int(version)

    def _as_it_may_stand(self, cut: StagedCut, table: StagedTable, definition: Table | None) -> Place:
        """The place of a staged table that holds what was compared and fits what stands already."""
        staged = self._staged(table.staged_as)
        new = stored_columns(self._session, staged)
        clash = set(OWN_COLUMNS) & new.keys()
        if clash:
            raise SchemaConflict(
                f"table {table.table} has a column {min(clash)}, which a cut needs for itself",
                hint="rename the column at the source, or leave the table out of the sync",
                table=table.table,
            )
        for what, cure in name_conflicts(self._session, self._destination, sync=cut.sync, tables=[table.table]):
            raise SchemaConflict(
                what, hint=f"nothing was published. {cure}. Then repeat the publish", table=table.table
            )
        if not self._is_versioned(table):
            self._require_fit_of_copies(cut, table, new)
        require_as_compared(
            self._session,
            staged,
            rows=table.rows,
            digest=table.digest,
            definition=definition,
            position=cut.position,
            dialect=self._dialect,
        )
        return staged

    def _require_fit_of_copies(self, cut: StagedCut, table: StagedTable, new: Mapping[str, StoredColumn]) -> None:
        aside = put_aside(self._destination, table.table, cut.business_date)
        earlier = self._shown_with(table.table)
        if any(one.rows_table for one in earlier):
            raise other_storage(table.table, now="copies", was="versions", aside=aside)
        schema = self._destination.cut_namespace
        try:
            require_fit(new, [stored_columns(self._session, (schema, one.name)) for one in earlier])
        except ColumnsMisfit as exc:
            raise CutMisfit(table.table, str(exc), aside=aside) from exc

    def _record(
        self,
        cut: StagedCut,
        version: int,
        names: Mapping[str, str],
        signed_by: str,
        stored: Mapping[str, tuple[Place, Place]],
    ) -> None:
        """`stored`: of the tables whose cuts are versions, where their rows go and where they are staged."""
        with transaction(self._session):
            execute(
                self._session,
                f"INSERT INTO {self._at}.cut (sync, business_date, version, run_id, position, as_of, verdict,"
                " is_partial, left_out, signed_by, attached_at)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, UTC_TIMESTAMP(6))",
                (
                    cut.sync,
                    cut.business_date,
                    version,
                    cut.run_id,
                    json.dumps(position_to_json(cut.position)),
                    cut.as_of.astimezone(UTC).replace(tzinfo=None),
                    cut.verdict.value,
                    cut.is_partial,
                    json.dumps(dict(cut.left_out)),
                    signed_by,
                ),
            )
            for table in cut.tables:
                execute(
                    self._session,
                    f"INSERT INTO {self._at}.cut_table (sync, table_name, business_date, version, version_table,"
                    " shown_in, mode, row_count, late_rows, gone_rows, verdict)"
                    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                    (
                        cut.sync,
                        table.table,
                        cut.business_date,
                        version,
                        names[table.table],
                        table.table,
                        table.mode.value,
                        table.rows,
                        table.late_rows,
                        table.gone_rows,
                        table.verdict.value,
                    ),
                )
                if table.table in stored:
                    numbered = (cut.sync, table.table, cut.business_date, version)
                    write_version(self._session, self._at, *stored[table.table], numbered)

    # ---- step 3: the views -----------------------------------------------------------------------------------------

    def _remake_views(self, cut: StagedCut) -> None:
        until = time.monotonic() + self._reader_patience_s
        for name in sorted(table.table for table in cut.tables):
            versions = versions_of(self._session, self._at, self._destination.cut_namespace, name)
            remake_views(self._session, self._destination, name, versions, sync=cut.sync, until=until)

    # ---- step 4: the pointers --------------------------------------------------------------------------------------

    def _point_to(self, cut: StagedCut, version: int, signed_by: str) -> None:
        # Of the whole cut: beside a table that is not clean the others stand for a date that nobody has signed.
        is_proven = cut.verdict is Verdict.MATCH or bool(signed_by)
        with transaction(self._session):
            execute(
                self._session,
                f"UPDATE {self._at}.cut SET published_at = UTC_TIMESTAMP(6), signed_by = %s WHERE run_id = %s",
                (signed_by, cut.run_id),
            )
            execute(
                self._session,
                f"UPDATE {self._at}.cut_table SET is_published = TRUE, is_proven = %s"
                " WHERE sync = %s AND business_date = %s AND version = %s",
                (is_proven, cut.sync, cut.business_date, version),
            )
            # A run that is repeated after a later one keeps its version and does not turn the pointer back.
            for table in sorted(one.table for one in cut.tables):
                execute(
                    self._session,
                    f"INSERT INTO {self._at}.cut_pointer (sync, table_name, business_date, version)"
                    " VALUES (%s, %s, %s, %s) ON DUPLICATE KEY UPDATE version = GREATEST(version, %s)",
                    (cut.sync, table, cut.business_date, version, version),
                )
            note_newest_proven(self._session, self._at, cut.sync, sorted(one.table for one in cut.tables))

    def _sign(self, cut: StagedCut, version: int, signed_by: str) -> None:
        """What stands published is proven by whoever signs for it."""
        with transaction(self._session):
            execute(
                self._session, f"UPDATE {self._at}.cut SET signed_by = %s WHERE run_id = %s", (signed_by, cut.run_id)
            )
            execute(
                self._session,
                f"UPDATE {self._at}.cut_table SET is_proven = TRUE"
                " WHERE sync = %s AND business_date = %s AND version = %s AND is_published",
                (cut.sync, cut.business_date, version),
            )
            note_newest_proven(self._session, self._at, cut.sync, sorted(one.table for one in cut.tables))

    # ---- places ----------------------------------------------------------------------------------------------------

    def _staged(self, staged_as: str) -> Place:
        """Schema and name of `staged_as`. Raises Refused when it is not there."""
        schema, name = self._destination.stage_namespace, staged_as
        if name not in base_tables_in(self._session, schema) and "." in staged_as:
            schema, _, name = staged_as.partition(".")
        if name not in base_tables_in(self._session, schema):
            raise Refused(f"the staged table {schema}.{name} is not there any more", hint="run the nightly's job again")
        return schema, name

    def _in_cuts(self, name: str) -> str:
        return relation(self._destination.cut_namespace, name)


def open_cuts(destination: DestinationPlan, dialect: Dialect) -> RelationalCuts:
    """The cuts of a destination, in a session of their own."""
    return RelationalCuts(destination, open_session(resolve(destination.connection), dialect), dialect)
