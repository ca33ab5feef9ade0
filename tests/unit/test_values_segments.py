"""Which rows of a batch a segment means."""

from datetime import date

import pyarrow as pa
import pytest

from seamline.domain.calendar import segment_of
from seamline.domain.catalogue import Column, Kind, Table
from seamline.values.arrow import schema_of
from seamline.values.segments import in_segment

ID = Column("id", Kind.INTEGER, "bigint")


@pytest.mark.parametrize(
    ("kind", "source_type", "holds"),
    [
        (Kind.DATE, "date", "date"),
        (Kind.DATETIME, "datetime(6)", "local"),
        (Kind.INSTANT, "timestamp(6)", "instant"),
    ],
)
def test_a_business_date_is_its_rows_from_the_first_moment_to_before_the_next(
    kind: Kind, source_type: str, holds: str
) -> None:
    table = Table("t", (ID, Column("at", kind, source_type)), ("id",))
    schema = schema_of(table)
    unit = 1 if kind is Kind.DATE else 86_400_000_000
    at = pa.array([0, unit, 2 * unit - 1, 2 * unit, None], pa.int32() if kind is Kind.DATE else pa.int64())
    numbers = pa.array([1, 2, 3, 4, 5], schema.field("id").type)
    rows = pa.record_batch([numbers, at.cast(schema.field("at").type)], schema)
    # As a nightly asks, for every engine alike.
    segment = segment_of("t", column="at", holds=holds, business_date=date(1970, 1, 2), timezone="UTC")
    assert in_segment(segment, table, rows, run_key="").column("id").to_pylist() == [2, 3]
