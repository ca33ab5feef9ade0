"""Rows of a table of the source → rows of its target, by a transform: the one function that load, stream and comparison
share.

A column that is passed on is handed on as it is. Inputs of expressions are looked at first: a value that is special in
the typed form, as an infinite date, is a plain number to Spark and to Arrow, so it ends the load or the stream by name.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.domain.row_transform import Expression, RowTransform, spark_type
from seamline.transform.evaluate import NoResult, Rows, arrow_type_of, evaluated
from seamline.values.arrow import arrow_type, schema_of
from seamline.values.special import has_special

_SHOWN_MAX = 200


def made_of(transform: RowTransform, source: Table, rows: pa.RecordBatch) -> pa.RecordBatch:
    """A row of the target for each of `rows`.

    SchemaConflict: an input holds a special value, or an expression has no result for a value.
    """
    inputs = _inputs(transform, source, rows, [one for one in transform.columns if not one.is_passed_on])
    target = transform.planned
    arrays = [
        rows.column(source.columns.index(source.column(one.value or "")))
        if one.is_passed_on
        else _computed(transform, source, one, inputs, arrow_type(column))
        for one, column in zip(transform.columns, target.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(target))


def accepted_by(transform: RowTransform, source: Table, rows: pa.RecordBatch) -> pa.BooleanArray:
    """Which of the source's rows the target holds: those for which the condition is true. Raises as `made_of`."""
    if transform.condition is None:
        return pa.repeat(pa.scalar(value=True), rows.num_rows)
    inputs = _inputs(transform, source, rows, [transform.condition])
    return pc.fill_null(_computed(transform, source, transform.condition, inputs, pa.bool_()), pa.scalar(value=False))


def target_rows(transform: RowTransform, source: Table, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The target's rows. As in Spark, nothing is computed of a row that the condition does not accept."""
    for batch in batches:
        held = batch if transform.condition is None else batch.filter(accepted_by(transform, source, batch))
        yield made_of(transform, source, held)


def _inputs(transform: RowTransform, source: Table, rows: pa.RecordBatch, expressions: Sequence[Expression]) -> Rows:
    """What expressions are computed from, each column in the Arrow type of its Spark type."""
    names = frozenset[str]().union(*(one.inputs for one in expressions))
    chosen = [(column, rows.column(n)) for n, column in enumerate(source.columns) if column.name in names]
    return Rows({column.name: _input(transform, source, column, values) for column, values in chosen}, rows.num_rows)


def _input(transform: RowTransform, source: Table, column: Column, values: pa.Array) -> pa.Array:
    if has_special(column, values):
        raise SchemaConflict(
            f"column {column.name} of {source.name} holds a value (as infinity or NaN) that {transform.file} has no"
            " meaning for",
            hint="pass the column on unchanged, or correct the value at the source",
            table=source.name,
        )
    if column.kind is Kind.CHAR:
        # Its padding carries no meaning, and reads and logs need not agree on it.
        return pc.utf8_rtrim(values, " ")
    made = arrow_type_of(spark_type(column))
    return values if values.type == made else pc.cast(values, made)


def _computed(transform: RowTransform, source: Table, one: Expression, inputs: Rows, of: pa.DataType) -> pa.Array:
    try:
        return pc.cast(evaluated(one, inputs), of)
    except NoResult as exc:
        raise SchemaConflict(
            f"{transform.file} has no result for a row of {source.name}: {str(exc)[:_SHOWN_MAX]}",
            hint="correct the value at the source, or widen the expression (a cast to decimal(38,0), say) and load the"
            " table again",
            table=source.name,
        ) from exc
