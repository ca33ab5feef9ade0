"""A derived table of a cut as one DataFrame job: staged rows → groups and exact sums → its own staged table."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from seamline.domain.catalogue import Column
from seamline.kinds.derived import SUM_DIGITS, derived_table, frame_schema
from seamline.kinds.found import power, sink_kind
from seamline.kinds.sink import Derives
from seamline.plan.model import DerivedTablePlan, DestinationPlan
from seamline.ports import Load
from seamline.sync.derived import Derived

_WHAT = "compute derived tables"


def derive(
    spark: SparkSession,
    destination: DestinationPlan,
    derived: DerivedTablePlan,
    base: Load,
    *,
    run_id: str,
    position: str,
) -> Derived:
    """Compute a derived table from its staged base, stage it, and compare it with the base."""
    kind = power(sink_kind(destination.kind), Derives, to=_WHAT)
    table = derived_table(derived, base.table)
    rows = read_staged(spark, destination, base, [base.table.column(name) for name in (*derived.by, derived.column)])
    result = summed(rows, derived, scale=table.column(derived.column).scale).toArrow()
    made = kind.stage_derived(destination, table, result, run_id=run_id)
    verdict = kind.compare_derived(destination, derived, base=base, made=made, position=position)
    return Derived(made.staged_as, made.rows, verdict)


def read_staged(spark: SparkSession, destination: DestinationPlan, base: Load, columns: Sequence[Column]) -> DataFrame:
    """Columns of a staged table as a DataFrame, whose tasks read parts of it by the destination's own client."""
    kind = power(sink_kind(destination.kind), Derives, to=_WHAT)
    parts = kind.staged_parts(destination, base, parts_max=spark.sparkContext.defaultParallelism)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reading = power(sink_kind(destination.kind), Derives, to=_WHAT)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from reading.read_staged(destination, base, columns, parts[number])

    # One number per task; what it stands for travels with the function.
    numbers = spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(read, from_arrow_schema(frame_schema(columns)))


def summed(rows: DataFrame, derived: DerivedTablePlan, *, scale: int) -> DataFrame:
    """One row per group with the exact sum. Spark in ANSI mode fails where a sum has more than 38 digits."""
    wide = F.col(derived.column).cast(f"decimal({SUM_DIGITS},{scale})")
    return rows.groupBy(*derived.by).agg(F.sum(wide).alias(derived.column))
