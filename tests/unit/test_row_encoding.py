"""A batch with a number that JSON has no number for is written row by row, and reads as what Arrow writes."""

import io
import math
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import SchemaConflict
from seamline.sinks.postgres.encode import RowEncoder
from seamline.sinks.postgres.wire_postgres import POSTGRES
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
MEMOS = ("", None, "a", "say \"NaN\", \\ or 'so'", "two\nlines", "\r\n", " , ", "ü€😀", "\\N", "\\.", "NULL", '"NaN"')
COUNT = 400
Row = dict[str, Any]


def measure(number: int, **values: Any) -> Row:
    row = {
        "id": number * (-(10**15)),
        "half": REALS[number % len(REALS)],
        "whole": REALS[number // 2 % len(REALS)],
        "truth": (True, False, None)[number % 3],
        "memo": MEMOS[number // 3 % len(MEMOS)],
    }
    return {**row, **values}


def written(*rows: Row, table: Table = KEYED, chunk: int = 0) -> pa.Table:
    """The batch's CSV as COPY reads it: NULL and '' kept apart, floats with their sign."""
    keyed = [KeyedChange(b"", n % 2 == 0, n % 3 == 0, to_json(row), n) for n, row in enumerate(rows)]
    changes = TableChanges("measure", keyed, chunk=chunk)
    if not table.is_keyed:
        changes = TableChanges(
            "measure", net={to_json(row): 3 - 6 * (n % 2) for n, row in enumerate(rows)}, chunk=chunk
        )
    batch = RowEncoder(table, POSTGRES).encode(changes)
    assert (batch.is_sent, batch.rows) == (False, len(rows))
    control = [*(["chunk"] if chunk else []), *(["offset", "deleted", "met"] if table.is_keyed else ["copies"])]
    schema = pa.schema([(name, pa.int64()) for name in control]).field
    types = {name: schema(name).type for name in control}
    types |= {column.name: POSTGRES.form(column).arrow for column in COLUMNS}
    return pyarrow.csv.read_csv(
        io.BytesIO(batch.document),
        read_options=pyarrow.csv.ReadOptions(column_names=list(types)),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def shown(rows: pa.Table) -> list[list[str]]:
    """By text, in which NaN is equal to itself and -0.0 is not 0.0."""
    return [[repr(value) for value in row.values()] for row in rows.to_pylist()]


@pytest.mark.parametrize("odd", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("column", ["half", "whole"])
@pytest.mark.parametrize(("table", "chunk"), [(KEYED, 0), (KEYED, 7), (KEYLESS, 0), (KEYLESS, 7)])
def test_rows_beside_one_that_is_not_finite_are_written_as_arrow_writes_them(
    odd: str, column: str, table: Table, chunk: int
) -> None:
    rows = [measure(number) for number in range(COUNT)]
    by_arrow = shown(written(*rows, table=table, chunk=chunk))
    rows[200][column] = odd
    by_rows = written(*rows, table=table, chunk=chunk)
    place = by_rows.column_names.index(column)
    by_arrow[200][place] = repr(float(odd))
    assert shown(by_rows) == by_arrow


def test_the_values_are_those_of_the_images() -> None:
    rows = [measure(number) for number in range(COUNT)]
    rows[17]["whole"] = "NaN"
    found = written(*rows).to_pylist()
    assert math.isnan(found[17]["whole"])
    for number, (row, image) in enumerate(zip(found, rows, strict=True)):
        assert (row["offset"], row["deleted"], row["met"]) == (number, number % 2 == 0, number % 3 == 0)
        assert [row[name] for name in ("id", "truth", "memo")] == [image[name] for name in ("id", "truth", "memo")]
        if number != 17:
            assert (row["half"], row["whole"]) == (image["half"], image["whole"])


@pytest.mark.parametrize("place", [0, 200, COUNT - 1])
@pytest.mark.parametrize("wrong", [{"whole": "nan"}, {"whole": "1"}, {"id": "NaN"}, {"truth": 1}, {"extra": 1}])
def test_a_row_of_another_type_stops_also_where_rows_are_written_one_by_one(place: int, wrong: Row) -> None:
    rows = [measure(number) for number in range(COUNT)]
    rows[100]["half"] = "NaN"
    rows[place] |= wrong
    with pytest.raises(SchemaConflict, match="measure"):
        written(*rows)


@pytest.mark.parametrize("table", [KEYED, KEYLESS], ids=["keyed", "keyless"])
@pytest.mark.parametrize("lacking", ["memo", "whole"])
def test_an_image_without_a_field_is_found_wherever_it_stands(table: Table, lacking: str) -> None:
    rows = [measure(number, memo=f'{{"memo":null,"{number}":null}}' if number % 2 else None) for number in range(COUNT)]
    assert len(written(*rows, table=table)) == COUNT
    del rows[COUNT // 2][lacking]
    with pytest.raises(SchemaConflict, match=f"missing.*{lacking}"):
        written(*rows, table=table)
