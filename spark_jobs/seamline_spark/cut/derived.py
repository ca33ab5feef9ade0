"""A derived table of a cut as one DataFrame job: staged rows → groups and exact sums → its own staged table."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import open_session
from seamline.domain.catalogue import Column
from seamline.plan.model import DerivedTablePlan
from seamline.sinks.postgres.arrow_rows import arrow_schema, page_ranges, read_batches, write_table

_SUM_DIGITS = 38


@dataclass(frozen=True, slots=True)
class StagedRelation:
    """A staged table of the destination. `relation` is quoted; the connection is an id, resolved in each task."""

    connection: str
    relation: str
    columns: tuple[Column, ...]


def read_staged(spark: SparkSession, staged: StagedRelation, *, parts: int) -> DataFrame:
    """The relation as a DataFrame whose tasks read ranges of its pages natively: types come from the catalogue."""
    with closing(open_session(resolve(staged.connection), application_name="seamline derived")) as session:
        ranges = page_ranges(session, staged.relation, parts=parts)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with closing(open_session(resolve(staged.connection), application_name="seamline derived")) as session:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from read_batches(session, staged.relation, staged.columns, ranges[number])

    # One number per task; what it stands for travels with the function.
    numbers = spark.range(0, len(ranges), 1, len(ranges))
    return numbers.mapInArrow(read, from_arrow_schema(arrow_schema(staged.columns)))


def summed(rows: DataFrame, derived: DerivedTablePlan, *, scale: int) -> DataFrame:
    """One row per group with the exact sum. Spark in ANSI mode fails where a sum has more than 38 digits."""
    wide = F.col(derived.column).cast(f"decimal({_SUM_DIGITS},{scale})")
    return rows.groupBy(*derived.by).agg(F.sum(wide).alias(derived.column))


def compute_derived(
    spark: SparkSession, derived: DerivedTablePlan, staged: StagedRelation, *, scale: int, target: str, parts: int
) -> int:
    """Fill the empty relation `target` (quoted) and return its number of rows."""
    result = summed(read_staged(spark, staged, parts=parts), derived, scale=scale).toArrow()
    with closing(open_session(resolve(staged.connection), application_name="seamline derived")) as session:
        write_table(session, target, result)
    return int(result.num_rows)
