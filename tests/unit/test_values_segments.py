"""Which rows of a batch a segment means."""

import pyarrow as pa
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.values.arrow import schema_of
from seamline.values.segments import in_segment

ID = Column("id", Kind.INTEGER, "bigint")


@pytest.mark.parametrize(
    ("kind", "source_type", "date_from", "date_to"),
    [
        (Kind.DATE, "date", "1970-01-02", "1970-01-03"),
        (Kind.DATETIME, "datetime(6)", "86400000000", "172800000000"),
        (Kind.INSTANT, "timestamp(6)", "86400000000", "172800000000"),
    ],
)
def test_a_business_date_is_its_rows_from_the_first_moment_to_before_the_next(
    kind: Kind, source_type: str, date_from: str, date_to: str
) -> None:
    table = Table("t", (ID, Column("at", kind, source_type)), ("id",))
    schema = schema_of(table)
    unit = 1 if kind is Kind.DATE else 86_400_000_000
    at = pa.array([0, unit, 2 * unit - 1, 2 * unit], pa.int32() if kind is Kind.DATE else pa.int64())
    rows = pa.record_batch([pa.array([1, 2, 3, 4], schema.field("id").type), at.cast(schema.field("at").type)], schema)
    chosen = in_segment(Segment("t", date_column="at", date_from=date_from, date_to=date_to), table, rows, run_key="")
    assert chosen.column("id").to_pylist() == [2, 3]
