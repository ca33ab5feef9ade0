"""Which rows of a batch a segment means."""

from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest

from seamline.domain.calendar import date_of, segment_of
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.date_bounds import is_within
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


@pytest.mark.parametrize(
    ("kind", "source_type", "texts"),
    [
        (Kind.INTEGER, "int", ["20260304", "20260305", "20260306", "9", "202603050", None]),
        (Kind.UNSIGNED, "int unsigned", ["20260304", "20260305", "20260306", "9", "202603050", None]),
        (Kind.CHAR, "char(8)", ["20260304", "20260305", "20260306", "", "2026-03-05", None]),
    ],
)
def test_a_business_date_of_eight_digits_is_taken_alike_over_arrow_and_by_texts(
    kind: Kind, source_type: str, texts: list[str | None]
) -> None:
    day = Column("day", kind, source_type, length=32)
    table = Table("t", (ID, day), ("id",))
    schema = schema_of(table)
    values = pa.array(texts, pa.large_utf8()).cast(schema.field("day").type)
    rows = pa.record_batch([pa.array(range(len(texts)), schema.field("id").type), values], schema)
    segment = segment_of("t", column="day", holds="digits", business_date=date(2026, 3, 5), timezone="UTC")
    for one, expected in ((segment, [1]), (replace(segment, date_from=segment.date_to, date_to=""), [2])):
        found = in_segment(one, table, rows, run_key="").column("id").to_pylist()
        by_text = [number for number, text in enumerate(texts) if is_within(day, text, one)]
        assert [number for number in found if number < 3] == expected
        assert found == by_text
    assert date_of("20260305", holds="digits", timezone="UTC") == date(2026, 3, 5)
    assert [date_of(text, holds="digits", timezone="UTC") for text in ("20260230", "9", "2026-03-05")] == [None] * 3
