"""Staging tables: whole tables written by binary COPY, under names that no other attempt has.

The binary form of each value is exactly the column's own: nothing is converted on the way in, and a value that does not
fit ends the COPY. A retried attempt writes into tables of its own; a staged table's name holds its
run and the time it was made, so what dead attempts left is found and dropped.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, Protocol

import psycopg

from seamline.adapters.connections import Connection, resolve
from seamline.databases.postgres.binary_copy import binary_copy
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session, open_session, seamline_error, translated
from seamline.databases.postgres.types import column_definitions, destination_type
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SeamlineError
from seamline.kinds.bulk import LoadProgress, PostgresCopy, StagedPlace, TableRows
from seamline.plan.model import DestinationPlan
from seamline.sinks.postgres.nul import nul_refused
from seamline.sinks.postgres.statements import identity_index
from seamline.values.arrow import require_schema

_READABLE_MAX = 30
# Nobody waits for what a load holds: a disk that stands still for minutes does not cost the whole snapshot.
_STALLS_MS = 600_000
# Other runs' leftovers are dropped when they are older: a staged cut may wait days for its signature.
ABANDONED_AFTER_S = 14 * 86_400
# <readable part of the table's name>_<run>_<second it was made, hex><attempt>
_STAGED_NAME = re.compile(r"^.*_(?P<run>[0-9a-f]{8})_(?P<made>[0-9a-f]{8})(?P<attempt>[0-9a-f]{8})$", re.DOTALL)


_PROGRESS = (
    "SELECT c.relname, pg_relation_size(c.oid), count(a.pid) > 0,"
    " coalesce(bool_or(a.state = 'active' AND a.wait_event_type IS DISTINCT FROM 'Client'), false)"
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid <> pg_backend_pid() AND position(c.relname::text IN a.query) > 0"
    " WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname LIKE %s GROUP BY c.oid, c.relname"
)


class StagingArea:
    """The staging tables of one attempt of one run in one destination."""

    def __init__(self, connection: Connection, destination: DestinationPlan, *, run_id: str) -> None:
        self._connection = connection
        self._schema = destination.stage_namespace
        self._run_id = run_id
        self._run = hashlib.sha256(run_id.encode()).hexdigest()[:8]
        self._attempt = secrets.token_hex(4)
        # Tables of this attempt, and those of an earlier one that it goes on with.
        self._mine: set[str] = set()

    def create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        """An empty staging table for each, by table name. No key yet: it is built after the load."""
        with self.held():
            return self._create(tables)

    def held(self) -> AbstractContextManager[None]:
        """No other attempt goes on with tables of this one."""
        return nullcontext()

    def _create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        with closing(self._session()) as session, translated("make staging tables"):
            session.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(self._schema)}".encode())
            self._drop_leftovers(session)
            row = session.execute("SELECT extract(epoch FROM now())::bigint").fetchone()
            made = f"{row[0] if row else 0:08x}"
            places = {}
            for table in tables:
                place = StagedPlace(table, self._schema, self._name_of(table, made))
                session.execute(f"CREATE TABLE {relation(place)} ({column_definitions(table)})".encode())
                places[table.name] = place
                self._mine.add(place.name)
        return places

    def progress(self) -> LoadProgress:
        """What has come so far of the tables of this attempt."""
        with closing(self._session()) as session, translated("look at staging tables"):
            rows = session.execute(_PROGRESS, (self._schema, f"%{self._attempt}")).fetchall()
        return LoadProgress(
            sum(int(size) for _, size, _, _ in rows),
            tuple(name for name, _, is_open, _ in rows if is_open),
            is_working=any(is_working for _, _, _, is_working in rows),
        )

    def drop(self) -> None:
        """Drop the tables of this attempt."""
        with closing(self._session()) as session, translated("drop staging tables"):
            for name, label in _staged_in(session, self._schema):
                if label["attempt"] == self._attempt:
                    _drop(session, self._schema, name)

    def _drop_leftovers(self, session: Session) -> None:
        """Drop what dead attempts left: of this run all but this attempt's tables, of other runs what is old."""
        for name, label in _staged_in(session, self._schema):
            if label["run"] == self._run and name not in self._mine:
                _drop(session, self._schema, name)
        drop_abandoned(session, self._schema)

    def _name_of(self, table: Table, made: str) -> str:
        readable = table.name.encode()[:_READABLE_MAX].decode(errors="ignore")
        mark = hashlib.sha256(f"{self._attempt}\0{table.name}".encode()).hexdigest()[:4]
        # The mark keeps two tables apart whose names begin alike. 61 bytes at most; PostgreSQL cuts at 63.
        return f"{readable}_{mark}_{self._run}_{made}{self._attempt}"

    def _session(self) -> Session:
        return open_session(self._connection, application_name="seamline staging")


def open_area(destination: DestinationPlan, *, run_id: str) -> StagingArea:
    return StagingArea(resolve(destination.connection), destination, run_id=run_id)


def drop_abandoned(session: Session, schema: str) -> int:
    """Drop the staging tables of any run that are old; how many."""
    row = session.execute("SELECT extract(epoch FROM now())::bigint").fetchone()
    oldest = (row[0] if row else 0) - ABANDONED_AFTER_S
    return sum(
        _drop(session, schema, name) for name, label in _staged_in(session, schema) if int(label["made"], 16) < oldest
    )


def _staged_in(session: Session, schema: str) -> list[tuple[str, dict[str, str]]]:
    rows = session.execute(
        "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relkind = 'r'",
        (schema,),
    ).fetchall()
    matches = ((str(name), _STAGED_NAME.match(str(name))) for (name,) in rows)
    return [(name, match.groupdict()) for name, match in matches if match]


