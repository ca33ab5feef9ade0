"""Copies of what a run holds of a lake's tables, for as long as Great Expectations looks at them.

No SQL reaches the files of a lake from here, and suites are written in the SQL of databases. So the tables that a suite
names are written into the database of the ledger, whole, each by one binary COPY, and are judged there as those of a
PostgreSQL destination are. While a table is copied its digest is made: it must be that of the comparison, so a check
never bears on other rows than were compared with the source.

Each attempt has a schema of its own, which goes when its check ends. What a dead attempt has left goes with the next
check of any sync.
"""

import secrets
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace

import psycopg
import pyarrow as pa

from seamline.adapters.connections import resolve
from seamline.databases.postgres.binary_copy import binary_copy
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.types import destination_type
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import GateFailed, SeamlineError, TerminalError
from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load
from seamline.sinks.lake.derived import definition_of
from seamline.sinks.lake.files import translated as read_translated
from seamline.sinks.lake.loads import location_of, staged_files
from seamline.sinks.lake.read_back import OpenAt
from seamline.sinks.lake.read_view import Batches
from seamline.sinks.lake.storage import RowStorage
from seamline.sinks.lake.stores import FilePath
from seamline.values.digest import segment_digest

_PREFIX = "seamline_rows_"
# Nobody waits for what a copy holds: a disk that stands still for minutes does not cost all of it.
_STALLS_MS = 600_000
# How long a copy that is over is waited for, where somebody reads it.
_READ_MS = 1_000
# Taken by whoever copies into the schema of that name, until its session ends.
_LOCK = "hashtextextended({}, 0)"


@dataclass(frozen=True, slots=True)
class HeldRows:
    """What a run holds: snapshots of live tables, and files that are staged. Without `at`, files alone."""

    warehouse: str | FilePath
    storage: RowStorage
    at: OpenAt | None = None

    def opened(self, session: Session, plan: SyncPlan, staged: StagedTable) -> tuple[Table, Batches]:
        """The definition of a table and its rows."""
        if staged.mode is CutMode.DERIVED:
            table = definition_of(location_of(self.warehouse, staged.staged_as))
        else:
            table = plan.table(staged.table).definition
            if self.at is not None:
                return table, self.at(session, table, int(staged.staged_as))
        files = staged_files(self.warehouse, Load(table, staged.staged_as, staged.rows))
        return table, lambda: files.batches(table, self.storage)


@contextmanager
def copied(
    plan: SyncPlan, destination: DestinationPlan, cut: StagedCut, tables: Collection[str], *, held: HeldRows
) -> Iterator[StagedCut]:
    """`kinds.sink.CopiesRows`."""
    chosen = [table for table in cut.tables if table.table in tables]
    if not chosen:
        yield replace(cut, tables=())
        return
    connection = resolve(destination.connection)
    session = open_session(connection, application_name="seamline copies rows", stalls_ms=_STALLS_MS)
    with closing(session):
        schema = _new_schema(session)
        try:
            copies = [_copied(session, f"{schema}.t{number}", plan, one, held) for number, one in enumerate(chosen)]
            yield replace(cut, tables=tuple(copies))
        except BaseException:
            with suppress(SeamlineError):
                _drop(session, schema)
            raise
        # An error here is one of the check: a server that has crashed meanwhile has emptied the copies.
        _drop(session, schema)


def _new_schema(session: Session) -> str:
    schema = f"{_PREFIX}{secrets.token_hex(8)}"
    with translated("make room for copies of rows"):
        for (left,) in session.execute(
            "SELECT nspname FROM pg_catalog.pg_namespace WHERE starts_with(nspname, %s)"
            " AND pg_has_role(nspowner, 'USAGE')",
            (_PREFIX,),
        ).fetchall():
            _drop_if_dead(session, left)
        session.execute(f"SELECT pg_advisory_lock({_LOCK.format('%s')})".encode(), (schema,))
        session.execute(f"CREATE SCHEMA {schema}".encode())
    return schema


def _drop_if_dead(session: Session, schema: str) -> None:
    row = session.execute(f"SELECT pg_try_advisory_lock({_LOCK.format('%s')})".encode(), (schema,)).fetchone()
    if row is not None and row[0]:
        _drop(session, schema)
        session.execute(f"SELECT pg_advisory_unlock({_LOCK.format('%s')})".encode(), (schema,))


def _drop(session: Session, schema: str) -> None:
    """One that somebody reads just now, as a backup does, stays for the next check."""
    with translated("drop copies of rows"), suppress(psycopg.errors.LockNotAvailable), session.transaction():
        session.execute(f"SET LOCAL lock_timeout = {_READ_MS}".encode())
        session.execute(f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE".encode())


def _copied(session: Session, relation: str, plan: SyncPlan, staged: StagedTable, held: HeldRows) -> StagedTable:
    """GateFailed: the rows cannot be had, do not fit, or are others than were compared."""
    name = staged.table
    try:
        with read_translated(f"read table {name}"), translated(f"copy the rows of {name}", table=name):
            found = _written(session, relation, staged, *held.opened(session, plan, staged))
    except TerminalError as exc:
        raise GateFailed(f"{name} cannot be checked: {exc.message}", hint=exc.hint, table=name) from exc
    if found.rows != staged.rows or (staged.digest is not None and found != staged.digest.digest):
        raise GateFailed(
            f"what was read of {name} to be checked are not the {staged.rows} rows that were compared",
            hint="somebody changed its files: run the task `cut` again",
            table=name,
        )
    return replace(staged, staged_as=relation)


def _written(session: Session, relation: str, staged: StagedTable, table: Table, batches: Batches) -> SegmentDigest:
    """The digest of the rows as they were written."""
    digests = list[SegmentDigest]()
    run_key = staged.digest.run_key if staged.digest is not None else ""
    columns = ", ".join(f"{quoted(column.name)} {_type_of(column)}" for column in table.columns)

    def read() -> Iterator[pa.RecordBatch]:
        for rows in batches():
            digests.append(segment_digest(table, rows, run_key=run_key))
            yield rows

    with session.transaction(), session.cursor() as cursor:
        cursor.execute(f"CREATE UNLOGGED TABLE {relation} ({columns})".encode())
        try:
            with cursor.copy(f"COPY {relation} FROM STDIN (FORMAT binary, FREEZE)".encode()) as copy:
                for chunk in binary_copy(read(), table):
                    copy.write(chunk)
        except psycopg.DataError as exc:
            raise GateFailed(
                f"a value of it has no place in PostgreSQL, where suites are asked: {exc.diag.message_primary}",
                hint="take the table out of the suite",
                table=table.name,
            ) from exc
    session.execute(f"ANALYZE {relation}".encode())
    return sum(digests, SegmentDigest())


def _type_of(column: Column) -> str:
    """As in a PostgreSQL destination; what only the source's server has a type for is text here."""
    return "text" if column.kind is Kind.NATIVE else destination_type(column)
