"""Cuts in PostgreSQL: a partitioned table per table of the sync, a pointer per date, views over both.

`<schema>_cut.<table>` holds every kept cut, one partition per (cut_business_date, cut_version). A staged table becomes
a partition by ATTACH, which moves no row. `seamline.cut_pointer` names the version that counts for a table and date;
`<schema>_cut.<table>_current` shows those, `<schema>.<table>_proven` the newest cut that reconciled or that a person
signed, `<schema>_cut.<table>_cut_changes` what differs between two (`cut_changes.py`). Older dates and versions end by
`cut_expiry.py`. Of a table that is declared so the cuts are stored as versions (`cut_versions.py`): then
`<schema>_cut.<table>` is a view, and what is said here of partitions holds for its numbers.

A publish takes two commits, of which readers notice only the second: the partitions of all tables, then the pointers
of all tables. One commit for both is not enough: ATTACH does not wait for readers, so a statement that was planned
before it and takes its snapshot after it follows the new pointer without knowing the new partition, and finds nothing
(seen on PostgreSQL 18.4). So between the two we wait until every transaction that could have planned with the old
partitions has ended; nobody waits for us, but where a table has gained or lost columns: for that moment all partitions
are locked.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

import psycopg

from seamline.adapters.connections import resolve
from seamline.databases.postgres.canonical import quoted, text_literal
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.read import Relation
from seamline.domain.catalogue import Table
from seamline.domain.cut_names import (
    CUT_COLUMNS,
    DATE_COLUMN,
    OWN_COLUMNS,
    VERSION_COLUMN,
    partition_name,
)
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused, SchemaConflict, TransientError
from seamline.domain.position import Position, position_from_json, position_to_json
from seamline.domain.staged_cut import CutMode, Lateness, Published, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.kinds.cut_rules import CutMisfit, KnownCut, of_all_misfits, other_storage, require_repeat_of
from seamline.plan.model import DestinationPlan
from seamline.sinks.postgres.cut_changes import make_changes_view, primary_key
from seamline.sinks.postgres.cut_columns import ColumnsMisfit, allow_null, fit_columns, stored_columns
from seamline.sinks.postgres.cut_places import in_place_of_view, views_of
from seamline.sinks.postgres.cut_versions import CATALOGUE, all_cuts_query, aside_of, make_room, store_version
from seamline.sinks.postgres.staged_rows import require_as_compared

# Publishers of cuts in one database take turns: versions are counted and partitioned tables are made under it.
LOCK = 7_305_805_512_440_011
# The difference of a large table is computed in a turn.
_TURN_WITHIN = "30min"
_LOOK_EVERY_S = 0.02
_PUT_ASIDE = (
    "nothing was published. Put the earlier cuts aside as they are, then repeat the publish, which makes table and"
    " views again, without rights: BEGIN; {aside}; COMMIT"
)
_TABLES = """
CREATE SCHEMA IF NOT EXISTS seamline;
CREATE TABLE IF NOT EXISTS seamline.cut (
    sync text NOT NULL,
    business_date date NOT NULL,
    version integer NOT NULL,
    run_id text NOT NULL UNIQUE,
    position jsonb NOT NULL,
    as_of timestamptz NOT NULL,
    verdict text NOT NULL,
    partial boolean NOT NULL,
    left_out jsonb NOT NULL,
    signed_by text NOT NULL DEFAULT '',
    attached_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at timestamptz,
    expired_at timestamptz,
    PRIMARY KEY (sync, business_date, version)
);
CREATE TABLE IF NOT EXISTS seamline.cut_table (
    sync text NOT NULL,
    table_name text NOT NULL,
    business_date date NOT NULL,
    version integer NOT NULL,
    partition_name text NOT NULL,
    mode text NOT NULL,
    rows bigint NOT NULL,
    late_rows bigint,
    gone_rows bigint,
    verdict text NOT NULL,
    is_proven boolean NOT NULL,
    PRIMARY KEY (sync, table_name, business_date, version),
    FOREIGN KEY (sync, business_date, version) REFERENCES seamline.cut
);
CREATE TABLE IF NOT EXISTS seamline.cut_pointer (
    sync text NOT NULL,
    table_name text NOT NULL,
    business_date date NOT NULL,
    version integer NOT NULL,
    PRIMARY KEY (sync, table_name, business_date),
    FOREIGN KEY (sync, table_name, business_date, version) REFERENCES seamline.cut_table
);
"""


# Of an earlier version. Asked first: an ALTER waits for every reader, also where it has nothing to do.
_HAS_EXPIRED_AT = "SELECT FROM pg_attribute WHERE attrelid = 'seamline.cut'::regclass AND attname = 'expired_at'"


def create_cut_tables(session: Session) -> None:
    """In the transaction that holds `LOCK`. A repeat changes nothing."""
    session.execute(_TABLES)
    session.execute(CATALOGUE)
    if session.execute(_HAS_EXPIRED_AT).fetchone() is None:
        session.execute("ALTER TABLE seamline.cut ADD COLUMN expired_at timestamptz")


@dataclass(frozen=True, slots=True)
class _Attached:
    """How far the publish of a run has come."""

    version: int
    is_published: bool
    signed_by: str


class PostgresCuts:
    """The cuts of one destination. Not safe to share between threads.

    `reader_patience_s`: how long a publish waits for transactions of readers that were open before it.
    """

    def __init__(self, destination: DestinationPlan, session: Session, *, reader_patience_s: float = 60.0) -> None:
        self._destination = destination
        self._session = session
        self._reader_patience_s = reader_patience_s

    def close(self) -> None:
        self._session.close()

    def lateness(self, sync: str, table: str, business_date: date, *, staged_as: str) -> Lateness | None:
        """What the staged rows have beyond the version that counts now, and what they lack; None without one.

        A row that changed counts in both: whole rows are compared, identical ones by their number. Of a table that
        has another definition since, whole is what both have.
        """
        with translated("compare the staged rows with the cut before", table=table):
            before = self._current_cut(sync, table, business_date)
            if before is None:
                return None
            staged = self._staged(staged_as)
            new, old = stored_columns(self._session, staged), stored_columns(self._session, before)
            shared = ", ".join(quoted(name) for name in new if name in old and new[name].type == old[name].type)
            pairs = ((staged, before), (before, staged))
            counts = [
                self._count(f"(SELECT {shared} FROM {one}) EXCEPT ALL (SELECT {shared} FROM {other})")
                for one, other in pairs
            ]
        return Lateness(*counts)

    def date_before(self, sync: str, business_date: date) -> Sequence[PublishedTable]:
        """The tables by business date of the newest date before this one that is published, as its pointers say."""
        with translated(f"look for the cut before {business_date} of {sync}"):
            try:
                rows = self._session.execute(
                    "SELECT t.table_name, t.business_date, t.version, t.partition_name FROM seamline.cut_pointer AS p"
                    " JOIN seamline.cut_table AS t USING (sync, table_name, business_date, version)"
                    " WHERE sync = %s AND t.mode = %s AND business_date = (SELECT max(business_date)"
                    " FROM seamline.cut_pointer WHERE sync = %s AND business_date < %s) ORDER BY t.table_name",
                    (sync, CutMode.DATE.value, sync, business_date),
                ).fetchall()
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                return ()
        schema = self._destination.cut_namespace
        return [PublishedTable(table, day, version, schema, name) for table, day, version, name in rows]

    def publish(self, cut: StagedCut, *, definitions: Mapping[str, Table], signed_by: str = "") -> Published:
        """Make every staged table the next version of the date; readers get all of them in one commit.

        Repeat-safe by the cut's run id, after a crash at any place too. TransientError when a lock is not given in
        time, or when a reader's transaction from before stays open: readers have noticed nothing then. GateFailed where
        a staged table holds something else than what was compared; one that `definitions` lacks is only counted.
        """
        with translated(f"publish the cut of {cut.business_date} of {cut.sync}"):
            with self._locked():
                self._create_tables()
                attached = self._attached(cut)
            if attached is None:
                for table in cut.tables:
                    self._prepare(table, definitions.get(table.table), cut.position)
                self._make_room(cut)
                with self._locked():
                    attached = self._attached(cut) or self._attach_all(cut, signed_by, definitions)
            # Who has signed last: a later question about this very cut may have been answered by somebody else.
            signer = signed_by or attached.signed_by
            if attached.is_published:
                if signer != attached.signed_by:
                    self._sign(cut, attached.version, signer)
                return Published(attached.version, is_new=False, signed_by=signer)
            # A view of versions has no list of partitions that an old plan could lack.
            self._wait_for_readers_of_old_plans([one.table for one in cut.tables if not self._is_versioned(one)])
            with self._locked():
                is_new = self._point_to(cut, attached.version, signer)
        return Published(attached.version, is_new=is_new, signed_by=signer)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._session.transaction():
            # Only the turn may be waited for so long: behind a table that is waited for its readers queue.
            (patience,) = self._session.execute("SHOW lock_timeout").fetchone() or ("",)
            self._session.execute(f"SET LOCAL lock_timeout = '{_TURN_WITHIN}'")
            self._session.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            self._session.execute("SELECT set_config('lock_timeout', %s, true)", (patience,))
            yield

    # ---- first commit: partitions ----------------------------------------------------------------------------------

    def _create_tables(self) -> None:
        create_cut_tables(self._session)
        for schema in (self._destination.cut_namespace, self._destination.namespace):
            self._session.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}".encode())

    def _attached(self, cut: StagedCut) -> _Attached | None:
        row = self._session.execute(
            "SELECT sync, business_date, version, published_at IS NOT NULL, signed_by, position, expired_at"
            " FROM seamline.cut WHERE run_id = %s",
            (cut.run_id,),
        ).fetchone()
        if row is None:
            return None
        require_repeat_of(cut, KnownCut(row[0], row[1], position_from_json(row[5]), row[6] is not None))
        return _Attached(row[2], row[3], row[4])

    def _attach_all(self, cut: StagedCut, signed_by: str, definitions: Mapping[str, Table]) -> _Attached:
        version = self._next_version(cut)
        self._session.execute(
            "INSERT INTO seamline.cut (sync, business_date, version, run_id, position, as_of, verdict, partial,"
            " left_out, signed_by) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                cut.sync,
                cut.business_date,
                version,
                cut.run_id,
                json.dumps(position_to_json(cut.position)),
                cut.as_of,
                cut.verdict.value,
                cut.is_partial,
                json.dumps(dict(cut.left_out)),
                signed_by,
            ),
        )
        # One order for all publishers, so that two of them never wait for each other.
        misfits: list[CutMisfit] = []
        for table in sorted(cut.tables, key=lambda staged: staged.table):
            try:
                # A savepoint: the tables behind one that does not fit are looked at too, and then all of it goes.
                with self._session.transaction():
                    if self._is_versioned(table):
                        self._store(cut, table, version, definitions.get(table.table))
                    else:
                        self._attach(cut.sync, table, cut.business_date, version)
            except CutMisfit as misfit:
                misfits.append(misfit)
        if misfits:
            raise of_all_misfits(misfits, cure=_PUT_ASIDE)
        return _Attached(version, is_published=False, signed_by=signed_by)

    def _next_version(self, cut: StagedCut) -> int:
        """Above that of another sync that has cut one of the tables for this date: they share the partitioned table."""
        row = self._session.execute(
            "SELECT coalesce(max(version), 0) + 1 FROM (SELECT version FROM seamline.cut"
            " WHERE sync = %(sync)s AND business_date = %(date)s UNION ALL SELECT version FROM seamline.cut_table"
            " WHERE table_name = ANY(%(tables)s) AND business_date = %(date)s) AS taken",
            {"sync": cut.sync, "date": cut.business_date, "tables": [table.table for table in cut.tables]},
        ).fetchone()
        return int(row[0]) if row else 1

    def _attach(self, sync: str, table: StagedTable, business_date: date, version: int) -> None:
        """Turn the staged table into a partition; no row is copied. The CHECK spares ATTACH a scan of its own."""
        staged, parent = self._staged(table.staged_as), self._parent(table.table)
        self._require_own_columns_free(table, staged)
        if self._kind(parent) == "v":
            aside = aside_of(self._destination, table.table, business_date, what="VIEW")
            raise other_storage(table.table, now="copies", was="versions", aside=aside)
        day = _date(business_date)
        partition = Relation(self._destination.cut_namespace, partition_name(table.table, business_date, version))
        is_first = self._kind(parent) is None
        statements = (
            f"ALTER TABLE {staged} ADD COLUMN {DATE_COLUMN} date NOT NULL DEFAULT {day},"
            f" ADD COLUMN {VERSION_COLUMN} integer NOT NULL DEFAULT {version}",
            # What differs between two cuts is asked by these columns: without their statistics a plan expects one row.
            f"ANALYZE {staged} ({', '.join(CUT_COLUMNS)})",
            f"ALTER TABLE {staged} ADD CHECK ({DATE_COLUMN} = {day} AND {VERSION_COLUMN} = {version})",
            f"ALTER TABLE {staged} RENAME TO {quoted(partition.name)}",
            f"ALTER TABLE {Relation(staged.schema, partition.name)} SET SCHEMA {quoted(partition.schema)}",
            f"CREATE TABLE IF NOT EXISTS {parent} (LIKE {partition})"
            f" PARTITION BY RANGE ({DATE_COLUMN}, {VERSION_COLUMN})",
        )
        for statement in statements:
            self._session.execute(statement.encode())
        if is_first:
            allow_null(self._session, parent, but=CUT_COLUMNS)
        is_wider = self._fit(partition, parent, business_date)
        self._session.execute(
            f"ALTER TABLE {parent} ATTACH PARTITION {partition}"
            f" FOR VALUES FROM ({day}, {version}) TO ({day}, {version + 1})".encode()
        )
        self._make_views(sync, table.table, is_wider=is_wider)
        changes = views_of(self._destination, table.table)[-1]
        self._is_free(changes, sync, table.table)
        make_changes_view(self._session, changes, cuts=parent, key=primary_key(self._session, partition), sync=sync)

    def _make_room(self, cut: StagedCut) -> None:
        """Columns that have come, and the views that show them, in a transaction of a moment: a table is locked for it,
        and the difference is written for much longer. Readers find NULL there until the cut is published."""
        tables = sorted(filter(self._is_versioned, cut.tables), key=lambda staged: staged.table)
        if not tables:
            return
        with self._locked():
            for table in tables:
                staged = self._staged(table.staged_as)
                self._require_own_columns_free(table, staged)
                rows = make_room(self._session, self._destination, staged, table.table, day=cut.business_date)
                if rows is not None:
                    self._show_versions(cut.sync, table.table, rows, primary_key(self._session, staged), is_wider=True)

    def _show_versions(self, sync: str, table: str, rows: Relation, key: Sequence[str], *, is_wider: bool) -> None:
        parent, changes = self._parent(table), views_of(self._destination, table)[-1]
        if self._kind(parent) is None or is_wider:
            self._create_view(parent, all_cuts_query(self._session, rows))
        self._make_views(sync, table, is_wider=is_wider)
        self._is_free(changes, sync, table)
        make_changes_view(self._session, changes, cuts=parent, key=key, sync=sync, rows_table=rows.name)

    def _store(self, cut: StagedCut, table: StagedTable, version: int, definition: Table | None) -> None:
        """Write what differs from the cut before. What the cut shows then must be what was compared."""
        staged = self._staged(table.staged_as)
        self._require_own_columns_free(table, staged)
        stored = store_version(
            self._session,
            self._destination,
            staged,
            table.table,
            sync=cut.sync,
            day=cut.business_date,
            version=version,
        )
        require_as_compared(
            self._session,
            stored.shown,
            rows=table.rows,
            digest=table.digest,
            definition=definition,
            position=cut.position,
        )
        self._show_versions(cut.sync, table.table, stored.rows, stored.key, is_wider=stored.is_wider)

    def _make_views(self, sync: str, table: str, *, is_wider: bool) -> None:
        """Of those that count, and of the newest proven one."""
        for view, query in zip(views_of(self._destination, table)[:2], self._queries(sync, table), strict=True):
            if self._is_free(view, sync, table) or is_wider:
                self._create_view(view, query)

    def _require_own_columns_free(self, table: StagedTable, staged: Relation) -> None:
        clash = set(OWN_COLUMNS) & stored_columns(self._session, staged).keys()
        if clash:
            raise SchemaConflict(
                f"table {table.table} has a column {min(clash)}, which a cut needs for itself",
                hint="rename the column at the source, or leave the table out of the sync",
                table=table.table,
            )

    def _fit(self, partition: Relation, parent: Relation, business_date: date) -> bool:
        try:
            return fit_columns(self._session, cut=partition, cuts=parent)
        except ColumnsMisfit as exc:
            aside = aside_of(self._destination, parent.name, business_date, what="TABLE")
            raise CutMisfit(parent.name, str(exc), aside=aside) from exc

    def _queries(self, sync: str, table: str) -> tuple[str, str]:
        """Of the two views."""
        parent = self._parent(table)
        of_table = f"sync = {text_literal(sync)} AND table_name = {text_literal(table)}"
        current = (
            f"SELECT c.* FROM {parent} AS c JOIN seamline.cut_pointer AS p"
            f" ON p.{of_table.replace(' AND ', ' AND p.')}"
            f" AND p.business_date = c.{DATE_COLUMN} AND p.version = c.{VERSION_COLUMN}"
        )
        # Two scalar subqueries, so that the planner prunes to one partition when the statement starts.
        newest = (
            f"FROM seamline.cut_table WHERE {of_table} AND is_proven ORDER BY business_date DESC, version DESC LIMIT 1"
        )
        proven = (
            f"SELECT c.* FROM {parent} AS c WHERE c.{DATE_COLUMN} = (SELECT business_date {newest})"
            f" AND c.{VERSION_COLUMN} = (SELECT version {newest})"
        )
        return current, proven

    def _is_free(self, view: Relation, sync: str, table: str) -> bool:
        """Whether the name is free. SchemaConflict where it is taken by something else than this view."""
        row = self._session.execute(
            "SELECT c.relkind::text, CASE WHEN c.relkind = 'v' THEN coalesce(pg_get_viewdef(c.oid), '') ELSE '' END"
            " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
            (view.schema, view.name),
        ).fetchone()
        kind, definition = row or ("", "")
        for what, cure in in_place_of_view(view, table, kind=kind, definition=definition, sync=sync):
            raise SchemaConflict(what, hint=f"nothing was published. {cure}. Then repeat the publish", table=table)
        return row is None

    def _create_view(self, view: Relation, query: str) -> None:
        """One that is there is replaced: that waits for its readers."""
        row = self._session.execute(
            "SELECT reloptions FROM pg_class WHERE oid = to_regclass(%s)", (str(view),)
        ).fetchone()
        # Without them a view would lose what its owner has set, as security_invoker.
        kept = f" WITH ({', '.join(row[0])})" if row and row[0] else ""
        self._session.execute(f"CREATE OR REPLACE VIEW {view}{kept} AS {query}".encode())

    # ---- between: readers that do not know the partitions yet --------------------------------------------------------

    def _wait_for_readers_of_old_plans(self, tables: Sequence[str]) -> None:
        """Return when every transaction that holds a lock on a cut table now has ended.

        Who locks a table later reads its partitions again; who holds a lock from before may have planned without them.
        """
        parents = [f"{self._destination.cut_namespace}.{table}" for table in tables]
        deadline = time.monotonic() + self._reader_patience_s
        waiting_for = self._lockers(parents)
        while waiting_for:
            if time.monotonic() >= deadline:
                pids = ", ".join(str(pid) for pid in sorted(set(waiting_for.values())))
                raise TransientError(
                    f"transactions that read cuts before this one are still open after {self._reader_patience_s:g} s:"
                    f" process {pids}",
                    hint="end these sessions' transactions; the publish goes on where it stopped when it is repeated",
                )
            time.sleep(_LOOK_EVERY_S)
            still = self._lockers(parents)
            waiting_for = {transaction: pid for transaction, pid in waiting_for.items() if transaction in still}

    def _lockers(self, parents: Sequence[str]) -> dict[str, int]:
        rows = self._session.execute(
            "SELECT l.virtualtransaction, l.pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE l.locktype = 'relation' AND l.pid <> pg_backend_pid()"
            " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND n.nspname || '.' || c.relname = ANY(%s)",
            (list(parents),),
        ).fetchall()
        return {str(transaction): int(pid) for transaction, pid in rows}

    # ---- second commit: pointers -----------------------------------------------------------------------------------

    def _point_to(self, cut: StagedCut, version: int, signed_by: str) -> bool:
        """False when somebody else repeated this run and was faster."""
        marked = self._session.execute(
            "UPDATE seamline.cut SET published_at = clock_timestamp(), signed_by = %s"
            " WHERE run_id = %s AND published_at IS NULL AND expired_at IS NULL",
            (signed_by, cut.run_id),
        ).rowcount
        if not marked:
            # Somebody else repeated this run and was faster; or, while readers were waited for, its partitions went.
            self._attached(cut)
            return False
        for table in sorted(cut.tables, key=lambda staged: staged.table):
            self._write_table(cut, table, version, signed_by)
        return True

    def _sign(self, cut: StagedCut, version: int, signed_by: str) -> None:
        """What stands published is proven by whoever signs for it."""
        with self._locked():
            self._session.execute("UPDATE seamline.cut SET signed_by = %s WHERE run_id = %s", (signed_by, cut.run_id))
            self._session.execute(
                "UPDATE seamline.cut_table SET is_proven = true"
                " WHERE sync = %s AND business_date = %s AND version = %s",
                (cut.sync, cut.business_date, version),
            )

    def _write_table(self, cut: StagedCut, table: StagedTable, version: int, signed_by: str) -> None:
        self._session.execute(
            "INSERT INTO seamline.cut_table VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                cut.sync,
                table.table,
                cut.business_date,
                version,
                partition_name(table.table, cut.business_date, version),
                table.mode.value,
                table.rows,
                table.late_rows,
                table.gone_rows,
                table.verdict.value,
                # Of the whole cut: beside a table that is not clean the others stand for a date that nobody has signed.
                cut.verdict is Verdict.MATCH or bool(signed_by),
            ),
        )
        # A run that is repeated after a later one keeps its version and does not turn the pointer back.
        self._session.execute(
            "INSERT INTO seamline.cut_pointer AS p VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (sync, table_name, business_date)"
            " DO UPDATE SET version = greatest(p.version, excluded.version)",
            (cut.sync, table.table, cut.business_date, version),
        )

    # ---- small reads -----------------------------------------------------------------------------------------------

    def _is_versioned(self, table: StagedTable) -> bool:
        return table.table in self._destination.versioned

    def _prepare(self, table: StagedTable, definition: Table | None, position: Position) -> None:
        """What takes long and needs nobody's turn. Rows that are to be stored as versions are compared once stored."""
        place = self._staged(table.staged_as)
        if not self._is_versioned(table):
            require_as_compared(
                self._session, place, rows=table.rows, digest=table.digest, definition=definition, position=position
            )
            # An unlogged partition would be empty after a crash of the server.
            if self._persistence(place) == "u":
                self._session.execute(f"ALTER TABLE {place} SET LOGGED".encode())
        # Fresh statistics for the planner.
        self._session.execute(f"ANALYZE {place}".encode())

    def _current_cut(self, sync: str, table: str, business_date: date) -> Relation | None:
        """The partition that counts for a date."""
        try:
            row = self._session.execute(
                "SELECT t.partition_name FROM seamline.cut_pointer JOIN seamline.cut_table AS t"
                " USING (sync, table_name, business_date, version)"
                " WHERE sync = %s AND table_name = %s AND business_date = %s",
                (sync, table, business_date),
            ).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return None
        return None if row is None else Relation(self._destination.cut_namespace, str(row[0]))

    def _staged(self, staged_as: str) -> Relation:
        """The relation of `staged_as`. Raises Refused when it is not there."""
        place = Relation(self._destination.stage_namespace, staged_as)
        if self._kind(place) is None and "." in staged_as:
            schema, _, name = staged_as.partition(".")
            place = Relation(schema, name)
        if self._kind(place) is None:
            raise Refused(
                f"the staged table {place.schema}.{place.name} is not there any more",
                hint="run the nightly's job again",
            )
        return place

    def _kind(self, place: Relation) -> str | None:
        return self._of_class(place, "relkind")

    def _persistence(self, place: Relation) -> str | None:
        return self._of_class(place, "relpersistence")

    def _of_class(self, place: Relation, what: str) -> str | None:
        row = self._session.execute(
            f"SELECT c.{what}::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s",
            (place.schema, place.name),
        ).fetchone()
        return None if row is None else str(row[0])

    def _count(self, query: str) -> int:
        row = self._session.execute(f"SELECT count(*) FROM ({query}) AS rows".encode()).fetchone()
        return int(row[0]) if row else 0

    def _parent(self, table: str) -> Relation:
        return Relation(self._destination.cut_namespace, table)


def open_cuts(destination: DestinationPlan) -> PostgresCuts:
    """The cuts of a destination, in a session of their own."""
    return PostgresCuts(destination, open_session(resolve(destination.connection), application_name="seamline cuts"))


def _date(day: date) -> str:
    return f"DATE '{day.isoformat()}'"
