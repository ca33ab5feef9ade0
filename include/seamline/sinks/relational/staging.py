"""Staging tables: whole tables, written by LOAD DATA, under names that no other attempt has.

Nobody but us sees a staged table, so each batch of rows is a transaction of its own: one over all of them would have to
be undone as a whole. A retried attempt writes into tables of its own; a staged table's name holds its run and the time
it was made, so what dead attempts left is found and dropped.
"""

import hashlib
import re
import secrets
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext

import pyarrow as pa

from seamline.adapters.connections import Connection, resolve
from seamline.databases.mysql.canonical import quoted, text_literal
from seamline.domain.catalogue import Table
from seamline.domain.errors import InvariantViolated, TransientError
from seamline.kinds.bulk import LoadProgress, PostgresCopy, StagedPlace, TableRows
from seamline.plan.model import DestinationPlan
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.encode import document_of, escaped, hashes_of, joined, lines_of
from seamline.sinks.relational.ownership import tables_in
from seamline.sinks.relational.places import relation
from seamline.sinks.relational.session import (
    Session,
    close,
    execute,
    load_rows,
    lock_name,
    open_session,
    query,
    translated,
)
from seamline.sinks.relational.statements import copies_index, create_table, load_table, number_copies
from seamline.values.arrow import BYTES

_READABLE_MAX = 30
# Other runs' leftovers are dropped when they are older: a staged cut may wait days for its signature.
ABANDONED_AFTER_S = 14 * 86_400
# <readable part of the table's name>_<run>_<second it was made, hex><attempt>
_STAGED_NAME = re.compile(r"^.*_(?P<run>[0-9a-f]{8})_(?P<made>[0-9a-f]{8})(?P<attempt>[0-9a-f]{8})$", re.DOTALL)
# Between two batches a load waits for its source; a table that was written so long ago is one whose load stands still.
_STILL_S = 30
# Sessions that write one table. The server takes in a batch by one core, while the next ones are read and encoded.
_WRITERS = 2


class StagingArea:
    """The staging tables of one attempt of one run in one destination."""

    def __init__(self, connection: Connection, destination: DestinationPlan, dialect: Dialect, *, run_id: str) -> None:
        self._connection = connection
        self._database = destination.stage_namespace
        self._dialect = dialect
        self._run = hashlib.sha256(run_id.encode()).hexdigest()[:8]
        self._run_id = run_id
        self._attempt = secrets.token_hex(4)
        # Tables of this attempt, and those of an earlier one that it goes on with.
        self._mine: set[str] = set()

    def create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        """An empty staging table for each, by table name, with its key."""
        with self.held():
            return self._create(tables)

    def held(self) -> AbstractContextManager[None]:
        """No other attempt goes on with tables of this one."""
        return nullcontext()

    def _create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        session = open_session(self._connection, self._dialect)
        try:
            with translated("make staging tables"):
                self._create_database(session)
                self._drop_leftovers(session)
                made = f"{_now(session):08x}"
                places = {}
                for table in tables:
                    place = StagedPlace(table, self._database, self._name_of(table, made))
                    with translated("make a staging table", table=table.name):
                        execute(session, create_table(relation(place.schema, place.name), table, self._dialect))
                    places[table.name] = place
                    self._mine.add(place.name)
        finally:
            close(session)
        return places

    def _create_database(self, session: Session) -> None:
        execute(
            session,
            f"CREATE DATABASE IF NOT EXISTS {quoted(self._database)} CHARACTER SET utf8mb4"
            f" COLLATE {self._dialect.collation}",
        )

    def progress(self) -> LoadProgress:
        """What has come so far of the tables of this attempt."""
        session = open_session(self._connection, self._dialect)
        try:
            with translated("look at staging tables"):
                mine = [
                    name for name, label in _staged_in(session, self._database) if label["attempt"] == self._attempt
                ]
                owners = {name: _owners(session, self._database, name) for name in mine}
                size, written = _written(session, self._database, mine)
                working = {number for (number,) in query(session, _WORKING)}
        finally:
            close(session)
        is_open = tuple(name for name in mine if owners[name])
        is_working = written or any(owners[name] & working for name in is_open)
        return LoadProgress(size, is_open, is_working=bool(is_open) and is_working)

    def drop(self) -> None:
        """Drop the tables of this attempt."""
        session = open_session(self._connection, self._dialect)
        try:
            with translated("drop staging tables"):
                for name, label in _staged_in(session, self._database):
                    if label["attempt"] == self._attempt:
                        _drop(session, self._database, name)
        finally:
            close(session)

    def _drop_leftovers(self, session: Session) -> None:
        """Drop what dead attempts left: of this run all but this attempt's tables, of other runs what is old."""
        for name, label in _staged_in(session, self._database):
            if label["run"] == self._run and name not in self._mine:
                _drop(session, self._database, name)
        drop_abandoned(session, self._database)

    def _name_of(self, table: Table, made: str) -> str:
        readable = table.name.encode()[:_READABLE_MAX].decode(errors="ignore")
        mark = hashlib.sha256(f"{self._attempt}\0{table.name}".encode()).hexdigest()[:4]
        # The mark keeps two tables apart whose names begin alike. 61 bytes at most.
        return f"{readable}_{mark}_{self._run}_{made}{self._attempt}"


# Waiting for rows, a session does not work.
_WORKING = (
    "SELECT id FROM information_schema.processlist WHERE command <> 'Sleep'"
    " AND COALESCE(state, '') <> 'Reading from net'"
)


