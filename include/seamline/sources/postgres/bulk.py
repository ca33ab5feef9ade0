"""Whole tables out of PostgreSQL: as they are, or in the typed form where a destination takes nothing else.

As they are: COPY's binary form is passed on and never looked at. The column types of a destination that is PostgreSQL
too are chosen so that their binary form is the source's own. All sessions, here and in tasks, stand on one exported
snapshot; each says so itself.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from seamline.adapters.connections import Connection
from seamline.databases.postgres.canonical import date_conditions, quoted
from seamline.databases.postgres.typed_rows import expression_of, typed_batches
from seamline.databases.postgres.types import destination_type
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import InvariantViolated
from seamline.domain.table_places import TablePlace, TablePlaces
from seamline.domain.unlogged import UnloggedPosition
from seamline.kinds.bulk import ArrowRows, BulkRead, CopyTasks, Form, OpenedSource, PostgresCopy, TableRows, Wanted
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.client import role
from seamline.sources.postgres.copy_out import CopyOut
from seamline.sources.postgres.own_snapshot import open_own_views
from seamline.sources.postgres.places import relation_at
from seamline.sources.postgres.sessions import (
    OpenedViews,
    SharedSnapshot,
    join_snapshot,
    rows_of,
    views_at_one_snapshot,
)
from seamline.values.arrow import schema_of


@contextmanager
def open_source_for_tasks(source: SourcePlan, wanted: Wanted, tasks: CopyTasks) -> Iterator[OpenedSource]:
    """`SourceKind.open_for_tasks`: the first view holds the snapshot that the tasks' sessions join."""
    with (_logged if source.has_log else _unlogged)(source, wanted) as opened:
        tasks.start(f"{opened.shared.name} {opened.shared.seen}")
        yield OpenedSource(opened.views, opened.position, opened.opened_at, opened.shared.seen)


def _logged(source: SourcePlan, wanted: Wanted) -> AbstractContextManager[OpenedViews]:
    return views_at_one_snapshot(source, wanted.views, tables=wanted.tables)


@contextmanager
def _unlogged(source: SourcePlan, wanted: Wanted) -> Iterator[OpenedViews]:
    """On a snapshot that needs no slot: it stands for this read alone."""
    opened, _ = open_own_views(
        source,
        wanted.tables,
        wanted.views,
        position=lambda stood: UnloggedPosition(wanted.attempt, stood.at, f"snapshot {stood.seen}"),
    )
    try:
        yield opened
    finally:
        for view in opened.views:
            view.close()


def open_readers(source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str, participant: int) -> "SnapshotReaders":
    """`SourceKind.open_readers`. Participants need not wait for each other."""
    name, _, seen = barrier.partition(" ")
    return SnapshotReaders(role(source, source.reader), source.places, reads, SharedSnapshot(name, seen))


class SnapshotReaders:
    """`kinds.bulk.TableReaders` on the shared snapshot: a session that holds the tables, and one that reads them."""

    def __init__(
        self, connection: Connection, places: TablePlaces, reads: Sequence[BulkRead], shared: SharedSnapshot
    ) -> None:
        self._connection = connection
        self._places = places
        self._reads = reads
        self._shared = shared
        self._open = ExitStack()
        self._reader: CopyOut | None = None

    def open_at_barrier(self) -> None:
        places = [self._places.of(read.table.name) for read in self._reads]
        holder = join_snapshot(self._connection, self._shared, tables=places)
        self._open.callback(holder.close)
        self._reader = CopyOut(self._connection, self._shared)
        self._open.callback(self._reader.close)

    def rows(self, number: int, *, proven: Callable[[str], None]) -> TableRows:
        read, blocks = self._reads[number], self._blocks(number, proven)
        if read.form is Form.NATIVE:
            return PostgresCopy(blocks)
        return ArrowRows(schema_of(read.table), typed_batches(read.table, blocks))

    def _blocks(self, number: int, proven: Callable[[str], None]) -> Iterator[bytes]:
        if self._reader is None:
            raise InvariantViolated("the readers have not met yet")
        proven(self._reader.seen)
        read = self._reads[number]
        yield from self._reader.blocks(bulk_statement(self._places.of(read.table.name), read))

    def close(self) -> None:
        self._open.close()


def bulk_statement(place: TablePlace, read: BulkRead) -> str:
    table: Table = read.table
    is_native = read.form is Form.NATIVE
    columns = ", ".join(map(_read if is_native else expression_of, table.columns))
    rows = rows_of(table, str(relation_at(place)))
    selected = f"SELECT {columns} FROM {rows}{_where(table, read.segment)}"
    return f"COPY ({selected}) TO STDOUT ({'FORMAT binary' if is_native else 'FORMAT csv, FORCE_QUOTE *'})"


def _read(column: Column) -> str:
    """As it is, but for a char without its padding, which carries no meaning and would stay in a varchar, and for types
    of extensions, which the destination need not have."""
    name = quoted(column.name)
    if column.native and column.kind is not Kind.NATIVE:
        return f"{name}::{destination_type(column)}"
    return f"rtrim({name})" if column.kind is Kind.CHAR else name


def _where(table: Table, segment: Segment) -> str:
    conditions: list[str] = []
    if segment.date_column:
        conditions += date_conditions(quoted(table.column(segment.date_column).name), segment)
    if segment.key_from is not None:
        conditions.append(f"{quoted(table.key[0])} >= {segment.key_from}")
    if segment.key_below is not None:
        conditions.append(f"{quoted(table.key[0])} < {segment.key_below}")
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
