"""What a derived table's `transform:` means by Spark's analysis over empty frames: nothing is read, and no job runs.

A query, or a function of frames, is taken where its plan gives the same rows from the same tables each time: Spark
computes it twice, and no order of rows or of additions may matter. Everything else is a `Mistake` with its line.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, _parse_datatype_string

from seamline.domain.catalogue import NAME_BYTES_MAX, Column, Table
from seamline.domain.cut_job import CutJob
from seamline.kinds.derived import input_type
from seamline_spark.transform.function import NoFrame, by_function
from seamline_spark.transform.operations import is_same_every_time
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
from seamline_spark.transform.target import computed_column, is_held

_TABLE = "LogicalRDD"
# Rows that a query has in itself.
_WRITTEN = frozenset({"LocalRelation", "OneRowRelation"})
_ONE_BY_ONE = frozenset({"Filter", "Project", "Sort", "SubqueryAlias", "View", "Window", _TABLE})
_NODES = _ONE_BY_ONE | frozenset(
    {"Aggregate", "CTERelationDef", "CTERelationRef", "Distinct", "Except", "Expand", "Generate", "Intersect", "Join"}
    | {"ResolvedHint", "Union", "WithCTE"}
)
_ADDED = frozenset({"Average", "Sum"})
_AGGREGATES = _ADDED | frozenset(
    {"BitAndAgg", "BitOrAgg", "BitXorAgg", "BoolAnd", "BoolOr", "Count", "CountIf", "Max", "Min"}
)
# They give rows of one place in the order the same number.
_RANKS = frozenset({"CumeDist", "DenseRank", "PercentRank", "Rank"})
_CURE_ORDER = "Order it by a key of its one table as well, or use rank()"


@dataclass(frozen=True, slots=True)
class AnalysedJob:
    """`reads`: by name of each table the columns that the job needs of it."""

    target: Table
    reads: Mapping[str, tuple[Column, ...]]


def job_session(spark: SparkSession) -> SparkSession:
    """A session with views of its own, to which upper and lower case are two names."""
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    return session


def analysed_job(
    spark: SparkSession, name: str, job: CutJob, tables: Sequence[Table]
) -> AnalysedJob | Sequence[Mistake]:
    """The job by which the derived table of this name is computed, or all that is wrong with it as far as it can be
    seen. `tables`: those that it names, as destinations hold them."""
    session = job_session(spark)
    frames = {table.name: _empty(session, table) for table in tables}
    leaves = {_rows_id(_leaf(frames[table.name])): table for table in tables}
    try:
        plan = analysed_plan(frame_of(session, job, frames))
        analysis = _Analysis(plan, leaves, is_function=job.is_function)
        faults = list(analysis.faults())
    except (PySparkException, NoFrame) as exc:
        return [refused(job.file, exc, cure=_readable(tables)).mistake]
    except MistakeFound as found:
        return [found.mistake]
    return faults or AnalysedJob(analysis.target(name), _reads(session, job, tables))


def _reads(session: SparkSession, job: CutJob, tables: Sequence[Table]) -> Mapping[str, tuple[Column, ...]]:
    """Of each table the columns that the job reads. Where a column is never NULL, Spark takes `count(x)` for `count(*)`
    and reads nothing of it; the rows of a cut come from tasks, and there any column may be NULL."""
    frames = {table.name: _empty(session, _nullable(table)) for table in tables}
    needed = _needed(frame_of(session, job, frames))
    of_table = {table.name: needed.get(_rows_id(_leaf(frames[table.name])), set()) for table in tables}
    return {
        table.name: tuple(column for column in table.columns if column.name in of_table[table.name]) for table in tables
    }


def _nullable(table: Table) -> Table:
    return replace(table, columns=tuple(replace(column, nullable=True) for column in table.columns), key=())


def frame_of(session: SparkSession, job: CutJob, frames: Mapping[str, DataFrame]) -> DataFrame:
    """What the job makes of the frames of its tables, by their names. They are the session's, which is a `job_session`.

    PySparkException and NoFrame: it is mistaken. MistakeFound: it is no query.
    """
    if job.is_function:
        return by_function(job.file, job.text, frames)
    for name, frame in frames.items():
        frame.createOrReplaceTempView(quoted(name))
    return queried(session, job.text)


def _empty(session: SparkSession, table: Table) -> DataFrame:
    fields = [
        StructField(column.name, _parse_datatype_string(type_), column.nullable)
        for column in table.columns
        if (type_ := input_type(column))
    ]
    return session.createDataFrame([], StructType(fields))


def _readable(tables: Sequence[Table]) -> str:
    """What there is to read, for whoever has named something else."""
    names = ", ".join(table.name for table in tables)
    hidden = [
        f"{table.name}.{one.name} ({one.source_type})"
        for table in tables
        for one in table.columns
        if not input_type(one)
    ]
    kept = f". Spark does not hold every value of {', '.join(hidden)}: these columns are not there" if hidden else ""
    return f"It reads tables of the sync that are not parked, here {names or 'none'}{kept}"


def _leaf(frame: DataFrame) -> Any:
    (leaf,) = each(analysed_plan(frame).collectLeaves())
    return leaf


def _rows_id(leaf: Any) -> int:
    """It stays the same where a plan has the table more than once."""
    return int(leaf.rdd().id())


def _nodes(plan: Any) -> Iterator[Any]:
    """Of the plan and of its subqueries, those below first."""
    for child in (*each(plan.children()), *each(plan.subqueries())):
        yield from _nodes(child)
    yield plan


def _expressions(node: Any) -> Iterator[Any]:
    yield node
    for child in each(node.children()):
        yield from _expressions(child)


def _needed(frame: DataFrame) -> Mapping[int, set[str]]:
    """By table, as `_rows_id` names it, the columns that are left once Spark has pruned the plan."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    nodes = list(_nodes(plan))
    asked = _ids(plan.output())
    for node in nodes:
        asked |= _ids(node.references().toSeq())
        # Columns that are taken by their places.
        asked = asked.union(*(_ids(query.output()) for query in each(node.subqueries())))
        if class_of(node) == "Union":
            asked = asked.union(*(_ids(child.output()) for child in each(node.children())))
    found: dict[int, set[str]] = {}
    for node in nodes:
        if class_of(node) == _TABLE:
            names = {str(one.name()) for one in each(node.output()) if one.exprId().id() in asked}
            found.setdefault(_rows_id(node), set()).update(names)
    return found


