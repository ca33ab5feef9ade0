"""What PostgreSQL knows of a load by splits: a record of each, in the transaction of its rows (ADR 87)."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from seamline.adapters.connections import Connection, resolve
from seamline.databases.postgres.canonical import date_conditions, quoted
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.load_splits import DoneSplit, Split, SplitRead
from seamline.kinds.bulk import LoadProgress, SplitTable, StagedPlace, StagedSplits, TableRows
from seamline.kinds.cut_rules import does_not_fit
from seamline.kinds.split_rules import LoadTakenOver, of_one_attempt, require_still_at, staged_meanwhile
from seamline.plan.model import DestinationPlan
from seamline.sinks.postgres import load_lease
from seamline.sinks.postgres.carry_on import applied
from seamline.sinks.postgres.staging import ABANDONED_AFTER_S, StagingArea, index_rows, load, relation, staged_label
from seamline.values.changes import ChangeBatch

_STALLS_MS = 600_000
# Two sessions that create the same table at once do not see each other: the second one fails.
_CREATE_LOCK = 7_305_805_512_440_061

_TABLES = (
    "CREATE TABLE IF NOT EXISTS {schema}.staged_load (staged_as text PRIMARY KEY, run_id text NOT NULL,"
    " table_name text NOT NULL, made_as text NOT NULL, edges text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS {schema}.staged_split (staged_as text NOT NULL, number int NOT NULL,"
    " read_id text NOT NULL, proof text NOT NULL, row_count bigint NOT NULL, PRIMARY KEY (staged_as, number))",
    "CREATE TABLE IF NOT EXISTS {schema}.staged_read (read_id text PRIMARY KEY, run_id text NOT NULL,"
    " document text NOT NULL)",
    load_lease.TABLE,
)
# Records of tables that are gone: published, dropped, or of a run that nobody continues.
_CLEANED = (
    "DELETE FROM {schema}.staged_load AS l WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = l.staged_as)",
    "DELETE FROM {schema}.staged_split AS s"
    " WHERE NOT EXISTS (SELECT FROM {schema}.staged_load l WHERE l.staged_as = s.staged_as)",
    "DELETE FROM {schema}.staged_read AS r"
    " WHERE NOT EXISTS (SELECT FROM {schema}.staged_load l WHERE l.run_id = r.run_id)",
)


class SplitStagingArea(StagingArea):
    """`kinds.bulk.SplitArea`."""

    def __init__(self, connection: Connection, destination: DestinationPlan, *, run_id: str, attempt: str) -> None:
        super().__init__(connection, destination, run_id=run_id)
        self._lease = attempt

    def held(self) -> AbstractContextManager[None]:
        return load_lease.held(self._session(), self._schema, self._run_id, self._lease)

    def drop(self) -> None:
        with suppress(LoadTakenOver), self.held():
            super().drop()

    def begun(self, tables: Sequence[Table]) -> Mapping[str, StagedSplits]:
        by_name = {table.name: table for table in tables}
        with closing(self._session()) as session, translated("look for what an earlier attempt has staged"):
            self._create_tables(session)
            # First: what is found from here on no earlier attempt changes any more.
            load_lease.take(session, self._schema, self._run_id, self._lease)
            load_lease.forget_old(session, self._schema, older_than_s=ABANDONED_AFTER_S)
            for statement in _CLEANED:
                given = (self._schema,) if "%s" in statement else None
                session.execute(statement.format(schema=quoted(self._schema)).encode(), given)
            rows = session.execute(
                f"SELECT staged_as, table_name, made_as, edges FROM {quoted(self._schema)}.staged_load"
                " WHERE run_id = %s ORDER BY staged_as".encode(),
                (self._run_id,),
            ).fetchall()
            mine = of_one_attempt({name: staged_label(name) for name, *_ in rows})
            return {
                table: StagedSplits(
                    StagedPlace(by_name[table], self._schema, name),
                    made,
                    tuple(json.loads(edges)),
                    self._done(session, name),
                )
                for name, table, made, edges in rows
                if table in by_name and name in mine
            }

    def _create_tables(self, session: Session) -> None:
        with session.transaction():
            session.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATE_LOCK,))
            session.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(self._schema)}".encode())
            for statement in _TABLES:
                session.execute(statement.format(schema=quoted(self._schema)).encode())

    def _done(self, session: Session, name: str) -> tuple[DoneSplit, ...]:
        rows = session.execute(
            f"SELECT number, read_id, proof, row_count FROM {quoted(self._schema)}.staged_split"
            " WHERE staged_as = %s ORDER BY number".encode(),
            (name,),
        ).fetchall()
        return tuple(DoneSplit(*row) for row in rows)

    def keep(self, kept: Sequence[StagedSplits]) -> None:
        for one in kept:
            # By its name a table belongs to an attempt: this one goes on with that of the earlier one.
            self._attempt = staged_label(one.place.name)["attempt"]
        self._mine.update(one.place.name for one in kept)

    def create_splits(self, tables: Sequence[SplitTable]) -> Mapping[str, StagedPlace]:
        with self.held():
            places = self._create([one.table for one in tables])
            self._record_loads(tables, places)
        return places

    def _record_loads(self, tables: Sequence[SplitTable], places: Mapping[str, StagedPlace]) -> None:
        rows = [
            (places[one.table.name].name, self._run_id, one.table.name, one.made_as, json.dumps(one.edges))
            for one in tables
        ]
        with (
            closing(self._session()) as session,
            translated("record staging tables"),
            session.transaction(),
            session.cursor() as cursor,
        ):
            statement = f"INSERT INTO {quoted(self._schema)}.staged_load VALUES (%s, %s, %s, %s, %s)"
            cursor.executemany(statement.encode(), rows)

    def progress(self) -> LoadProgress:
        found = super().progress()
        with closing(self._session()) as session, translated("look at staged splits"):
            row = session.execute(
                f"SELECT coalesce(sum(row_count), 0)::bigint FROM {quoted(self._schema)}.staged_split"
                " WHERE staged_as = ANY(%s)".encode(),
                (list(self._mine),),
            ).fetchone()
        return replace(found, rows=int(row[0]) if row else 0)

    def reads(self) -> Mapping[str, str]:
        with closing(self._session()) as session, translated("look for reads of earlier attempts"):
            found = session.execute(
                f"SELECT read_id, document FROM {quoted(self._schema)}.staged_read WHERE run_id = %s".encode(),
                (self._run_id,),
            ).fetchall()
        return dict(found)

    def note_read(self, read: str, document: str) -> None:
        with closing(self._session()) as session, translated("record a read"):
            session.execute(
                f"INSERT INTO {quoted(self._schema)}.staged_read VALUES (%s, %s, %s)"
                " ON CONFLICT (read_id) DO UPDATE SET document = excluded.document".encode(),
                (read, self._run_id, document),
            )

    def forget(self) -> bool:
        try:
            with self.held(), closing(self._session()) as session, translated("forget what was staged"):
                session.execute(
                    f"DELETE FROM {quoted(self._schema)}.staged_load WHERE run_id = %s".encode(), (self._run_id,)
                )
        except LoadTakenOver:
            return False
        return True


def open_split_area(destination: DestinationPlan, *, run_id: str, attempt: str) -> SplitStagingArea:
    return SplitStagingArea(resolve(destination.connection), destination, run_id=run_id, attempt=attempt)


@dataclass(frozen=True, slots=True)
class SplitRecord:
    """`staging.Beside`: the record of a split, written with its rows."""

    place: StagedPlace
    split: Split
    proof: Callable[[], str]

    @property
    def is_whole(self) -> bool:
        return self.split.of == 1

    def begin(self, cursor: "psycopg.Cursor[Any]") -> None:
        """First: a worker of an earlier attempt that still writes this split is waited for, and then refused or
        obeyed."""
        cursor.execute(
            f"INSERT INTO {quoted(self.place.schema)}.staged_split VALUES (%s, %s, %s, '', 0)"
            " ON CONFLICT DO NOTHING".encode(),
            (self.place.name, self.split.number, self.split.read),
        )
        if cursor.rowcount != 1:
            raise staged_meanwhile(self.place.table.name, self.split)

    def end(self, cursor: "psycopg.Cursor[Any]", rows: int) -> None:
        cursor.execute(
            f"UPDATE {quoted(self.place.schema)}.staged_split SET proof = %s, row_count = %s"
            " WHERE staged_as = %s AND number = %s".encode(),
            (self.proof(), rows, self.place.name, self.split.number),
        )
        load_lease.require_held_for(cursor.connection, self.place, self.split.attempt)


def load_split(
    destination: DestinationPlan, place: StagedPlace, rows: TableRows, split: Split, *, proof: Callable[[], str]
) -> int:
    """`kinds.sink.ResumesLoads.load_split`."""
    count = load(destination, place, rows, beside=SplitRecord(place, split, proof))
    with (
        closing(_opened(destination)) as session,
        translated("build the key of a staging table", table=place.table.name),
    ):
        row = session.execute(
            f"SELECT count(*) FROM {quoted(place.schema)}.staged_split WHERE staged_as = %s".encode(), (place.name,)
        ).fetchone()
        if row is not None and row[0] == split.of:
            _index_once(session, place)
    return count


def finish_splits(destination: DestinationPlan, place: StagedPlace) -> int:
    """`kinds.sink.ResumesLoads.finish_splits`."""
    with (
        closing(_opened(destination)) as session,
        translated("build the key of a staging table", table=place.table.name),
    ):
        _index_once(session, place)
        row = session.execute(f"SELECT count(*) FROM {relation(place)}".encode()).fetchone()
    return int(row[0]) if row else 0


def bring_forward(
    destination: DestinationPlan,
    place: StagedPlace,
    changes: ChangeBatch | None,
    *,
    dates: Segment | None,
    since: SplitRead,
    to: SplitRead,
    attempt: str,
) -> None:
    """`kinds.sink.ResumesLoads.bring_forward`."""
    table = place.table
    # By the writer, who makes temporary tables: the publisher has no right to.
    by_writer = open_session(resolve(destination.writer), application_name="seamline staging", stalls_ms=_STALLS_MS)
    with (
        closing(by_writer) as session,
        translated("bring staged splits forward", table=table.name),
        session.transaction(),
    ):
        # First: an attempt that was thought dead is waited for, and then has moved them.
        moved = session.execute(
            f"UPDATE {quoted(place.schema)}.staged_split SET read_id = %s, proof = %s"
            " WHERE staged_as = %s AND read_id = %s".encode(),
            (to.read, to.proof, place.name, since.read),
        )
        require_still_at(since, table.name, moved=moved.rowcount)
        if changes is not None and not changes.is_empty:
            findings = applied(session, place, changes)
            if findings and dates is None:
                raise does_not_fit(
                    f"the splits of {table.name} that were read at {since.position}", table.name, findings
                )
        if dates is not None:
            wanted = " AND ".join(date_conditions(quoted(table.column(dates.date_column).name), dates))
            session.execute(f"DELETE FROM {relation(place)} WHERE ({wanted}) IS NOT TRUE".encode())
        load_lease.require_held_for(session, place, attempt)


def _index_once(session: Session, place: StagedPlace) -> None:
    with session.transaction():
        # Tasks may end together: who comes second finds the key.
        session.execute("SET LOCAL lock_timeout = '30min'")
        session.execute(f"LOCK TABLE {relation(place)} IN SHARE ROW EXCLUSIVE MODE".encode())
        # The only index is its key, or without a key that of the rows' identity.
        row = session.execute(
            "SELECT count(*) FROM pg_catalog.pg_index WHERE indrelid = %s::regclass", (relation(place),)
        ).fetchone()
        if row is None or not row[0]:
            index_rows(session, place.table, relation(place))


def _opened(destination: DestinationPlan) -> Session:
    return open_session(resolve(destination.connection), application_name="seamline staging", stalls_ms=_STALLS_MS)
