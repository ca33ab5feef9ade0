"""Reading sessions of a PostgreSQL source that all stand on one snapshot, exported by a replication slot.

The slot lives for moments only: the first session imports its snapshot and exports it again, and from that one all
others come, also those of other processes. Each session itself reports its snapshot.

To a slot's snapshot a transaction is committed as soon as its commit stands in the WAL, a moment before the server
itself holds it so. Rows that are read in that moment are not found and, worse, are marked as rolled back, for everybody
and for ever (ADR 12). So no row is read before every transaction that the snapshot sees has ended.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg

from seamline import settings
from seamline.adapters import failpoints
from seamline.adapters.connections import Connection
from seamline.databases.postgres.canonical import text_literal
from seamline.databases.postgres.read import SESSION_SETTINGS, PostgresReadView, Relation
from seamline.domain.catalogue import Table
from seamline.domain.errors import InvariantViolated, SeamlineError, TransientError
from seamline.domain.position import Position
from seamline.domain.table_places import TablePlace
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.catalogue import read_catalogue
from seamline.sources.postgres.client import Session, open_session, role, source_error, translated
from seamline.sources.postgres.origin import is_partitioned
from seamline.sources.postgres.partitions import SEEN_AS_NOW
from seamline.sources.postgres.places import WANTED, asked_for, relation_at
from seamline.sources.postgres.position import PostgresPosition
from seamline.sources.postgres.slots import CREATION_S, exported_snapshot

# A stream that is held waits at most its lease for the views.
_VIEWS_S = 20.0
_PAUSE_S = 0.002
# What an administrator gave the role must not end a view in its hours, and rows that a policy would hide are an error,
# not a smaller table. A table that somebody alters just now is waited for for 30 s. Dates and floats inside of
# composite types are printed as in the log.
READ_SETTINGS = (
    "lock_timeout=30000",
    "statement_timeout=0",
    "idle_in_transaction_session_timeout=0",
    "row_security=off",
    "DateStyle=ISO",
    "extra_float_digits=1",
)
# The version from which a whole transaction can time out.
_TIMES_TRANSACTIONS = 170_000
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


@dataclass(frozen=True, slots=True)
class SharedSnapshot:
    """What a session needs to stand where the others stand. `seen` is `pg_current_snapshot()` there, as text.

    Valid while the session that exported it stays in its transaction.
    """

    name: str
    seen: str


@dataclass(frozen=True, slots=True)
class OpenedViews:
    """Views at one position. `opened_at` is the source's clock just after the first was open."""

    views: Sequence[PostgresReadView]
    shared: SharedSnapshot
    position: Position
    opened_at: datetime


@contextmanager
def views_at_one_snapshot(
    source: SourcePlan, count: int, *, tables: Sequence[Table], patience_s: float = CREATION_S
) -> Iterator[OpenedViews]:
    """`count` views of `tables` on one snapshot, closed at the end."""
    sessions: list[Session] = []
    try:
        yield _opened(source, count, tables, sessions, patience_s)
    finally:
        close_all(sessions)


def open_views(source: SourcePlan, count: int) -> Sequence[PostgresReadView]:
    """`count` views on one snapshot; each is closed by its owner. Shapes are read from the catalogue when asked."""
    sessions: list[Session] = []
    try:
        return _opened(source, count, (), sessions, _VIEWS_S).views
    except BaseException:
        close_all(sessions)
        raise


def join_snapshot(connection: Connection, shared: SharedSnapshot, *, tables: Sequence[TablePlace]) -> Session:
    """A session inside the shared snapshot that holds ACCESS SHARE on its tables and has proven both."""
    session = begin_reading(connection)
    try:
        with translated(connection):
            session.execute(f"SET TRANSACTION SNAPSHOT {text_literal(shared.name)}".encode())
            _require_seen(session, shared)
            lock_tables(session, tables)
    except BaseException:
        session.close()
        raise
    return session


def _require_seen(session: Session, shared: SharedSnapshot) -> None:
    seen = seen_by(session)
    if seen != shared.seen:
        raise InvariantViolated(f"a reading session stands on snapshot {seen}, not on {shared.seen}")


def seen_by(session: Session) -> str:
    row = session.execute("SELECT pg_current_snapshot()::text").fetchone()
    return str(row[0]) if row else ""


def position_at(lsn: int, seen: str) -> PostgresPosition:
    """`seen` is `xmin:xmax:xip,…`, as pg_current_snapshot prints it."""
    xmin, xmax, running = seen.split(":")
    in_progress = tuple(int(xid) for xid in running.split(",") if xid)
    return PostgresPosition(lsn=lsn, xmin=int(xmin), xmax=int(xmax), in_progress=in_progress)


def unfinished(snapshot: PostgresPosition, now: PostgresPosition) -> list[int]:
    """The transactions that `snapshot` sees and that the server, by its own snapshot `now`, still holds for running."""
    running = (*now.in_progress, *range(now.xmax, max(snapshot.xmin, snapshot.xmax)))
    return [xid for xid in running if snapshot.sees_wide(xid)]


