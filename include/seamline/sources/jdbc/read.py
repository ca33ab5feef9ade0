"""One transaction of a JDBC source, from which a whole night is read, and compared before it ends."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import pyarrow as pa

from seamline.adapters.connections import resolve
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.errors import SchemaConflict
from seamline.domain.unlogged import UnloggedPosition
from seamline.kinds.arrow_view import ArrowView
from seamline.kinds.bulk import ArrowRows, BulkRead, CopyTasks, OpenedSource, Wanted
from seamline.plan.model import SourcePlan
from seamline.sources.jdbc.session import JdbcSession
from seamline.sources.jdbc.source import relation_of, survey
from seamline.sources.jdbc.types import query_of, rows_of
from seamline.values.arrow import schema_of
from seamline.values.segments import in_segment


@contextmanager
def open_source_for_tasks(source: SourcePlan, wanted: Wanted, tasks: CopyTasks) -> Iterator[OpenedSource]:  # noqa: ARG001
    """`SourceKind.open_for_tasks`: one session reads all tables, here; no other could stand in its transaction."""
    with closing(JdbcSession(resolve(source.reader))) as session:
        session.begin(f"SELECT COUNT(*) FROM {relation_of(session, source, wanted.tables[0].name)} WHERE 1 = 0")
        opened_at = datetime.now(UTC)
        _require_planned(session, source, wanted.tables)
        position = UnloggedPosition(wanted.attempt, opened_at, f"one serializable transaction of {session.product}")
        rows = {table: _reading(session, source, table) for table in wanted.tables}
        view = JdbcView(position, rows)
        yield OpenedSource(
            [view], position, opened_at, str(position), lambda reads: _Readers(reads, rows, str(position))
        )


def _require_planned(session: JdbcSession, source: SourcePlan, tables: Sequence[Table]) -> None:
    """SchemaConflict where a table is not what it was when the sync was onboarded."""
    now = survey(session, source, [table.name for table in tables]).whole()
    for planned, found in zip(tables, now, strict=True):
        if (planned.columns, planned.key) != (found.columns, found.key):
            raise SchemaConflict(f"table {planned.name} was altered since the sync was onboarded", table=planned.name)


def _reading(session: JdbcSession, source: SourcePlan, table: Table) -> Callable[[], Iterator[pa.RecordBatch]]:
    query = query_of(table, relation_of(session, source, table.name), session.quote)

    def read() -> Iterator[pa.RecordBatch]:
        for batch in session.batches(query):
            yield rows_of(table, batch)

    return read


class JdbcView(ArrowView):
    """The tables of the transaction: each question reads them again, by the reader that has staged them."""

    def typed_rows(self, table: Table, segment: Segment) -> Iterator[pa.RecordBatch]:
        """`kinds.bulk.ReadsTypedRows`."""
        for _, rows in self._selected(segment, ""):
            yield rows.select([column.name for column in table.columns])


class _Readers:
    """`kinds.bulk.TableReaders` of the one session."""

    def __init__(
        self, reads: Sequence[BulkRead], rows: Mapping[Table, Callable[[], Iterator[pa.RecordBatch]]], proof: str
    ) -> None:
        self._reads = reads
        self._rows = {table.name: batches for table, batches in rows.items()}
        self._proof = proof

    def open_at_barrier(self) -> None:
        """There is nobody else."""

    def rows(self, number: int, *, proven: Callable[[str], None]) -> ArrowRows:
        proven(self._proof)
        read = self._reads[number]
        batches = self._rows[read.table.name]()
        picked = (in_segment(read.segment, read.table, batch, run_key="") for batch in batches)
        return ArrowRows(schema_of(read.table), picked)

    def close(self) -> None: ...
