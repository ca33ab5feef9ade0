"""A derived table of a cut as one DataFrame job: staged rows → what is computed of them → its own staged table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.cut_job import CutJob
from seamline.domain.errors import Refused, SchemaConflict, TransientError
from seamline.domain.verdict import TableVerdict
from seamline.kinds.derived import (
    BREAKS_LISTED,
    SUM_DIGITS,
    Row,
    derived_table,
    frame_schema,
    input_type,
    verdict_of_rows,
)
from seamline.kinds.found import power, sink_kind
from seamline.kinds.sink import Derives, KeepsColumnsOfDerived
from seamline.plan.model import DerivedTablePlan, DestinationPlan, SyncPlan
from seamline.ports import Load
from seamline.sync.derived import Derived
from seamline_spark.session import Application
from seamline_spark.transform.function import NoFrame
from seamline_spark.transform.job import AnalysedJob, analysed_job, frame_of, job_session
from seamline_spark.transform.spark_plan import Mistake, quoted, refused

_WHAT = "compute derived tables"
# SQLSTATE of what a value has caused: a cast, a division, a sum that does not fit.
_OF_A_VALUE = "22"
_WANTED, _FOUND = "seamline wanted", "seamline found"


def derive(
    spark: SparkSession,
    destination: DestinationPlan,
    derived: DerivedTablePlan,
    bases: Mapping[str, Load],
    *,
    run_id: str,
    position: str,
) -> Derived:
    """Compute a derived table from its staged bases, stage it, and compare it with what they give."""
    if derived.job is not None:
        return _by_job(spark, destination, derived, derived.job, bases, run_id=run_id, position=position)
    base = bases[derived.table]
    kind = power(sink_kind(destination.kind), Derives, to=_WHAT)
    table = derived_table(derived, base.table)
    rows = read_staged(spark, destination, base, [base.table.column(name) for name in (*derived.by, derived.column)])
    result = _collected(summed(rows, derived, scale=table.column(derived.column).scale), derived)
    made = kind.stage_derived(destination, table, result, run_id=run_id)
    verdict = kind.compare_derived(destination, derived, base=base, made=made, position=position)
    return Derived(made.staged_as, made.rows, verdict)


def require_publishable(application: Application, plan: SyncPlan, destination: DestinationPlan) -> None:
    """Judge before a night reads anything whether the tables that are derived from it can be published there. A plan is
    as old as its DAG file: a query may have been edited since the cuts that are there.

    SchemaConflict: a query is mistaken, or its result has other columns than before. Refused: as of `require_derived`.
    """
    kind = sink_kind(destination.kind)
    if not isinstance(kind, KeepsColumnsOfDerived):
        return
    tables = {one.name: one.target for one in plan.tables}
    made = [_target(application, one, tables) for one in plan.derived if tables.keys() >= set(one.bases)]
    if made:
        kind.require_derived(destination, plan.stream_id(destination.name), made)


def _target(application: Application, derived: DerivedTablePlan, tables: Mapping[str, Table]) -> Table:
    if derived.job is None:
        return derived_table(derived, tables[derived.table])
    return _analysed(application.session, derived.name, derived.job, [tables[name] for name in derived.bases]).target


def read_staged(spark: SparkSession, destination: DestinationPlan, base: Load, columns: Sequence[Column]) -> DataFrame:
    """Columns of a staged table as a DataFrame, whose tasks read parts of it by the destination's own client."""
    kind = power(sink_kind(destination.kind), Derives, to=_WHAT)
    parts = kind.staged_parts(destination, base, parts_max=spark.sparkContext.defaultParallelism)

    def read(number: int) -> Iterator[pa.RecordBatch]:
        reading = power(sink_kind(destination.kind), Derives, to=_WHAT)
        return reading.read_staged(destination, base, columns, parts[number])

    return _in_tasks(spark, len(parts), read, columns)


def summed(rows: DataFrame, derived: DerivedTablePlan, *, scale: int) -> DataFrame:
    """One row per group with the exact sum. Spark in ANSI mode fails where a sum has more than 38 digits."""
    wide = F.col(derived.column).cast(f"decimal({SUM_DIGITS},{scale})")
    return rows.groupBy(*derived.by).agg(F.sum(wide).alias(derived.column))


def _collected(rows: DataFrame, derived: DerivedTablePlan) -> pa.Table:
    """All rows, in the driver's memory. Refused: there are more than the plan allows; one more than that comes here."""
    found = rows.limit(derived.rows_max + 1).toArrow()
    if found.num_rows > derived.rows_max:
        of = derived.job.file if derived.job is not None else f"the sums of {derived.table}.{derived.column}"
        raise Refused(
            f"derived table {derived.name} has more than {derived.rows_max:,} rows ({of}), its rows_max: the driver of"
            " the night holds them all in memory",
            hint="let it give fewer rows, or declare a greater `rows_max` of it and give the driver the memory"
            " (spark.driver.memory, spark.driver.maxResultSize)",
            table=derived.name,
        )
    return found


