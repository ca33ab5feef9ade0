"""Row images of a log → rows of transformed tables: a `ChangeDecoder` around that of the source."""

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
        if table.name in self.transforms and table.columns != self.transforms[table.name][1].planned.columns:
            source, _ = self.transforms[table.name]
            return self.decoder.rows(replace(source, columns=source.key_columns), images)
        rows, missing, _ = self.held(table, images, deleted=[False] * len(images))
        return rows, missing

    def held(
        self, table: Table, images: Sequence[bytes], *, deleted: Sequence[bool]
    ) -> tuple[pa.RecordBatch, pa.RecordBatch | None, pa.BooleanArray | None]:
        """`TakesRowsOut.held`. As in Spark, nothing is computed of a row that the condition does not accept. Nor of one
        that is deleted: the log may have its key alone."""
        if table.name not in self.transforms:
            return (*self.decoder.rows(table, images), None)
        source, transform = self.transforms[table.name]
        rows, missing = self.decoder.rows(source, images)
        lacking = {} if missing is None else _missing(transform, missing)
        computed = pa.array([not one for one in deleted], pa.bool_())
        accepted = None
        if transform.condition is not None:
            if lacking or (missing is not None and transform.condition.inputs & set(missing.schema.names)):
                raise InvariantViolated("a row that may have been filtered out lacks values", table=table.name)
            found = accepted_by(transform, source, rows.filter(computed))
            accepted = pc.fill_null(found.take(_places(computed)), pa.scalar(value=True))
            computed = pc.and_(computed, accepted)
        if computed.true_count == rows.num_rows:
            return (*_without(made_of(transform, source, rows), lacking), accepted)
        made, places = made_of(transform, source, rows.filter(computed)), _places(computed)
        arrays = [
            rows.column(source.columns.index(source.column(name))) if name in source.key else values.take(places)
            for name, values in zip(made.schema.names, made.columns, strict=True)
        ]
        return (*_without(pa.RecordBatch.from_arrays(arrays, schema=made.schema), lacking), accepted)


def _places(mask: pa.BooleanArray) -> pa.Array:
    """Where each row's value stands among those of the rows that `mask` has; NULL for the others."""
    numbers = pc.subtract(pc.cumulative_sum(pc.cast(mask, pa.int64())), 1)
    return pc.if_else(mask, numbers, pa.scalar(None, pa.int64()))


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
