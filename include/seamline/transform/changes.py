"""Row images of a log → rows of transformed tables: a `ChangeDecoder` around that of the source."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Table
from seamline.domain.errors import InvariantViolated
from seamline.domain.row_transform import RowTransform
from seamline.transform.rows import accepted_by, made_of
from seamline.values.changes import ChangeDecoder


@dataclass(frozen=True, slots=True)
class TransformedChanges:
    """`decoder`: of the source's own tables. `transforms`: by name of table its source and its transform."""

    decoder: ChangeDecoder
    transforms: Mapping[str, tuple[Table, RowTransform]]

    def rows(self, table: Table, images: Sequence[bytes]) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """`ChangeDecoder.rows`: `table` is the target. Its key alone may be asked for, which is the source's."""
        if table.name not in self.transforms:
            return self.decoder.rows(table, images)
        source, transform = self.transforms[table.name]
        if table.columns != transform.planned.columns:
            return self.decoder.rows(replace(source, columns=source.key_columns), images)
        rows, missing = self.decoder.rows(source, images)
        made = made_of(transform, source, rows)
        return (made, None) if missing is None else _without(made, _missing(transform, missing))

    def held(
        self, table: Table, images: Sequence[bytes]
    ) -> tuple[pa.RecordBatch, pa.RecordBatch | None, pa.BooleanArray | None]:
        """`TakesRowsOut.held`. As in Spark, nothing is computed of a row that the condition does not accept."""
        source, transform = self.transforms.get(table.name, (table, None))
        if transform is None or transform.condition is None:
            return (*self.rows(table, images), None)
        rows, missing = self.decoder.rows(source, images)
        if missing is not None:
            raise InvariantViolated("a row that may have been filtered out lacks values", table=table.name)
        accepted = accepted_by(transform, source, rows)
        made = made_of(transform, source, rows.filter(accepted))
        numbers = itertools.count()
        places = pa.array([next(numbers) if one else None for one in accepted.to_pylist()], pa.int64())
        arrays = [
            rows.column(source.columns.index(source.column(name))) if name in source.key else values.take(places)
            for name, values in zip(made.schema.names, made.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=made.schema), None, accepted


def _missing(transform: RowTransform, missing: pa.RecordBatch) -> dict[str, pa.BooleanArray]:
    """By the target's columns. One that is computed from a single column has not changed where that has not, so the
    stored value stands for it; from several columns none is that the log may leave out."""
    names = frozenset(missing.schema.names)
    pairs = zip(transform.planned.columns, transform.columns, strict=True)
    return {
        column.name: missing.column(next(iter(lacking))) for column, one in pairs if (lacking := one.inputs & names)
    }


def _without(
    rows: pa.RecordBatch, missing: Mapping[str, pa.BooleanArray]
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The rows with NULL where a value is missing: an expression may make a value of NULL."""
    if not missing:
        return rows, None
    arrays = [
        pc.if_else(missing[field.name], pa.scalar(None, field.type), values) if field.name in missing else values
        for field, values in zip(rows.schema, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema), pa.RecordBatch.from_pydict(dict(missing))