def _in_tasks(
    spark: SparkSession, tasks: int, read: Callable[[int], Iterator[pa.RecordBatch]], columns: Sequence[Column]
) -> DataFrame:
    def each(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(number)

    # One number per task; what it stands for travels with the function.
    numbers = spark.range(0, tasks, 1, tasks)
    return numbers.mapInArrow(each, from_arrow_schema(frame_schema(columns)))


# ---- jobs -----------------------------------------------------------------------------------------------------------


def _by_job(
    spark: SparkSession,
    destination: DestinationPlan,
    derived: DerivedTablePlan,
    job: CutJob,
    bases: Mapping[str, Load],
    *,
    run_id: str,
    position: str,
) -> Derived:
    """The rows are computed a second time to be compared: nothing of the first time is kept."""
    kind = power(sink_kind(destination.kind), Derives, to=_WHAT)
    found = _analysed(spark, derived.name, job, [base.table for base in bases.values()])
    session = job_session(spark)
    frames = {
        name: _typed(read_staged(session, destination, base, found.reads[name] or _any_of(base.table)), base.table)
        for name, base in bases.items()
    }
    try:
        frame = frame_of(session, job, frames)
    except (PySparkException, NoFrame) as exc:
        raise _mistaken(
            derived.name, job, [refused(job.file, exc, cure="Make it without a look at the rows").mistake]
        ) from exc
    try:
        rows = _as_planned(frame, job, found.target)
        staged = _collected(rows.select(*map(_framed, found.target.columns)), derived)
        made = kind.stage_derived(destination, found.target, staged, run_id=run_id)
        verdict = _compared(rows, _read_back(session, destination, made), found.target, position=position)
    except PySparkException as exc:
        first = str(exc).strip().partition("\n")[0]
        if not (exc.getSqlState() or "").startswith(_OF_A_VALUE):
            raise TransientError(f"Spark did not compute {job.file}: {first}", table=derived.name) from exc
        raise SchemaConflict(f"{job.file} has no result for a row of the cut: {first}", table=derived.name) from exc
    return Derived(made.staged_as, made.rows, verdict)


def _analysed(spark: SparkSession, name: str, job: CutJob, tables: Sequence[Table]) -> AnalysedJob:
    """Once more after preflight: the text may have been edited since, and the tables loaded again."""
    found = analysed_job(spark, name, job, tables)
    if isinstance(found, AnalysedJob):
        return found
    raise _mistaken(name, job, found)


def _mistaken(name: str, job: CutJob, found: Sequence[Mistake]) -> SchemaConflict:
    return SchemaConflict(
        "; ".join(f"{job.file}:{one.line}  {one.what}" for one in found),
        hint="; ".join(dict.fromkeys(one.cure for one in found)),
        table=name,
    )


def _any_of(table: Table) -> Sequence[Column]:
    """Rows are counted by some column, which every destination must be able to give."""
    return [column for column in table.columns if input_type(column)][:1] or table.columns[:1]


def _typed(rows: DataFrame, table: Table) -> DataFrame:
    """The table as jobs see it. What the analysis has found to be read nowhere is not there, and ends Spark if it is
    read after all."""
    missing = F.raise_error(F.lit(f"a column of {table.name} that no part of the query reads was read"))
    return rows.select(
        *(
            (F.col(quoted(column.name)) if column.name in rows.columns else missing).cast(type_).alias(column.name)
            for column in table.columns
            if (type_ := input_type(column))
        )
    )


def _as_planned(rows: DataFrame, job: CutJob, target: Table) -> DataFrame:
    """The rows in the types of the target. A function may look at the frames that it is given."""
    names = tuple(column.name for column in target.columns)
    if tuple(rows.columns) != names:
        raise SchemaConflict(
            f"{job.file} gives columns {', '.join(rows.columns)} of a cut, and {', '.join(names)} of empty tables",
            hint="make its columns without a look at the rows",
            table=target.name,
        )
    return rows.select(*(_of(column).cast(input_type(column)).alias(column.name) for column in target.columns))


def _framed(column: Column) -> SparkColumn:
    """A column of the target in `frame_schema`."""
    type_ = from_arrow_schema(frame_schema([column])).fields[0].dataType
    # Not every destination reads `true`.
    value = _of(column).cast("int") if column.kind is Kind.BOOLEAN else _of(column)
    return value.cast(type_).alias(column.name)


def _of(column: Column) -> SparkColumn:
    return F.col(quoted(column.name))


def _read_back(spark: SparkSession, destination: DestinationPlan, made: Load) -> DataFrame:
    def read(_: int) -> Iterator[pa.RecordBatch]:
        return power(sink_kind(destination.kind), Derives, to=_WHAT).read_derived(destination, made)

    return _typed(_in_tasks(spark, 1, read, made.table.columns), made.table)


def _compared(wanted: DataFrame, found: DataFrame, table: Table, *, position: str) -> TableVerdict:
    """Both sides as multisets: how often each has a row."""
    names = [quoted(column.name) for column in table.columns]
    sides = (
        side.select("*", F.lit(is_wanted).alias(_WANTED), F.lit(1 - is_wanted).alias(_FOUND))
        for side, is_wanted in ((wanted, 1), (found, 0))
    )
    first, second = sides
    mine, theirs = F.col(quoted(_WANTED)), F.col(quoted(_FOUND))
    rows = first.unionAll(second).groupBy(*names).agg(F.sum(mine).alias(_WANTED), F.sum(theirs).alias(_FOUND))
    (total,) = rows.agg(F.sum(mine), F.sum(theirs), F.count_if(mine != theirs)).collect()
    missing: Sequence[Row] = ()
    unexpected: Sequence[Row] = ()
    if total[2]:
        texts = [
            F.col(name).cast("string").alias(column.name) for name, column in zip(names, table.columns, strict=True)
        ]
        missing = _listed(rows.where(mine > theirs).select(*texts))
        unexpected = _listed(rows.where(mine < theirs).select(*texts))
    return verdict_of_rows(
        table,
        counts=(total[0] or 0, total[1] or 0),
        differing=total[2],
        missing=missing,
        unexpected=unexpected,
        position=position,
    )


def _listed(rows: DataFrame) -> Sequence[Row]:
    return [row.asDict() for row in rows.limit(BREAKS_LISTED).collect()]
