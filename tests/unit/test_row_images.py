"""A batch with a number that JSON has no number for is read row by row, and as Arrow reads it."""

import math
from typing import Any

import pyarrow as pa
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import SchemaConflict
from seamline.sources.postgres.row_decoder import DECODER
from seamline.values.changes import change_batch
from tests.toast_log import to_json

COLUMNS = (
    Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
    Column("half", Kind.FLOAT, "real"),
    Column("whole", Kind.DOUBLE, "double precision"),
    Column("truth", Kind.BOOLEAN, "boolean"),
    Column("memo", Kind.STRING, "text"),
)
KEYED, KEYLESS = Table("measure", COLUMNS, ("id",)), Table("measure", COLUMNS)
REALS = (0.0, -0.0, 0.1, 1, -7, 1e-7, 5e-324, 1.7976931348623157e308, 16777217.0, 1e22, 2**53, None)
# Those that 32 bits hold as they are.
HALVES = (0.0, -0.0, 0.5, 1, -7, 2.0**-149, 3.4028234663852886e38, 16777216.0, None)
MEMOS = ("", None, "a", "say \"NaN\", \\ or 'so'", "two\nlines", "\r\n", " , ", "ü€😀", "\\N", "\\.", "NULL", '"NaN"')
COUNT = 400
Row = dict[str, Any]


def measure(number: int, **values: Any) -> Row:
    row = {
        "id": number * (-(10**15)),
        "half": HALVES[number % len(HALVES)],
        "whole": REALS[number // 2 % len(REALS)],
        "truth": (True, False, None)[number % 3],
        "memo": MEMOS[number // 3 % len(MEMOS)],
    }
    return {**row, **values}


def read(*rows: Row, table: Table = KEYED) -> pa.Table:
    """The rows in the typed form, with what stands beside them."""
    if not table.is_keyed:
        net = {to_json(row): 3 - 6 * (n % 2) for n, row in enumerate(rows)}
        batch = change_batch(table, TableChanges("measure", net=net), DECODER)
        return pa.Table.from_batches([batch.rows.add_column(0, "copies", batch.copies)])
    # A row that goes is read by its key alone.
    keyed = [KeyedChange(b"", False, n % 3 == 0, to_json(row), n) for n, row in enumerate(rows)]
    batch = change_batch(table, TableChanges("measure", keyed), DECODER)
    return pa.Table.from_batches([batch.rows.add_column(0, "offset", batch.offset).add_column(1, "met", batch.met)])


def shown(rows: pa.Table) -> list[list[str]]:
    """By text, in which NaN is equal to itself and -0.0 is not 0.0."""
    return [[repr(value) for value in row.values()] for row in rows.to_pylist()]


@pytest.mark.parametrize("odd", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("column", ["half", "whole"])
@pytest.mark.parametrize("table", [KEYED, KEYLESS], ids=["keyed", "keyless"])
def test_rows_beside_one_that_is_not_finite_are_read_as_arrow_reads_them(odd: str, column: str, table: Table) -> None:
    rows = [measure(number) for number in range(COUNT)]
    by_arrow = shown(read(*rows, table=table))
    rows[200][column] = odd
    by_rows = read(*rows, table=table)
    place = by_rows.column_names.index(column)
    by_arrow[200][place] = repr(float(odd))
    assert shown(by_rows) == by_arrow


def test_the_values_are_those_of_the_images() -> None:
    rows = [measure(number) for number in range(COUNT)]
    rows[17]["whole"] = "NaN"
    found = read(*rows).to_pylist()
    assert math.isnan(found[17]["whole"])
    for number, (row, image) in enumerate(zip(found, rows, strict=True)):
        assert (row["offset"], row["met"]) == (number, number % 3 == 0)
        assert [row[name] for name in ("id", "truth", "memo")] == [image[name] for name in ("id", "truth", "memo")]
        if number != 17:
            assert (row["half"], row["whole"]) == (image["half"], image["whole"])


@pytest.mark.parametrize("place", [0, 200, COUNT - 1])
@pytest.mark.parametrize("wrong", [{"whole": "nan"}, {"whole": "1"}, {"id": "NaN"}, {"truth": 1}, {"extra": 1}])
def test_a_row_of_another_type_stops_also_where_rows_are_read_one_by_one(place: int, wrong: Row) -> None:
    rows = [measure(number) for number in range(COUNT)]
    rows[100]["half"] = "NaN"
    rows[place] |= wrong
    with pytest.raises(SchemaConflict, match="measure"):
        read(*rows)


@pytest.mark.parametrize("count", [1, COUNT])
@pytest.mark.parametrize("point", [{"x": 1}, [1]])
def test_a_number_that_has_become_an_object_or_a_list_stops_by_the_name_of_its_column(point: Any, count: int) -> None:
    with pytest.raises(SchemaConflict, match="column whole"):
        read(*(measure(number, whole=point) for number in range(count)))


@pytest.mark.parametrize("table", [KEYED, KEYLESS], ids=["keyed", "keyless"])
@pytest.mark.parametrize("lacking", ["memo", "whole"])
def test_an_image_without_a_field_is_found_wherever_it_stands(table: Table, lacking: str) -> None:
    rows = [measure(number, memo=f'{{"memo":null,"{number}":null}}' if number % 2 else None) for number in range(COUNT)]
    assert len(read(*rows, table=table)) == COUNT
    del rows[COUNT // 2][lacking]
    with pytest.raises(SchemaConflict, match=f"missing.*{lacking}"):
        read(*rows, table=table)