def open_area(destination: DestinationPlan, dialect: Dialect, *, run_id: str) -> StagingArea:
    return StagingArea(resolve(destination.connection), destination, dialect, run_id=run_id)


def load(destination: DestinationPlan, place: StagedPlace, rows: TableRows, dialect: Dialect) -> int:
    """`kinds.sink.SinkKind.load`."""
    if isinstance(rows, PostgresCopy):
        raise InvariantViolated(f"{dialect.server} takes no binary COPY of PostgreSQL", table=place.table.name)
    with ExitStack() as opened:
        sessions = []
        for number in range(_WRITERS):
            session = open_session(resolve(destination.connection), dialect)
            opened.callback(close, session)
            sessions.append(session)
            mark_loading(session, place, number)
        with translated("empty a staging table", table=place.table.name):
            execute(sessions[0], f"TRUNCATE TABLE {relation(place.schema, place.name)}")
        count = _load_side_by_side(sessions, place, rows.batches)
        with translated("number the rows of a staging table", table=place.table.name):
            index_rows(sessions[0], place.table, relation(place.schema, place.name))
    return count


def mark_loading(session: Session, place: StagedPlace, number: int) -> None:
    """By this lock `progress` finds the session. Where another one has it, that one stands for both."""
    with translated("mark a staging table", table=place.table.name):
        execute(session, "DO GET_LOCK(%s, 0)", (_lock(place.schema, place.name, number % _WRITERS),))


def _load_side_by_side(sessions: Sequence[Session], place: StagedPlace, batches: Iterator[pa.RecordBatch]) -> int:
    """Batches by the sessions in turn, as many at once as there are sessions."""
    count = 0
    running: deque[Future[int]] = deque()
    with ThreadPoolExecutor(len(sessions), thread_name_prefix="load") as pool:
        for number, batch in enumerate(batches):
            if len(running) == len(sessions):
                count += running.popleft().result()
            running.append(pool.submit(load_batch, sessions[number % len(sessions)], place, batch))
        return count + sum(one.result() for one in running)


def load_batch(session: Session, place: StagedPlace, batch: pa.RecordBatch) -> int:
    """Write rows into a staging table; how many. TransientError where the server took another number."""
    table = place.table
    if not batch.num_rows:
        return 0
    with translated("write staged rows", table=table.name):
        taken = load_rows(session, load_table(relation(place.schema, place.name), table), [rows_document(table, batch)])
    if taken != batch.num_rows:
        raise TransientError(f"of {batch.num_rows} rows {taken} were taken", table=table.name)
    return taken


def rows_document(table: Table, batch: pa.RecordBatch) -> bytes:
    """Whole rows as `load_table` takes them."""
    lines = lines_of(table, batch)
    if not table.is_keyed:
        lines = joined([escaped(pa.array(hashes_of(lines), BYTES)), lines])
    return document_of(lines)


def index_rows(session: Session, table: Table, place: str) -> None:
    """Of a table without a key: the numbers of its copies, and their index. Others have their key from the start."""
    if not table.is_keyed:
        execute(session, copies_index(place))
        execute(session, number_copies(place))


def drop_abandoned(session: Session, database: str) -> int:
    """Drop the staging tables of any run that are old; how many."""
    oldest = _now(session) - ABANDONED_AFTER_S
    return sum(
        _drop(session, database, name)
        for name, label in _staged_in(session, database)
        if int(label["made"], 16) < oldest
    )


def _now(session: Session) -> int:
    ((now,),) = query(session, "SELECT UNIX_TIMESTAMP()")
    return int(now)


def _staged_in(session: Session, database: str) -> list[tuple[str, dict[str, str]]]:
    matches = ((name, _STAGED_NAME.match(name)) for name in sorted(tables_in(session, database)))
    return [(name, match.groupdict()) for name, match in matches if match]


def staged_label(name: str) -> dict[str, str]:
    """What the name of a staged table says: `run`, `made` and `attempt`."""
    match = _STAGED_NAME.match(name)
    return match.groupdict() if match else {}


def _drop(session: Session, database: str, name: str) -> bool:
    """False where somebody still writes or reads it: whoever comes next cleans up."""
    try:
        with translated("drop a staging table"):
            execute(session, f"DROP TABLE IF EXISTS {relation(database, name)}")
    except TransientError:
        return False
    return True


def _lock(database: str, name: str, number: int) -> str:
    return lock_name(f"load {database}.{name} {number}")


def _owners(session: Session, database: str, name: str) -> set[int]:
    """The sessions that load a table."""
    locks = [_lock(database, name, number) for number in range(_WRITERS)]
    asked = ", ".join("IS_USED_LOCK(%s)" for _ in locks)
    (owners,) = query(session, f"SELECT {asked}", locks)
    return {int(owner) for owner in owners if owner is not None}


def _written(session: Session, database: str, names: Sequence[str]) -> tuple[int, bool]:
    """Bytes of these tables as the server last counted them, and whether one of them was written just now."""
    if not names:
        return 0, False
    rows = query(
        session,
        "SELECT COALESCE(SUM(data_length), 0),"
        f" COALESCE(MAX(update_time) > NOW() - INTERVAL {_STILL_S} SECOND, 0) FROM information_schema.tables"
        f" WHERE table_schema = {text_literal(database)} AND table_name IN ({', '.join(map(text_literal, names))})",
    )
    return int(rows[0][0]), bool(rows[0][1])