def _ids(attributes: Any) -> set[int]:
    return {one.exprId().id() for one in each(attributes)}


class _Analysis:
    """Of a plan over the tables whose leaves these are, by `_rows_id`."""

    def __init__(self, plan: Any, leaves: Mapping[int, Table], *, is_function: bool) -> None:
        self._plan, self._leaves, self._is_function = plan, leaves, is_function
        self._nodes = list(_nodes(plan))
        # By Spark's ids: what each column of a table is there, and which column another one is by another name.
        self._columns: dict[int, Column] = {}
        self._renamed: dict[int, int] = {}
        self._lines: dict[int, int] = {}
        for node in self._nodes:
            self._take(node)

    def _take(self, node: Any) -> None:
        if (table := self._table_of(node)) is not None:
            for one in each(node.output()):
                self._columns[one.exprId().id()] = table.column(str(one.name()))
        elif class_of(node) in ("Project", "Aggregate"):
            for one in each(node.projectList() if class_of(node) == "Project" else node.aggregateExpressions()):
                self._lines[one.exprId().id()] = line_of(one)
                if class_of(one) == "Alias" and class_of(one.child()) == "AttributeReference":
                    self._renamed[one.exprId().id()] = one.child().exprId().id()

    def _table_of(self, node: Any) -> Table | None:
        return self._leaves.get(_rows_id(node)) if class_of(node) == _TABLE else None

    def _first(self, id_: int) -> int:
        """The id by which a column was first known."""
        while id_ in self._renamed:
            id_ = self._renamed[id_]
        return id_

    # ---- the same rows each time ------------------------------------------------------------------------------------

    def faults(self) -> Iterator[Mistake]:
        if not any(self._table_of(node) is not None for node in self._nodes):
            yield Mistake(1, "it reads no table of the sync", "Compute it from the tables of the cut")
        for node in self._nodes:
            yield from self._of_node(node)
        yield from self._of_columns()

    def _of_columns(self) -> Iterator[Mistake]:
        seen: set[str] = set()
        for one in each(self._plan.output()):
            name, spark = str(one.name()), str(one.dataType().simpleString())
            line = self._lines.get(one.exprId().id()) or first_line(self._plan)
            if name in seen:
                yield Mistake(line, f"two columns are called {name}", "Give one of them another name by AS")
            seen.add(name)
            if spark == "void":
                yield Mistake(line, f"{name} is NULL of no type", "Write CAST(NULL AS …)")
            elif not is_held(spark) or not input_type(computed_column(name, spark)):
                cure = "Cast to decimal, a whole number, text or a date"
                yield Mistake(line, f"{name} is of type {spark}, which destinations do not hold exactly", cure)
            if len(name.encode()) > NAME_BYTES_MAX:
                yield Mistake(line, f"{name} is longer than {NAME_BYTES_MAX} bytes", "Give it a shorter name by AS")

    def _of_node(self, node: Any) -> Iterator[Mistake]:
        kind = class_of(node)
        if (kind == _TABLE and self._table_of(node) is None) or (kind in _WRITTEN and self._is_function):
            yield Mistake(
                first_line(node),
                "it has rows that do not come from tables of the sync",
                "Make every column of the frames that are given: no createDataFrame, no RDD, no checkpoint, no files",
            )
        elif kind not in _NODES | _WRITTEN:
            yield Mistake(
                first_line(node),
                f"{kind} is not taken: which rows it gives may depend on the order in which Spark reads them",
                "Write joins, aggregates, windows, DISTINCT and set operations; no LIMIT, no sample, no Python UDF",
            )
        for root in each(node.expressions()):
            for one in _expressions(root):
                if (found := self._of_expression(one, node)) is not None:
                    yield Mistake(line_of(one) or line_of(root) or first_line(node), *found)

    def _of_expression(self, one: Any, node: Any) -> tuple[str, str] | None:
        """What is wrong with it, and the cure."""
        kind = class_of(one)
        shown = str(one.sql())[:80]
        if "UDF" in kind or "UDAF" in kind:
            return f"{shown}: a function of your own may give another value each time", "Write it by Spark's functions"
        if not is_same_every_time(one):
            cure = "Compute from columns and literals alone"
            return f"{shown} gives another value each time: nothing could be proven of it", cure
        if kind == "AggregateExpression":
            return self._of_aggregate(one.aggregateFunction(), shown)
        if kind == "WindowExpression" and self._depends_on_ties(one, node):
            return f"{shown} depends on the order of rows that its ORDER BY does not tell apart", _CURE_ORDER
        return None

    def _of_aggregate(self, function: Any, shown: str) -> tuple[str, str] | None:
        kind = class_of(function)
        if kind not in _AGGREGATES:
            known = "sum, count, count_if, min, max, avg, bool_and, bool_or, bit_and, bit_or and bit_xor"
            return f"{shown}: what {kind} gives may depend on the order of rows", f"Possible are {known}"
        of = str(function.child().dataType().simpleString()) if kind in _ADDED else ""
        if of in ("float", "double"):
            return f"{shown} adds up {of}, whose sum depends on the order of rows", "Cast to decimal before"
        if kind == "Average" and not of.startswith("decimal("):
            cure = "Write avg(CAST(… AS DECIMAL(20,0)))"
            return f"{shown} adds up {of} as double, whose sum depends on the order of rows", cure
        return None

    def _depends_on_ties(self, window: Any, node: Any) -> bool:
        function, spec = window.windowFunction(), window.windowSpec()
        if class_of(function) in _RANKS:
            return False
        frame = spec.frameSpecification()
        if class_of(function) == "AggregateExpression":
            is_whole = class_of(frame.lower()) + class_of(frame.upper()) == "UnboundedPreceding$UnboundedFollowing$"
            if is_whole or class_of(frame.frameType()) == "RangeFrame$":
                return False
        below = list(_nodes(node))
        tables = [table for one in below if (table := self._table_of(one)) is not None]
        if any(class_of(one) not in _ONE_BY_ONE for one in below) or len(tables) != 1 or not tables[0].is_keyed:
            return True
        ordered = [one.child() for one in each(spec.orderSpec())]
        told_apart = {
            self._columns[first].name
            for one in (*each(spec.partitionSpec()), *ordered)
            if class_of(one) == "AttributeReference" and (first := self._first(one.exprId().id())) in self._columns
        }
        return not set(tables[0].key) <= told_apart

    # ---- the table that it makes ------------------------------------------------------------------------------------

    def target(self, name: str) -> Table:
        """Its key is that of the groups, where these are columns of tables, are all given and are never NULL."""
        outputs = list(each(self._plan.output()))
        columns = tuple(map(self._column, outputs))
        groups = self._groups()
        first = [self._first(one.exprId().id()) for one in outputs]
        key = tuple(columns[first.index(group)].name for group in groups if group in first)
        is_key = bool(groups) and len(key) == len(groups) and all(group in self._columns for group in groups)
        made = Table(name, columns)
        return replace(made, key=key) if is_key and not any(made.column(one).nullable for one in key) else made

    def _column(self, output: Any) -> Column:
        nullable, spark = bool(output.nullable()), str(output.dataType().simpleString())
        name = str(output.name())
        column = self._columns.get(self._first(output.exprId().id()))
        if column is not None:
            return replace(column, name=name, nullable=nullable, source_name="", toastable=False)
        return replace(computed_column(name, spark), nullable=nullable)

    def _groups(self) -> Sequence[int]:
        """The columns by which the outermost aggregate groups; none where something else is grouped by."""
        node = self._plan
        while class_of(node) in ("Filter", "Project", "Sort", "SubqueryAlias", "WithCTE"):
            (*_, node) = each(node.children())
        if class_of(node) != "Aggregate":
            return ()
        by = list(each(node.groupingExpressions()))
        if any(class_of(one) != "AttributeReference" for one in by):
            return ()
        return list(dict.fromkeys(self._first(one.exprId().id()) for one in by))