def lock_tables(session: Session, tables: Sequence[TablePlace]) -> None:
    """Hold ACCESS SHARE on the tables, and be certain that the snapshot still sees their rows.

    TRUNCATE and rewrites are not MVCC-safe: a snapshot older than one finds the table empty. The catalogue as this
    snapshot sees it names the file that held the rows then, `pg_relation_filenode` the one that holds them now. Names
    are always looked up as of now, so a table that took another's name would be read instead of it.
    """
    for place in tables:
        session.execute(f"LOCK TABLE {relation_at(place)} IN ACCESS SHARE MODE".encode())
    rows = session.execute(
        # Materialized: to_regclass refuses the name of another table, in a schema that the reader may not use.
        "WITH here AS MATERIALIZED (SELECT c.oid, n.nspname, c.relname, c.relkind, c.relfilenode"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE (c.relnamespace, c.relname) IN ({WANTED}))"
        " SELECT c.nspname, c.relname FROM here c WHERE CASE c.relkind WHEN 'p' THEN"
        f" {SEEN_AS_NOW} ELSE c.relfilenode = pg_relation_filenode(c.oid) END"
        " AND c.oid = to_regclass(format('%%I.%%I', c.nspname, c.relname))",
        asked_for(tables),
    ).fetchall()
    gone = sorted(set(tables) - {TablePlace(schema, name) for schema, name in rows})
    if gone:
        raise TransientError(
            f"table {', '.join(place.text for place in gone)} was truncated, rewritten or replaced, or its partitions"
            " were, while the snapshot"
            " was opened",
            hint="it is read again at a new position",
            table=gone[0].table,
        )


def close_all(sessions: Sequence[Session]) -> None:
    for session in sessions:
        session.close()


def _opened(
    source: SourcePlan, count: int, tables: Sequence[Table], sessions: list[Session], patience_s: float
) -> OpenedViews:
    reader = role(source, source.reader)
    places = [source.places.of(table.name) for table in tables]
    armed = failpoints.from_environment(settings.process_environment())
    with exported_snapshot(role(source, source.capture), patience_s=patience_s) as exported:
        if armed is not None:
            armed.reach("snap.slot_created")
        sessions.append(begin_reading(reader))
        with translated(reader):
            sessions[0].execute(f"SET TRANSACTION SNAPSHOT {text_literal(exported.name)}".encode())
            # The first statement after it: the slot may go only when somebody else stands on its snapshot.
            seen = seen_by(sessions[0])
    position = position_at(exported.lsn, seen)
    _wait_for_the_seen(reader, position, patience_s)
    with translated(reader):
        lock_tables(sessions[0], places)
        row = sessions[0].execute("SELECT pg_export_snapshot(), clock_timestamp()").fetchone()
    if row is None:
        raise InvariantViolated("the source exported no snapshot")
    shared = SharedSnapshot(str(row[0]), seen)
    while len(sessions) < count:
        sessions.append(join_snapshot(reader, shared, tables=places))
    views = [SourceReadView(session, source=source, tables=tables, position=position) for session in sessions]
    return OpenedViews(views, shared, position, row[1].astimezone(UTC))


def _wait_for_the_seen(reader: Connection, position: PostgresPosition, patience_s: float) -> None:
    """Return when every transaction that the snapshot sees has ended for the server too."""
    deadline = time.monotonic() + patience_s
    with closing(open_session(reader)) as session, translated(reader):
        while waited_for := unfinished(position, position_at(0, seen_by(session))):
            if time.monotonic() > deadline:
                raise TransientError(
                    f"transactions {', '.join(map(str, waited_for))} are committed in the source's log and have not"
                    f" ended within {patience_s:g} s",
                    hint="they wait for a synchronous standby, or their server process stands still; then try again",
                )
            time.sleep(_PAUSE_S)


def begin_reading(connection: Connection) -> Session:
    """A session in a transaction that only reads; its snapshot is taken by its first statement."""
    session = open_session(connection, settings=READ_SETTINGS)
    try:
        with translated(connection):
            for setting in (*late_settings(session.info.server_version), *SESSION_SETTINGS):
                session.execute(setting.encode())
            session.execute(_BEGIN)
    except BaseException:
        session.close()
        raise
    return session


def late_settings(server_version: int) -> tuple[str, ...]:
    """Statements beside READ_SETTINGS, which only some versions know."""
    return ("SET transaction_timeout = 0",) if server_version >= _TIMES_TRANSACTIONS else ()


def rows_of(table: Table, relation: str) -> str:
    """The table's own rows, as FROM names them: those of its partitions, never those of tables that inherit from it."""
    return relation if is_partitioned(table) else f"ONLY {relation}"


_CORRELATION = "SELECT correlation FROM pg_catalog.pg_stats WHERE (schemaname, tablename, attname) = (%s, %s, %s)"
# Below it an index scan of a range reads most pages of a table several times.
_IN_ORDER = 0.9


class SourceReadView(PostgresReadView):
    """A view of the source's own tables, without those that inherit from them.

    A table that was not given is locked and read from the catalogue when it is first asked for.
    """

    def __init__(self, session: Session, *, source: SourcePlan, tables: Sequence[Table], position: Position) -> None:
        super().__init__(session, tables=tables, relations={}, position=position)
        self._source = source

    def is_in_key_order(self, table: str) -> bool:
        """`kinds.bulk.KnowsRowOrder`: by the statistics of the first key column; True where there are none."""
        place, key = self._source.places.of(table), self._table(table).key_columns[0]
        names = (place.namespace, place.table, key.source_name or key.name)
        with translated(role(self._source, self._source.reader)), self._session.transaction():
            row = self._session.execute(_CORRELATION, names).fetchone()
        return row is None or row[0] is None or abs(row[0]) >= _IN_ORDER

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            # A savepoint, as for every question: what fails for one table must not end the view.
            with translated(role(self._source, self._source.reader)), self._session.transaction():
                lock_tables(self._session, [self._source.places.of(name)])
                (self._tables[name],) = read_catalogue(self._session, self._source, [name])
        return super()._table(name)

    def _place(self, table: str) -> Relation:
        return relation_at(self._source.places.of(table))

    def _stored(self, table: Table) -> str:
        return rows_of(table, super()._stored(table))

    def _fault(self, exc: psycopg.Error) -> SeamlineError:
        return source_error(exc, role(self._source, self._source.reader))
