"""What MariaDB or MySQL knows of a load by splits: a record of each, in the transaction of its rows (ADR 87)."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace

from seamline.adapters.connections import Connection, resolve
from seamline.databases.mysql.canonical import quoted, text_literal
from seamline.databases.mysql.read import where_clause
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.errors import InvariantViolated
from seamline.domain.load_splits import DoneSplit, Split, SplitRead
from seamline.kinds.bulk import LoadProgress, PostgresCopy, SplitTable, StagedPlace, StagedSplits, TableRows
from seamline.kinds.cut_rules import does_not_fit
from seamline.kinds.split_rules import LoadTakenOver, of_one_attempt, require_still_at, staged_meanwhile
from seamline.plan.model import DestinationPlan
from seamline.sinks.relational import load_lease
from seamline.sinks.relational.carry_on import brought
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.places import relation
from seamline.sinks.relational.session import Session, close, execute, open_session, query, translated
from seamline.sinks.relational.staging import (
    ABANDONED_AFTER_S,
    StagingArea,
    load,
    load_batch,
    mark_loading,
    staged_label,
)
from seamline.values.changes import ChangeBatch

_NAME = "varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
_TEXT = "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
# A staged name is in letters of the source.
_STAGED = "varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_TABLES = (
    f"staged_load (staged_as {_STAGED}, run_id {_TEXT}, table_name {_TEXT}, made_as {_NAME}, edges {_TEXT},"
    " PRIMARY KEY (staged_as)) ENGINE=InnoDB",
    f"staged_split (staged_as {_STAGED}, number int NOT NULL, read_id {_NAME}, proof {_TEXT},"
    " row_count bigint NOT NULL, PRIMARY KEY (staged_as, number)) ENGINE=InnoDB",
    f"staged_read (read_id {_NAME}, run_id {_TEXT}, document {_TEXT}, PRIMARY KEY (read_id)) ENGINE=InnoDB",
    load_lease.TABLE,
)


class SplitStagingArea(StagingArea):
    """`kinds.bulk.SplitArea`."""

    def __init__(
        self, connection: Connection, destination: DestinationPlan, dialect: Dialect, *, run_id: str, attempt: str
    ) -> None:
        super().__init__(connection, destination, dialect, run_id=run_id)
        self._lease = attempt

    def held(self) -> AbstractContextManager[None]:
        session = open_session(self._connection, self._dialect)
        return load_lease.held(session, self._database, self._run_id, self._lease)

    def drop(self) -> None:
        with suppress(LoadTakenOver), self.held():
            super().drop()

    def begun(self, tables: Sequence[Table]) -> Mapping[str, StagedSplits]:
        by_name = {table.name: table for table in tables}
        with self._opened("look for what an earlier attempt has staged") as session:
            self._create_database(session)
            for table in _TABLES:
                execute(session, f"CREATE TABLE IF NOT EXISTS {self._at}.{table}")
            # First: what is found from here on no earlier attempt changes any more.
            load_lease.take(session, self._database, self._run_id, self._lease)
            load_lease.forget_old(session, self._database, older_than_s=ABANDONED_AFTER_S)
            self._tidy(session)
            rows = query(
                session,
                f"SELECT staged_as, table_name, made_as, edges FROM {self._at}.staged_load WHERE run_id = %s"
                " ORDER BY staged_as",
                (self._run_id,),
            )
            mine = of_one_attempt({name: staged_label(name) for name, *_ in rows})
            return {
                table: StagedSplits(
                    StagedPlace(by_name[table], self._database, name),
                    made,
                    tuple(json.loads(edges)),
                    self._done(session, name),
                )
                for name, table, made, edges in rows
                if table in by_name and name in mine
            }

    def _tidy(self, session: Session) -> None:
        """Without the records of tables that are gone: published, dropped, or of a run that nobody continues."""
        # Looked for without a lock: another load's split, open for as long as its rows take, is not waited for.
        # What is written later is looked at first, so that a load that begins meanwhile loses nothing.
        splits = query(session, f"SELECT staged_as, number FROM {self._at}.staged_split")
        reads = query(session, f"SELECT read_id, run_id FROM {self._at}.staged_read")
        loads = query(session, f"SELECT staged_as, run_id FROM {self._at}.staged_load")
        there = f"SELECT table_name FROM information_schema.tables WHERE table_schema = {text_literal(self._database)}"
        names = {str(name) for (name,) in query(session, there)}
        kept = {name: run for name, run in loads if name in names}
        runs = set(kept.values())
        gone = [("staged_load WHERE staged_as = %s", (name,)) for name, _ in loads if name not in kept]
        gone += [("staged_split WHERE staged_as = %s AND number = %s", one) for one in splits if one[0] not in kept]
        gone += [("staged_read WHERE read_id = %s", (read,)) for read, run in reads if run not in runs]
        for rows, key in gone:
            execute(session, f"DELETE FROM {self._at}.{rows}", key)

    def _done(self, session: Session, name: str) -> tuple[DoneSplit, ...]:
        rows = query(
            session,
            f"SELECT number, read_id, proof, row_count FROM {self._at}.staged_split WHERE staged_as = %s"
            " ORDER BY number",
            (name,),
        )
        return tuple(DoneSplit(*row) for row in rows)

    def keep(self, kept: Sequence[StagedSplits]) -> None:
        for one in kept:
            # By its name a table belongs to an attempt: this one goes on with that of the earlier one.
            self._attempt = staged_label(one.place.name)["attempt"]
        self._mine.update(one.place.name for one in kept)

    def create_splits(self, tables: Sequence[SplitTable]) -> Mapping[str, StagedPlace]:
        with self.held():
            places = self._create([one.table for one in tables])
            with self._opened("record staging tables") as session:
                for one in tables:
                    name = places[one.table.name].name
                    execute(
                        session,
                        f"INSERT INTO {self._at}.staged_load VALUES (%s, %s, %s, %s, %s)",
                        (name, self._run_id, one.table.name, one.made_as, json.dumps(one.edges)),
                    )
        return places

    def progress(self) -> LoadProgress:
        found = super().progress()
        names = ", ".join(map(text_literal, self._mine)) or "NULL"
        with self._opened("look at staged splits") as session:
            statement = f"SELECT COALESCE(SUM(row_count), 0) FROM {self._at}.staged_split WHERE staged_as IN ({names})"
            ((rows,),) = query(session, statement)
        return replace(found, rows=int(rows))

    def reads(self) -> Mapping[str, str]:
        with self._opened("look for reads of earlier attempts") as session:
            statement = f"SELECT read_id, document FROM {self._at}.staged_read WHERE run_id = %s"
            return {str(read): str(document) for read, document in query(session, statement, (self._run_id,))}

    def note_read(self, read: str, document: str) -> None:
        with self._opened("record a read") as session:
            execute(
                session,
                f"REPLACE INTO {self._at}.staged_read VALUES (%s, %s, %s)",
                (read, self._run_id, document),
            )

    def forget(self) -> bool:
        try:
            with self.held(), self._opened("forget what was staged") as session:
                execute(session, f"DELETE FROM {self._at}.staged_load WHERE run_id = %s", (self._run_id,))
        except LoadTakenOver:
            return False
        return True

    @property
    def _at(self) -> str:
        return quoted(self._database)

    @contextmanager
    def _opened(self, doing: str) -> Iterator[Session]:
        session = open_session(self._connection, self._dialect)
        try:
            with translated(doing):
                yield session
        finally:
            close(session)


def open_split_area(destination: DestinationPlan, dialect: Dialect, *, run_id: str, attempt: str) -> SplitStagingArea:
    return SplitStagingArea(resolve(destination.connection), destination, dialect, run_id=run_id, attempt=attempt)


def load_split(
    destination: DestinationPlan,
    place: StagedPlace,
    rows: TableRows,
    split: Split,
    dialect: Dialect,
    *,
    proof: Callable[[], str],
) -> int:
    """`kinds.sink.ResumesLoads.load_split`. A table of one split is written by several sessions; its record follows its
    rows, and a table without a record is emptied first."""
    if split.of == 1:
        count = load(destination, place, rows, dialect)
        with _transaction(destination, dialect, "record a staged table", place) as session:
            _record(session, place, split)
            _complete(session, place, split, proof(), count)
            load_lease.require_held_for(session, place, split.attempt)
        return count
    if isinstance(rows, PostgresCopy):
        raise InvariantViolated(f"{dialect.server} takes no binary COPY of PostgreSQL", table=place.table.name)
    with _transaction(destination, dialect, "write staged rows", place) as session:
        mark_loading(session, place, split.number)
        # First: a worker of an earlier attempt that still writes this split is waited for, then refused or obeyed.
        _record(session, place, split)
        count = sum(load_batch(session, place, batch) for batch in rows.batches)
        _complete(session, place, split, proof(), count)
        load_lease.require_held_for(session, place, split.attempt)
    return count


def finish_splits(destination: DestinationPlan, place: StagedPlace, dialect: Dialect) -> int:
    """`kinds.sink.ResumesLoads.finish_splits`. Its key a table has from the start."""
    with _transaction(destination, dialect, "count staged rows", place) as session:
        ((count,),) = query(session, f"SELECT COUNT(*) FROM {relation(place.schema, place.name)}")
    return int(count)


def bring_forward(
    destination: DestinationPlan,
    place: StagedPlace,
    changes: ChangeBatch | None,
    dialect: Dialect,
    *,
    dates: Segment | None,
    since: SplitRead,
    to: SplitRead,
    attempt: str,
) -> None:
    """`kinds.sink.ResumesLoads.bring_forward`."""
    table = place.table
    with _session(destination, dialect, "bring staged splits forward", place) as session:
        happen = None
        if changes is not None and not changes.is_empty:
            happen = brought(session, place, changes, dialect)
        execute(session, "START TRANSACTION")
        # First: an attempt that was thought dead is waited for, and then has moved them.
        moved = execute(
            session,
            f"UPDATE {quoted(place.schema)}.staged_split SET read_id = %s, proof = %s WHERE staged_as = %s"
            " AND read_id = %s",
            (to.read, to.proof, place.name, since.read),
        )
        require_still_at(since, table.name, moved=moved)
        findings = happen() if happen else []
        if findings and dates is None:
            rows = f"the splits of {table.name} that were read at {since.position}"
            raise does_not_fit(rows, table.name, findings)
        if dates is not None:
            wanted = where_clause(table, dates).removeprefix(" WHERE ")
            execute(session, f"DELETE FROM {relation(place.schema, place.name)} WHERE ({wanted}) IS NOT TRUE")
        load_lease.require_held_for(session, place, attempt)
        execute(session, "COMMIT")


def _record(session: Session, place: StagedPlace, split: Split) -> None:
    made = execute(
        session,
        f"INSERT INTO {quoted(place.schema)}.staged_split VALUES (%s, %s, %s, '', 0)"
        " ON DUPLICATE KEY UPDATE number = number",
        (place.name, split.number, split.read),
    )
    if made != 1:
        raise staged_meanwhile(place.table.name, split)


def _complete(session: Session, place: StagedPlace, split: Split, proof: str, rows: int) -> None:
    execute(
        session,
        f"UPDATE {quoted(place.schema)}.staged_split SET proof = %s, row_count = %s WHERE staged_as = %s"
        " AND number = %s",
        (proof, rows, place.name, split.number),
    )


@contextmanager
def _session(destination: DestinationPlan, dialect: Dialect, doing: str, place: StagedPlace) -> Iterator[Session]:
    """Where it is left by an error, what was not committed goes with it."""
    session = open_session(resolve(destination.connection), dialect)
    try:
        with translated(doing, table=place.table.name):
            yield session
    finally:
        close(session)


@contextmanager
def _transaction(destination: DestinationPlan, dialect: Dialect, doing: str, place: StagedPlace) -> Iterator[Session]:
    with _session(destination, dialect, doing, place) as session:
        execute(session, "START TRANSACTION")
        yield session
        execute(session, "COMMIT")
