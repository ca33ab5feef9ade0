"""Whole tables out of PostgreSQL as they are: COPY's binary form is passed on and never looked at.

The destination's column types are chosen so that their binary form is the source's own. All sessions, here and in
tasks, stand on one exported snapshot; each says so itself.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from seamline.adapters.bulk_source import BulkRead, CopyTasks, OpenedSource, Wanted
from seamline.adapters.connections import Connection
from seamline.adapters.postgres.canonical import quoted, text_literal
from seamline.adapters.postgres_source.client import Session, role, translated
from seamline.adapters.postgres_source.sessions import (
    SharedSnapshot,
    join_snapshot,
    seen_by,
    views_at_one_snapshot,
)
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import InvariantViolated
from seamline.plan.model import SourcePlan

# The server sends a row at a time; a call per row on the writing side would cost as much as reading it.
_PIECE_BYTES = 256 << 10


@contextmanager
def open_source_for_tasks(source: SourcePlan, wanted: Wanted, tasks: CopyTasks) -> Iterator[OpenedSource]:
    """`bulk_source.OpenSource`: the first view holds the snapshot that the tasks' sessions join."""
    with views_at_one_snapshot(source, wanted.views, tables=wanted.tables) as opened:
        tasks.start(f"{opened.shared.name} {opened.shared.seen}")
        yield OpenedSource(opened.views, opened.position, opened.opened_at, opened.shared.seen)


def open_readers(source: SourcePlan, reads: Sequence[BulkRead], *, meeting: str, member: int) -> "SnapshotReaders":
    """`bulk_source.OpenReaders`. Members need not wait for each other."""
    name, _, seen = meeting.partition(" ")
    return SnapshotReaders(role(source, source.reader), source.schema, reads, SharedSnapshot(name, seen))


class SnapshotReaders:
    """`bulk_source.TableReaders` of one session on the shared snapshot."""

    def __init__(self, connection: Connection, schema: str, reads: Sequence[BulkRead], shared: SharedSnapshot) -> None:
        self._connection = connection
        self._schema = schema
        self._reads = reads
        self._shared = shared
        self._session: Session | None = None

    def meet(self) -> None:
        names = [read.table.name for read in self._reads]
        self._session = join_snapshot(self._connection, self._shared, schema=self._schema, tables=names)

    def pieces(self, number: int, *, proven: Callable[[str], None]) -> Iterator[bytes]:
        read, session = self._reads[number], self._session
        if session is None:
            raise InvariantViolated("the readers have not met yet")
        with translated(self._connection):
            proven(seen_by(session))
            with session.cursor() as cursor, cursor.copy(bulk_statement(self._schema, read).encode()) as copy:
                yield from _joined(iter(copy))

    def close(self) -> None:
        if self._session is not None:
            self._session.close()


def bulk_statement(schema: str, read: BulkRead) -> str:
    """ONLY: rows of tables that inherit from this one are theirs."""
    table: Table = read.table
    columns = ", ".join(_read(column) for column in table.columns)
    selected = f"SELECT {columns} FROM ONLY {quoted(schema)}.{quoted(table.name)}{_where(table, read.segment)}"
    return f"COPY ({selected}) TO STDOUT (FORMAT binary)"


def _read(column: Column) -> str:
    """As it is, but for a char without its padding, which carries no meaning and would stay in a varchar."""
    return f"rtrim({quoted(column.name)})" if column.kind is Kind.CHAR else quoted(column.name)


def _where(table: Table, segment: Segment) -> str:
    if not segment.date_column:
        return ""
    name = quoted(table.column(segment.date_column).name)
    return f" WHERE {name} >= {text_literal(segment.date_from)} AND {name} < {text_literal(segment.date_to)}"


def _joined(rows: Iterator[bytes | bytearray | memoryview]) -> Iterator[bytes]:
    held: list[bytes | bytearray | memoryview] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row)
        if size >= _PIECE_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)
