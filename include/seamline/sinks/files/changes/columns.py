"""Columns of a change file: what happened stands before the row's own columns.

A change file is written and read as a table of its own, so each type stands in it as in the files of a cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from seamline.domain.catalogue import Column, Kind, Table
from seamline.values.arrow import arrow_type, schema_of

OP, COMMIT, ORDER, OFFSET, POSITION, COMMITTED_AT, COPIES, BEFORE = (
    "_op",
    "_commit",
    "_order",
    "_offset",
    "_position",
    "_committed_at",
    "_copies",
    "_before",
)
# Debezium's letters: a row was read by a load, comes, changes, goes; the table was emptied.
READ, COMES, CHANGES, GOES, TRUNCATED = "r", "c", "u", "d", "t"

_WHOLE = 64
_CONTROL = (
    Column(OP, Kind.STRING, "text", nullable=False),
    Column(COMMIT, Kind.INTEGER, "bigint", nullable=False, length=_WHOLE),
    Column(ORDER, Kind.INTEGER, "bigint", nullable=False, length=_WHOLE),
    Column(OFFSET, Kind.INTEGER, "bigint", length=_WHOLE),
    Column(POSITION, Kind.STRING, "text", nullable=False),
    Column(COMMITTED_AT, Kind.INSTANT, "timestamp(6) with time zone", precision=6),
)
_COPIES = Column(COPIES, Kind.INTEGER, "bigint", nullable=False, length=_WHOLE)
_BEFORE = Column(BEFORE, Kind.STRING, "text")
RESERVED = frozenset(column.name for column in (*_CONTROL, _COPIES, _BEFORE))


@dataclass(frozen=True, slots=True)
class ChangeForm:
    """How changes of a table stand in its files. `has_before`: with the row as it was before each commit that changes
    it or lets it go. A row without a key that goes is that itself, so such tables have none."""

    table: Table
    has_before: bool = False

    @property
    def changes(self) -> Table:
        """The table whose rows are the changes. A row that goes has its key alone, so all columns take NULL."""
        control = [*_CONTROL, *([] if self.table.is_keyed else [_COPIES]), *([_BEFORE] if self.has_before else [])]
        return Table(self.table.name, (*control, *(replace(column, nullable=True) for column in self.table.columns)))

    def with_control(
        self, rows: pa.RecordBatch | None, control: "Mapping[str, pa.Array | pa.Scalar]", count: int
    ) -> pa.RecordBatch:
        """Changes as a file has them. `control`: by column, one value for all or one for each; what is left out is
        NULL. `rows`: None where the changes are of no row."""
        of = self.changes
        arrays = []
        for column in of.columns:
            if column.name in control:
                value = control[column.name]
                whole = pa.repeat(value, count) if isinstance(value, pa.Scalar) else value
                arrays.append(whole.cast(arrow_type(column)))
            elif column.name in RESERVED or rows is None:
                arrays.append(pa.nulls(count, arrow_type(column)))
            else:
                arrays.append(rows.column(column.name))
        return pa.RecordBatch.from_arrays(arrays, schema=schema_of(of))


def rows_in(table: Table, changes: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of these changes, without what happened to them."""
    return pa.RecordBatch.from_arrays(
        [changes.column(column.name) for column in table.columns], schema=schema_of(table)
    )
