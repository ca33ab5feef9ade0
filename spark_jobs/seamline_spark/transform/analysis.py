"""What a `transform:` means by Spark's analysis over an empty frame: nothing is read, and no job runs.

A query, or a function of a frame, is taken where its plan is projections and filters over the one table, its keys are
passed on, and all its expressions are among those that `seamline.transform.evaluate` computes exactly as Spark does.
Everything else is a `Mistake` with its line.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from seamline.domain.catalogue import NAME_BYTES_MAX, Table
from seamline.domain.row_transform import Expression, RowTransform, spark_type
from seamline_spark.transform.function import NoFrame, by_function
from seamline_spark.transform.operations import Unsupported, expression_of
from seamline_spark.transform.spark_plan import (
    Mistake,
    MistakeFound,
    analysed_plan,
    class_of,
    each,
    first_line,
    line_of,
    queried,
    quoted,
    refused,
)
from seamline_spark.transform.target import target_of

# What stands for a column that no expression may have as its input.
_OPAQUE = "string"
_LEAVES = ("LogicalRDD", "LocalRelation")
_JOB = (
    "joins, aggregates, windows, DISTINCT, LIMIT and subqueries need more than one row: a transform of a stream has"
    " projections and filters of one table; compute the rest from the cut, as `derived:`"
)


@dataclass(slots=True)
class _Row:
    """What a row of the plan has: expressions by Spark's ids, and the conditions on the way."""

    by_id: dict[int | str, Expression]
    conditions: list[Expression] = field(default_factory=list)
    # Of the first of them.
    line: int = 1


def analysed(session: SparkSession, source: Table, transform: RowTransform) -> RowTransform | list[Mistake]:
    """The transform with its target, or all that is wrong with it as far as it can be seen."""
    try:
        plan, start = _plan(session, source, transform)
        names, row, made = _walk(plan, source, start)
        condition = _joined(row.conditions)
    except MistakeFound as found:
        return [found.mistake]
    faults = [
        *_faults(source, names, made),
        *_missing_values(source, made, (condition, row.line) if condition else None),
    ]
    if faults:
        return faults
    target = target_of(source, [(name, one, nullable) for name, (one, nullable, _) in zip(names, made, strict=True)])
    return replace(transform, target=target, columns=tuple(one for one, _, _ in made), condition=condition)


# ---- Spark's plan ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Start:
    """The frame that stands for the table: the leaf of its plan, and the source's columns by the ids that Spark gives
    them there."""

    leaf: Any
    columns: Mapping[int, Expression]


def _plan(session: SparkSession, source: Table, transform: RowTransform) -> tuple[Any, _Start]:
    # The session is the analysis's own. Upper and lower case are two names here.
    session.conf.set("spark.sql.caseSensitive", "true")
    schema = StructType(
        [
            StructField(column.name, _parse_datatype_string(spark_type(column) or _OPAQUE), column.nullable)
            for column in source.columns
        ]
    )
    frame = session.createDataFrame([], schema)
    (leaf,) = each(analysed_plan(frame).collectLeaves())
    columns = {
        one.exprId().id(): Expression("column", spark_type(column), value=column.name)
        for one, column in zip(each(leaf.output()), source.columns, strict=True)
    }
    try:
        if transform.is_function:
            made = by_function(transform.file, transform.text, frame)
        else:
            made = _queried(session, source, transform, frame)
        return analysed_plan(made), _Start(leaf, columns)
    except (PySparkException, NoFrame) as exc:
        raise refused(transform.file, exc, cure=_reads(source)) from exc


def _reads(source: Table) -> str:
    return f"It reads table `{source.name}` and no other. What needs more tables, as a join, is a job under `derived`"


def _queried(session: SparkSession, source: Table, transform: RowTransform, frame: DataFrame) -> DataFrame:
    frame.createOrReplaceTempView(quoted(source.name))
    try:
        return queried(session, transform.text)
    finally:
        # Unlike the maker of a view, this takes the name as it is.
        session.catalog.dropTempView(source.name)


_Made = tuple[Expression, bool, int]


def _walk(plan: Any, source: Table, start: _Start) -> tuple[list[str], _Row, list[_Made]]:
    """Names, rows, and per column its expression, whether it may be NULL, and its line."""
    row = _rows_of(plan, source, start)
    outputs = list(each(plan.output()))
    lines = _lines(plan)
    made = [
        (row.by_id[one.exprId().id()], bool(one.nullable()), lines.get(one.exprId().id()) or line_of(plan) or 1)
        for one in outputs
    ]
    return [str(one.name()) for one in outputs], row, made


