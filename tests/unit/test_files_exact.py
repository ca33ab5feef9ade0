"""Files whose values could only be guessed, rounded or cut are refused by row and column."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.column_types import column_of
from seamline.files.dialect import CSV, PARQUET, Dialect
from seamline.sources.files.layout import TableLayout
from seamline.sources.files.rows import Form, Wrong, rows_of

DAY = date(2026, 11, 27)
NOON = datetime.fromisoformat("2026-11-27 12:00")


def read(path: Path, table: Table, form: Form) -> list[dict[str, Any]]:
    return [row for rows in rows_of(path, table, form) for row in rows.to_pylist()]


def of_csv(path: Path, declared_as: str, content: bytes, **dialect: Any) -> list[Any]:
    (path / "a.csv").write_bytes(content)
    table = Table("t", (column_of("a", declared_as),))
    return [row["a"] for row in read(path / "a.csv", table, Form(CSV, Dialect(**dialect), TableLayout("t")))]


def of_parquet(path: Path, declared_as: str, values: pa.Array) -> list[Any]:
    pq.write_table(pa.table({"a": values}), path / "a.parquet")
    table = Table("t", (column_of("a", declared_as),))
    return [row["a"] for row in read(path / "a.parquet", table, Form(PARQUET, Dialect(), TableLayout("t")))]


@pytest.mark.parametrize(
    ("declared_as", "text"),
    [
        ("integer", "0xFFFFFFFF"),
        ("unsigned", "0X1F"),
        ("time", "12:99:00.000000"),
        ("time", "12:00:60"),
        ("time", "24:00:00.000001"),
        ("time", "-01:00:00"),
        ("datetime", "2026-11-27 12:00:00Z"),
    ],
)
def test_a_text_that_is_no_value_of_its_column_is_refused(declared_as: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(Wrong, match=f"has in row 2 the a '{text}', which is no {declared_as}"):
        of_csv(tmp_path, declared_as, f'a\n""\n{text}\n'.replace('""\n', "\n").encode())


@pytest.mark.parametrize(
    ("declared_as", "text", "value"),
    [
        ("integer", "007", 7),
        ("time(0)", "12:00:00", pa.scalar(43_200_000_000, pa.duration("us")).as_py()),
        ("time", "24:00:00", pa.scalar(86_400_000_000, pa.duration("us")).as_py()),
        ("time(3)", "00:00:00.5", pa.scalar(500_000, pa.duration("us")).as_py()),
        ("instant", "2026-11-27 12:00:00Z", NOON.replace(tzinfo=UTC)),
    ],
)
def test_a_value_is_taken_in_each_of_its_writings(declared_as: str, text: str, value: Any, tmp_path: Path) -> None:
    assert of_csv(tmp_path, declared_as, f"a\n{text}\n".encode()) == [value]


@pytest.mark.parametrize(
    ("declared_as", "values", "said"),
    [
        ("date", pa.array([NOON]), "'2026-11-27 12:00:00', which a date would round"),
        ("date", pa.array([NOON], pa.timestamp("us", "Asia/Shanghai")), "which has a zone: declare it as instant"),
        ("datetime", pa.array([NOON], pa.timestamp("us", "UTC")), "which has a zone: declare it as instant"),
        ("datetime", pa.array([20_000]), "which is a number without a unit"),
        ("date", pa.array([20_000], pa.int32()), "which is a number without a unit"),
        ("decimal(18,2)", pa.array([0.125]), "'0.125', which a decimal.18,2. would round"),
        ("decimal(18,2)", pa.array([Decimal("0.125")]), "which is no decimal"),
        ("boolean", pa.array([2]), "'2', which a boolean would round"),
        ("integer", pa.array([2**31]), "which is no integer"),
        ("text", pa.array([{"b": 1}]), "which is no text"),
        ("text", pa.array([[1]]), "which is no text"),
    ],
)
def test_a_value_of_a_parquet_file_is_not_cut_either(
    declared_as: str, values: pa.Array, said: str, tmp_path: Path
) -> None:
    with pytest.raises(Wrong, match=f"has in row 1 the a .*{said}"):
        of_parquet(tmp_path, declared_as, values)


@pytest.mark.parametrize(
    ("declared_as", "values", "value"),
    [
        ("date", pa.array([datetime.fromisoformat("2026-11-27")]), DAY),
        ("date", pa.array(["2026-11-27"]).dictionary_encode(), DAY),
        ("instant", pa.array([NOON], pa.timestamp("us", "Asia/Shanghai")), NOON.replace(tzinfo=UTC)),
        ("datetime", pa.array([NOON], pa.timestamp("ns")), NOON),
        ("decimal(18,2)", pa.array([0.1]), Decimal("0.10")),
        ("decimal(18,2)", pa.array([Decimal("0.5000")]), Decimal("0.50")),
        ("boolean", pa.array([1]), True),
        ("text", pa.array(["x"]).dictionary_encode(), "x"),
        ("double", pa.array([0.5, 0.5]).dictionary_encode(), 0.5),
    ],
)
def test_a_value_of_a_parquet_file_is_taken_whatever_its_type_where_it_is_the_same(
    declared_as: str, values: pa.Array, value: Any, tmp_path: Path
) -> None:
    assert set(of_parquet(tmp_path, declared_as, values)) == {value}


def test_an_empty_line_is_no_row_of_a_table_of_several_columns(tmp_path: Path) -> None:
    """Between them would be a delimiter. Of one column it is a NULL."""
    table = Table("t", (column_of("a", "text"), column_of("b", "text")))
    (tmp_path / "a.csv").write_bytes(b'a,b\n1,2\n\n,\r\n\r\n"\n\n",3\n')
    found = read(tmp_path / "a.csv", table, Form(CSV, Dialect(), TableLayout("t")))
    assert [tuple(row.values()) for row in found] == [("1", "2"), (None, None), ("\n\n", "3")]
    assert of_csv(tmp_path, "text", b"a\nx\n\ny\n") == ["x", None, "y"]


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
@pytest.mark.parametrize("head", ["a\n", ""])
def test_a_mark_of_the_encoding_in_front_of_a_file_is_no_letter_of_a_value(
    head: str, encoding: str, tmp_path: Path
) -> None:
    content = f"\ufeff{head}abc\n".encode(encoding)
    assert of_csv(tmp_path, "text", content, encoding=encoding, column_names=bool(head)) == ["abc"]


def test_a_key_holds_no_null_also_where_a_control_file_lets_it(tmp_path: Path) -> None:
    table = Table("t", (Column("a", Kind.INTEGER, "bigint", length=64), column_of("b", "text")), ("a",))
    (tmp_path / "a.csv").write_text("a,b\n1,x\n,y\n")
    with pytest.raises(Wrong, match="has in row 2 no a, and it must have one"):
        read(tmp_path / "a.csv", table, Form(CSV, Dialect(), TableLayout("t")))
