"""Where the probe rows of a certificate arrive in MariaDB and MySQL: `ProbeDestination` of sync.certify."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from seamline.adapters.connections import resolve
from seamline.databases.mysql.canonical import quoted
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.errors import Refused
from seamline.domain.probe import KEY, Probe, StoredUnlike
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.relational import ledger as ledger_tables
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.findings import read_findings
from seamline.sinks.relational.ownership import tables_in
from seamline.sinks.relational.places import ledger_database, ledger_place, relation
from seamline.sinks.relational.session import Session, close, execute, open_session, query, translated
from seamline.sinks.relational.types import column_types

# In the database of the certificate's own ledger, which so is known to be ours.
_MARK = "certificate"


class RelationalProbed:
    """The databases of the probes' live and staged tables and of their ledger, which are the certificate's alone."""

    def __init__(self, plan: SyncPlan, destination: DestinationPlan, dialect: Dialect) -> None:
        self._destination = destination
        self._dialect = dialect
        self._stream = plan.stream_id(destination.name)
        self._at = ledger_place(destination)
        self._ledger = ledger_database(destination)

    def version(self) -> str:
        with self._session("read the server's version") as session:
            ((version,),) = query(session, "SELECT VERSION()")
        return f"{self._dialect.server} {version}"

    def type_of(self, column: Column) -> str:
        return column_types(Table("probe", (column,)), self._dialect)[column.name]

    def without_place(self, column: Column, literals: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002
        """None: what it has no place for ends a path, and the certificate says so."""
        return {}

    def prepare(self) -> None:
        with self._session("make the databases of a certificate") as session:
            there = {str(name) for (name,) in query(session, "SELECT schema_name FROM information_schema.schemata")}
            if in_the_way := sorted(there.intersection(self._databases)):
                raise Refused(
                    f"database {in_the_way[0]} is in the way in destination {self._destination.name} and was not made"
                    " by `seamline certify`",
                    hint="drop it",
                )
            ledger_tables.create_tables(session, self._at, self._dialect)
            execute(session, f"CREATE TABLE {self._at}.{_MARK} (stream varchar(255) PRIMARY KEY)")

    def unlike(self, probe: Probe) -> Sequence[StoredUnlike]:
        """Every value whose stored bytes are not those that came with the snapshot: -0 is not 0."""
        place, row_key = relation(self._destination.namespace, probe.name), quoted(KEY)
        wanted = " UNION ALL ".join(f"SELECT {key} AS k" for key in probe.keys)
        found = []
        with self._session("compare the paths", table=probe.of.name) as session:
            for column in probe.columns:
                snapshot, logged = (_text(column, of) for of in ("s", "l"))
                rows = query(
                    session,
                    f"SELECT wanted.k, {snapshot}, {logged} FROM ({wanted}) AS wanted"
                    f" LEFT JOIN {place} AS s ON s.{row_key} = MOD(wanted.k - 1, {probe.rows}) + 1"
                    f" LEFT JOIN {place} AS l ON l.{row_key} = wanted.k"
                    f" WHERE l.{row_key} IS NULL OR s.{row_key} IS NULL"
                    f" OR NOT CAST({snapshot} AS BINARY) <=> CAST({logged} AS BINARY) ORDER BY wanted.k",
                )
                found += [StoredUnlike(column.name, int(key), *map(_shown, texts)) for key, *texts in rows]
        return found

    def findings(self) -> Sequence[Finding]:
        with self._session("read the findings of a certificate") as session:
            return read_findings(session, self._at, self._stream, after=FindingsReported())[0]

    def remove(self) -> None:
        """All databases, that of the ledger last: by it a repeat knows them."""
        with self._session("remove what a certificate has made") as session:
            if _MARK in tables_in(session, self._ledger):
                for database in self._databases:
                    execute(session, f"DROP DATABASE IF EXISTS {quoted(database)}")

    @property
    def _databases(self) -> tuple[str, ...]:
        return self._destination.namespace, self._destination.stage_namespace, self._ledger

    @contextmanager
    def _session(self, doing: str, *, table: str = "") -> Iterator[Session]:
        session = open_session(resolve(self._destination.connection), self._dialect)
        try:
            with translated(doing, table=table):
                yield session
        finally:
            close(session)


def _text(column: Column, of: str) -> str:
    """What is stored, as a text in which all of it shows: of bytes their hex, of a number of 32 bits all its digits."""
    name = f"{of}.{quoted(column.name)}"
    if column.kind in (Kind.BINARY, Kind.BYTES):
        return f"HEX({name})"
    return f"CAST(CAST({name} AS DOUBLE) AS CHAR)" if column.kind is Kind.FLOAT else f"CAST({name} AS CHAR)"


def _shown(text: object) -> str | None:
    return None if text is None else str(text)


def open_probed(plan: SyncPlan, destination: DestinationPlan, dialect: Dialect) -> RelationalProbed:
    return RelationalProbed(plan, destination, dialect)