def _rows_of(plan: Any, source: Table, start: _Start) -> _Row:
    kind = class_of(plan)
    if kind in ("SubqueryAlias", "View"):
        (child,) = each(plan.children())
        return _passing(plan, _rows_of(child, source, start))
    if kind in _LEAVES:
        return _leaf(plan, source, start)
    if kind == "Filter":
        row = _rows_of(plan.child(), source, start)
        row.line = row.line if row.conditions else line_of(plan.condition()) or 1
        row.conditions.append(_made(plan.condition(), row, source))
        return row
    if kind == "Project":
        row = _rows_of(plan.child(), source, start)
        return _Row(
            {one.exprId().id(): _made(one, row, source) for one in each(plan.projectList())}, row.conditions, row.line
        )
    raise MistakeFound(first_line(plan), f"{kind} is not row by row", _JOB)


def _leaf(plan: Any, source: Table, start: _Start) -> _Row:
    """The table itself. Another leaf holds whatever its author has put there, also under the ids of the frame."""
    if not plan.equals(start.leaf):
        raise MistakeFound(
            first_line(plan),
            f"it has rows that do not come from `{source.name}`",
            "Make every column of the frame or the table that is given, by expressions: no VALUES, no createDataFrame,"
            " no RDD, no checkpoint",
        )
    return _Row(dict(start.columns))


def _passing(plan: Any, row: _Row) -> _Row:
    """A view may give its columns other ids; they stand in the same order."""
    child = list(each(plan.child().output()))
    for one, inner in zip(each(plan.output()), child, strict=True):
        row.by_id.setdefault(one.exprId().id(), row.by_id[inner.exprId().id()])
    return row


def _made(node: Any, row: _Row, source: Table) -> Expression:
    try:
        return expression_of(node, row.by_id, source)
    except Unsupported as exc:
        raise MistakeFound(line_of(exc.node) or line_of(node) or 1, exc.what, exc.cure) from exc


def _joined(conditions: Sequence[Expression]) -> Expression | None:
    """Those nearest to the table first: what they reject is not asked for the others."""
    joined: Expression | None = None
    for one in conditions:
        joined = one if joined is None else Expression("and", "boolean", (joined, one))
    return joined


def _lines(plan: Any) -> Mapping[int, int]:
    """By Spark's ids the lines of what the outermost projection makes."""
    while class_of(plan) in ("Filter", "SubqueryAlias"):
        plan = plan.child()
    if class_of(plan) != "Project":
        return {}
    return {one.exprId().id(): line_of(one) for one in each(plan.projectList())}


# ---- what a target must be ------------------------------------------------------------------------------------------


def _faults(source: Table, names: Sequence[str], made: Sequence[_Made]) -> Iterator[Mistake]:
    by_name: dict[str, _Made] = {}
    for name, one in zip(names, made, strict=True):
        if name in by_name:
            yield Mistake(one[2], f"two columns are called {name}", "Give one of them another name by AS")
        if one[0].type == "void":
            yield Mistake(one[2], f"{name} is NULL of no type", "Write CAST(NULL AS …)")
        if len(name.encode()) > NAME_BYTES_MAX:
            yield Mistake(one[2], f"{name} is longer than {NAME_BYTES_MAX} bytes", "Give it a shorter name by AS")
        by_name[name] = one
    for key in source.key:
        cure = f"Write `{key}` into the SELECT as it is: by its key a row is found again"
        if key not in by_name:
            yield Mistake(1, f"{key} is of the key of {source.name}, and the query does not give it", cure)
        elif not by_name[key][0].is_passed_on or by_name[key][0].value != key:
            yield Mistake(by_name[key][2], f"{key} is of the key of {source.name}, and the query computes it", cure)


def _missing_values(
    source: Table, made: Sequence[_Made], condition: tuple[Expression, int] | None
) -> Iterator[Mistake]:
    """The log of PostgreSQL leaves out large values that an update did not change. What is computed from one column
    alone has then not changed either; else the value would be needed."""
    if not source.is_keyed:
        return
    # The log has the key of every row.
    toastable = {column.name for column in source.columns if column.toastable and column.name not in source.key}
    cure = "Compute it from this column alone, or pass the column on"
    for one, _, line in made:
        if len(one.inputs) > 1 and (left_out := sorted(one.inputs & toastable)):
            what = f"the log may leave out {left_out[0]}, and the expression needs {', '.join(sorted(one.inputs))}"
            yield Mistake(line, what, cure)
    if condition is None:
        return
    needed = condition[0].inputs.union(*(one.inputs for one, _, _ in made))
    if left_out := sorted(needed & toastable):
        what = f"the log may leave out {left_out[0]} of a row that WHERE has kept out of the destination until now"
        yield Mistake(
            condition[1], what, "Take this column, and others of a type of any length, out of the query, or WHERE"
        )
