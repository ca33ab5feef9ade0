"""Files whose values could only be guessed, rounded or cut are refused by row and column."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.column_types import column_of
from seamline.domain.errors import GateFailed
from seamline.files.dialect import CSV, PARQUET, Dialect
from seamline.sources.files.layout import TableLayout
from seamline.sources.files.reading import held
from seamline.sources.files.rows import Form, Wrong, rows_of
from seamline.sources.files.source import FilesSource as OpenedFiles
from tests.unit.test_files_source import DAY, declared, planned

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
        ("date", pa.array([2**60], pa.timestamp("us")), "'1152921504606846976', which a date would round"),
        ("datetime", pa.array([2**60], pa.timestamp("ms")), "'1152921504606846976', which is no datetime"),
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


@pytest.mark.parametrize("text", ["abc", "1e3", "007", "1.", "", "+1"])
def test_a_number_without_declared_digits_is_a_number(text: str, tmp_path: Path) -> None:
    """As the control file describes PostgreSQL's `numeric`: it stays a text all the way."""
    table = Table("t", (Column("a", Kind.DECIMAL, "numeric"),))
    form = Form(CSV, Dialect(), TableLayout("t"))
    (tmp_path / "a.csv").write_text("a\n-12345678901234567890.50\nNaN\n\n-Infinity\n0\n")
    assert [row["a"] for row in read(tmp_path / "a.csv", table, form)] == [
        "-12345678901234567890.50", "NaN", None, "-Infinity", "0"
    ]  # fmt: skip
    (tmp_path / "a.csv").write_text(f'a\n1\n"{text}"\n')
    with pytest.raises(Wrong, match="has in row 2 the a '.*', which is no numeric"):
        read(tmp_path / "a.csv", table, form)


def delivered(path: Path, folder: str, content: str, **promised: Any) -> Any:
    """A source of one table of column `a` and its delivery of the day, open."""
    (path / folder).mkdir(parents=True)
    (path / folder / "t.csv").write_text(content)
    (path / folder / "control.json").write_text(
        json.dumps({"tables": [{"table": "t", "files": [{"name": "t.csv"}], **promised}]})
    )
    (path / folder / "_SUCCESS").touch()
    column = {"name": "a", "type": "bigint"}
    source = planned(
        declared(location=str(path), delivery="{date}/v{version}", tables=[{"table": "t", "columns": [column]}])
    )
    return held(source, DAY, OpenedFiles(source).catalogue(["t"]))


@pytest.mark.parametrize("promised", [0, "0.00", None, ""])
@pytest.mark.parametrize(("content", "rows"), [("a\n", 0), ("a\n\n", 1)])
def test_the_sum_of_no_value_is_nothing_or_0(promised: object, content: str, rows: int, tmp_path: Path) -> None:
    total = {"sum": "a", "groups": [{"rows": rows, "a": promised}]}
    with delivered(tmp_path, f"{DAY}/v1", content, totals=[total]) as found:
        assert found.tables["t"].rows == rows


def test_a_sum_of_0_is_not_that_of_other_rows(tmp_path: Path) -> None:
    total = {"sum": "a", "groups": [{"rows": 1, "a": 0}]}
    with (
        pytest.raises(GateFailed, match="adds up a to nothing in 0 rows, and its control file says 0 in 1 rows"),
        delivered(tmp_path, f"{DAY}/v1", "a\n", totals=[total]),
    ):
        pass


def test_a_version_with_zeros_in_front_is_named_and_not_waited_for(tmp_path: Path) -> None:
    with (
        pytest.raises(GateFailed, match="folder v01 has a version that is written as 01, and 1 is expected"),
        delivered(tmp_path, f"{DAY}/v01", "a\n1\n", rows=1),
    ):
        pass


def test_a_first_line_that_is_no_csv_is_said_as_that(tmp_path: Path) -> None:
    with pytest.raises(Wrong, match="has a line with the names of columns that cannot be read as CSV: new-line"):
        of_csv(tmp_path, "text", b"a\rb\nx\n")


def test_a_damaged_page_of_a_parquet_file_is_noticed_by_its_checksum(tmp_path: Path) -> None:
    values = pa.array(range(1000))
    pq.write_table(pa.table({"a": values}), tmp_path / "a.parquet", write_page_checksum=True, use_dictionary=False)
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[len(content) // 4] ^= 1
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(Wrong, match="cannot be read as Parquet"):
        read(
            tmp_path / "a.parquet", Table("t", (column_of("a", "bigint"),)), Form(PARQUET, Dialect(), TableLayout("t"))
        )