def staged_label(name: str) -> dict[str, str]:
    """What the name of a staged table says: `run`, `made` and `attempt`."""
    match = _STAGED_NAME.match(name)
    return match.groupdict() if match else {}


def _drop(session: Session, schema: str, name: str) -> bool:
    """False where somebody still writes or reads it, or builds on it: whoever comes next cleans up."""
    try:
        session.execute(f"DROP TABLE IF EXISTS {quoted(schema)}.{quoted(name)}".encode())
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DependentObjectsStillExist):
        return False
    return True


def relation(place: StagedPlace) -> str:
    return f"{quoted(place.schema)}.{quoted(place.name)}"


class Beside(Protocol):
    """What is written in the transaction of the rows. `is_whole`: the rows are all of the table."""

    @property
    def is_whole(self) -> bool: ...

    def begin(self, cursor: "psycopg.Cursor[Any]") -> None: ...

    def end(self, cursor: "psycopg.Cursor[Any]", rows: int) -> None: ...


class _Nothing:
    is_whole = True

    def begin(self, cursor: "psycopg.Cursor[Any]") -> None: ...

    def end(self, cursor: "psycopg.Cursor[Any]", rows: int) -> None: ...


_NOTHING = _Nothing()


def load(destination: DestinationPlan, place: StagedPlace, rows: TableRows, *, beside: Beside | None = None) -> int:
    """`kinds.sink.SinkKind.load`: by `fill`, as a binary COPY. In the typed form, types that only PostgreSQL has are
    texts."""
    connection = resolve(destination.connection)
    if isinstance(rows, PostgresCopy):
        chunks, texts = rows.blocks, list[Column]()
    else:
        require_schema(place.table, rows.schema)
        texts = [column for column in place.table.columns if column.kind is Kind.NATIVE]
        chunks = binary_copy(rows.batches, place.table)
    return fill(connection, place, chunks, texts=texts, beside=beside)


def fill(
    connection: Connection,
    place: StagedPlace,
    chunks: Iterable[bytes],
    *,
    texts: Sequence[Column] = (),
    beside: Beside | None = None,
) -> int:
    """Write a binary COPY of all columns into a staging table, which is emptied first, then its key or identity index.
    Rows written; one transaction. `texts`: the columns whose values come as text, of which the server makes their own.
    With `beside` the caller builds the index, and the table is emptied only where these are all of its rows.

    An error of `chunks` leaves as it is.
    """
    names = ", ".join(quoted(column.name) for column in place.table.columns)
    # FREEZE needs the TRUNCATE. Later scans then write no page a second time: the key is built in four fifths of the
    # time (PostgreSQL 18.4, 2 M rows), and no vacuum has to come by.
    record = beside or _NOTHING
    frozen = ", FREEZE" if record.is_whole else ""
    statement = f"COPY {relation(place)} ({names}) FROM STDIN (FORMAT binary{frozen})"
    session = open_session(connection, application_name="seamline staging", stalls_ms=_STALLS_MS)
    with closing(session):
        try:
            with session.transaction(), session.cursor() as cursor:
                record.begin(cursor)
                if record.is_whole:
                    cursor.execute(f"TRUNCATE {relation(place)}".encode())
                _retype(cursor, place, {column: "text" for column in texts})
                with cursor.copy(statement.encode()) as copy:
                    for chunk in _separated(chunks):
                        copy.write(chunk)
                rows = cursor.rowcount
                _retype(cursor, place, {column: destination_type(column) for column in texts})
                record.end(cursor, rows)
        except _SourceEnded as ended:
            raise ended.error from ended.error.__cause__
        except psycopg.Error as exc:
            raise _fault(exc, place) from exc
    if beside is None:
        build_index(connection, place)
    return rows


def _retype(cursor: "psycopg.Cursor[Any]", place: StagedPlace, types: Mapping[Column, str]) -> None:
    names = {quoted(column.name): one for column, one in types.items()}
    changes = ", ".join(f"ALTER {name} TYPE {one} USING {name}::{one}" for name, one in names.items())
    if changes:
        cursor.execute(f"ALTER TABLE {relation(place)} {changes}".encode())


class _SourceEnded(Exception):
    """Carries an error of the chunks past the server, whose log gets the text of whatever ends a COPY."""

    def __init__(self, error: SeamlineError) -> None:
        super().__init__("the source's rows have ended early")
        self.error = error


def _separated(chunks: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from chunks
    except SeamlineError as error:
        raise _SourceEnded(error) from None


def build_index(connection: Connection, place: StagedPlace) -> None:
    """The primary key, or the index that finds keyless rows by their identity. After the load: one sort."""
    with (
        closing(open_session(connection, application_name="seamline staging")) as session,
        translated("build the key of a staging table", table=place.table.name),
    ):
        index_rows(session, place.table, relation(place))


def index_rows(session: Session, table: Table, relation_name: str) -> None:
    """As `build_index`, in a session of the caller's, which it gives more memory."""
    session.execute("SET maintenance_work_mem = '256MB'")
    if table.is_keyed:
        columns = ", ".join(quoted(name) for name in table.key)
        session.execute(f"ALTER TABLE {relation_name} ADD PRIMARY KEY ({columns})".encode())
    else:
        session.execute(identity_index(table, relation_name).encode())
    session.execute(f"ANALYZE {relation_name}".encode())


def _fault(exc: psycopg.Error, place: StagedPlace) -> SeamlineError:
    table = place.table.name
    if isinstance(exc, psycopg.errors.CharacterNotInRepertoire):
        # COPY's own words: `COPY <table>, line 3, column memo`.
        column = re.search(r", column ([^:]+)", exc.diag.context or "")
        return nul_refused(place.table, column[1] if column else "")
    return seamline_error(exc, f"write {table}", table=table)
