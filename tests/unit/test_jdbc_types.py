"""Types of a JDBC driver's metadata, and texts of dates and moments as databases write them."""

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.sources.jdbc.types import column_of, query_of, rows_of

TABLE = Table(
    "T",
    (
        Column("D", Kind.DATE, "DATE"),
        Column("M", Kind.DATETIME, "TIMESTAMP(6)", precision=6),
        Column("Z", Kind.INSTANT, "TIMESTAMP(6) WITH TIME ZONE", precision=6),
        Column('a"b', Kind.STRING, "VARCHAR(9)"),
    ),
)


def found(number: int, name: str, size: int = 0, digits: int | None = 0) -> dict[str, Any]:
    return {"COLUMN_NAME": "C", "DATA_TYPE": number, "TYPE_NAME": name, "COLUMN_SIZE": size, "DECIMAL_DIGITS": digits,
            "NULLABLE": 1}  # fmt: skip


@pytest.mark.parametrize(
    ("one", "kind", "facts"),
    [
        (found(-6, "TINYINT", 8), Kind.INTEGER, (8, 0, 0)),
        (found(3, "DECIMAL", 38, 6), Kind.DECIMAL, (0, 38, 6)),
        (found(93, "TIMESTAMP", 26, 6), Kind.DATETIME, (0, 6, 0)),
        # As HSQLDB says it: by the width alone.
        (found(93, "TIMESTAMP", 26, None), Kind.DATETIME, (0, 6, 0)),
        (found(2014, "TIMESTAMP WITH TIME ZONE", 32, None), Kind.INSTANT, (0, 6, 0)),
        (found(2005, "CLOB", 2**31 - 1), Kind.STRING, (2**31 - 1, 0, 0)),
    ],
)
def test_a_type_that_is_exact_has_its_kind(one: dict[str, Any], kind: Kind, facts: tuple[int, int, int]) -> None:
    made = column_of(one)
    assert isinstance(made, Column)
    assert (made.kind, (made.length, made.precision, made.scale)) == (kind, facts)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (found(3, "DECIMAL", 39, 2), "exact with 1 to 38 digits"),
        (found(2, "NUMBER", 0, -127), "exact with 1 to 38 digits"),
        (found(93, "TIMESTAMP", 29, 9), "at most 6 are carried"),
        (found(92, "TIME", 8), "java.sql.Types 92"),
        (found(-2, "UUID", 16), "type UUID"),
        (found(1111, "GEOMETRY"), "type GEOMETRY"),
        # As H2 says it: the scale is that of each value.
        (found(3, "DECFLOAT", 20, 0), "type DECFLOAT"),
    ],
)
def test_every_other_type_is_refused_by_its_name(one: dict[str, Any], why: str) -> None:
    made = column_of(one)
    assert isinstance(made, str)
    assert made.startswith("column C ")
    assert why in made


def test_dates_and_moments_are_selected_as_texts_and_read_exactly() -> None:
    selected = query_of(TABLE, '"S"."T"', '"')
    assert selected == (
        'SELECT CAST("D" AS VARCHAR(64)) AS "D", CAST("M" AS VARCHAR(64)) AS "M", CAST("Z" AS VARCHAR(64)) AS "Z",'
        ' "a""b" FROM "S"."T"'
    )
    texts = [
        ("0001-01-01", "9999-12-31 23:59:59.999999", "2026-01-01 00:00:00.000001+8:00", "x"),
        ("1582-10-10", "1582-10-10 00:00:00", "2026-01-01 05:30:00+05:30", None),
        (None, None, "2026-01-01 00:00:00.5-08", ""),
    ]
    columns = [pa.array([row[number] for row in texts], pa.string()) for number in range(4)]
    rows = rows_of(TABLE, pa.RecordBatch.from_arrays(columns, names=["D", "M", "Z", 'a"b'])).to_pylist()
    assert [row["D"] for row in rows] == [date(1, 1, 1), date(1582, 10, 10), None]
    assert rows[0]["M"] == datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
    assert [row["Z"] for row in rows] == [
        datetime(2025, 12, 31, 16, 0, 0, 1, tzinfo=UTC),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 8, 0, 0, 500_000, tzinfo=UTC),
    ]


@pytest.mark.parametrize("text", ["29-NOV-26", "2026-11-29 00:00:00", "2026-1-1"])
def test_a_date_in_another_form_stops_and_names_the_column(text: str) -> None:
    nothing = [pa.array([None], pa.string())] * 3
    batch = pa.RecordBatch.from_arrays([pa.array([text]), *nothing], names=["D", "M", "Z", 'a"b'])
    with pytest.raises(SchemaConflict, match=f"column D of T: '{text}' is no date as ISO 8601"):
        rows_of(TABLE, batch)
