"""A table of a database at a cut, or where its ledger stands still, as people read it: in the columns of a lake."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from seamline.domain.catalogue import Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import SchemaConflict
from seamline.sinks.lake.spark_types import Field, arrow_fields, stored_column_of, type_name

# A task that reads fewer rows takes longer to start than to read.
_ROWS_OF_PART = 100_000
_PARTS_MAX = 64


class RowsView(Protocol):
    """What a view of one snapshot is asked for here."""

    def key_span(self, table: str) -> tuple[int, int] | None: ...

    def typed_rows(self, table: Table, segment: Segment) -> Iterator[pa.RecordBatch]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SqlTable:
    """`kinds.reading.PinnedTable`. `definition`: as the database stores it. `rows`: how many its cut has; None of a
    live table. `open_view`: a session at the pinned place, which raises Refused where that is gone. It is made where
    the rows are read, so no secret is pickled with this.

    Parts are ranges of a key that begins with a whole number. Each part is read in a session of its own: they belong
    together because the rows of a cut never change.
    """

    definition: Table
    rows: int | None
    open_view: Callable[[], RowsView]

    @property
    def schema(self) -> pa.Schema:
        return arrow_fields([Field(one.name, type_name(one), one.nullable) for one in self.definition.columns])

    @property
    def parts(self) -> int:
        if self.rows is None:
            return 1
        wanted = min(-(-self.rows // _ROWS_OF_PART), _PARTS_MAX)
        return wanted if self._has_ranges else min(wanted, 1)

    @property
    def key(self) -> tuple[str, ...]:
        """`kinds.reading.KnowsKey`: that of the stored table, so a derived one has it too."""
        return self.definition.key

    @property
    def is_in_any_order(self) -> bool:
        """`kinds.reading.ReadsInAnyOrder`."""
        return True

    def batches(self, *, part: int = 0, of: int = 1) -> Iterator[pa.RecordBatch]:
        if part and not self._has_ranges:
            return
        with closing(self.open_view()) as view:
            segment = self._part(view, part, of) if of > 1 and self._has_ranges else Segment(self.definition.name)
            if segment is None:
                return
            for batch in view.typed_rows(self.definition, segment):
                yield self._shown(batch)

    def arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), self.schema)

    def _shown(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        schema = self.schema
        try:
            arrays = [
                stored_column_of(self.definition, column, values).cast(field.type)
                for column, values, field in zip(self.definition.columns, rows.columns, schema, strict=True)
            ]
        except SchemaConflict as exc:
            exc.hint = "read this column by SQL, where the database shows such values, or correct them at the source"
            raise
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    @property
    def _has_ranges(self) -> bool:
        return self.definition.is_keyed and self.definition.key_columns[0].kind is Kind.INTEGER

    def _part(self, view: RowsView, part: int, of: int) -> Segment | None:
        """The same in each session, for the rows of the cut are; None where there are none."""
        span = view.key_span(self.definition.name)
        if span is None:
            return None
        least, size = span[0], span[1] - span[0] + 1
        start, end = (least + size * number // of for number in (part, part + 1))
        return Segment(self.definition.name, key_from=start if part else None, key_below=end if part + 1 < of else None)
