"""Rows as CSV files, and back: every kind and edge value, in every encoding, and what is no such file."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import GateFailed, SchemaConflict
from seamline.files.csv_file import Frame, head_of, read_rows, tail_of, text_batches, write_rows
from seamline.files.dialect import Dialect
from seamline.values.build import batch_of, rows_of
from seamline.values.digest import segment_digest
from tests.contract.every_kind import VALUES

FRAME = Frame(("H", "settlement"), ("T", "1"))
DIALECTS = (
    Dialect(),
    Dialect(delimiter="|", encoding="gb18030", line_end="crlf", null="\\N"),
    Dialect(delimiter="\t", null="NULL", column_names=False),
)
TEXT = Table("t", (Column("a", Kind.STRING, "text"), Column("b", Kind.STRING, "text")))


def written(table: Table, rows: Sequence[Sequence[Any]], dialect: Dialect, path: Path) -> pa.RecordBatch:
    batch = batch_of(table, rows)
    file = io.BytesIO()
    file.write(head_of(table, dialect, FRAME.header))
    write_rows(table, [batch], dialect, file)
    file.write(tail_of(dialect, FRAME.trailer))
    path.write_bytes(file.getvalue())
    return batch


def read(table: Table, dialect: Dialect, path: Path) -> list[tuple[Any, ...]]:
    return [row for batch in read_rows(path, table, dialect, FRAME) for row in rows_of(table, batch)]


@pytest.mark.parametrize("dialect", DIALECTS, ids=["comma", "gb18030", "tab"])
@pytest.mark.parametrize("column", VALUES, ids=lambda column: column.name)
def test_every_value_is_the_same_when_it_is_read_again(column: Column, dialect: Dialect, tmp_path: Path) -> None:
    table = Table("t", (column,))
    batch = written(table, [(value,) for value in (*VALUES[column], None)], dialect, tmp_path / "t.csv")
    nothing = segment_digest(table, batch[:0], run_key="k")
    found = read_rows(tmp_path / "t.csv", table, dialect, FRAME)
    digest = sum((segment_digest(table, rows, run_key="k") for rows in found), nothing)
    assert digest == segment_digest(table, batch, run_key="k")


@given(rows=st.lists(st.tuples(*[st.none() | st.text(alphabet='a",|\r\n\\N €张', max_size=5)] * 2), max_size=5))
@pytest.mark.parametrize("dialect", DIALECTS, ids=["comma", "gb18030", "tab"])
def test_texts_and_nulls_stay_apart(
    rows: list[tuple[str | None, str | None]], dialect: Dialect, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "texts.csv"
    written(TEXT, rows, dialect, path)
    assert read(TEXT, dialect, path) == rows


def test_people_read_times_and_numbers(tmp_path: Path) -> None:
    columns = {one.name: one for one in VALUES if one.kind in (Kind.TIME, Kind.INSTANT, Kind.DOUBLE, Kind.BOOLEAN)}
    text = ""
    for column in columns.values():
        written(Table("t", (column,)), [(VALUES[column][0],)], Dialect(column_names=False), tmp_path / "t.csv")
        text += (tmp_path / "t.csv").read_text()
    assert "true\n" in text
    assert "0001-01-01 00:00:00.000000Z\n" in text


def test_a_letter_that_an_encoding_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SchemaConflict, match="'€' in a value of t is no letter of latin-1"):
        written(TEXT, [("€", None)], Dialect(encoding="latin-1"), tmp_path / "t.csv")


@pytest.mark.parametrize("letter", ["¥", "‾"])
def test_a_letter_that_comes_back_as_another_is_refused_by_name(letter: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaConflict, match=f"'{letter}' in a value of t is no letter of shift_jis"):
        written(TEXT, [("a", None), (f"b{letter}", None)], Dialect(encoding="shift_jis"), tmp_path / "t.csv")
    named = Table("t", (Column(letter, Kind.STRING, "text"),))
    with pytest.raises(SchemaConflict, match=f"'{letter}' in a name of t"):
        head_of(named, Dialect(encoding="shift_jis"), ())


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
@pytest.mark.parametrize("value", ["\ufeff", "\ufeffabc", "\ufeff\ufeffx", "a\ufeff"])
def test_a_first_value_keeps_the_mark_that_it_begins_with(value: str, encoding: str, tmp_path: Path) -> None:
    """In what is written here, which has it in quotes, and in what others write."""
    dialect = Dialect(encoding=encoding, column_names=False)
    rows = [(value, "b"), (value, None)]
    written(TEXT, rows, dialect, tmp_path / "t.csv")
    assert read(TEXT, dialect, tmp_path / "t.csv") == rows
    lines = f"{value},b\r\n{value},c\r\n".encode(encoding)
    found = [batch.to_pylist() for batch in text_batches(pa.py_buffer(lines), TEXT, dialect)]
    assert found == [[{"a": value, "b": "b"}, {"a": value, "b": "c"}]]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda content: content[:-1], "does not begin and end"),
        (lambda content: content.replace(b"H,", b"X,"), "does not begin and end"),
        (lambda content: content.replace(b"T,1", b"T,2"), "does not begin and end"),
        (lambda content: content.replace(b"x,y", b"x,y,z"), "Expected 2 columns"),
    ],
)
def test_another_file_is_no_file_of_the_table(changed: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    written(TEXT, [("x", "y")], Dialect(), path)
    path.write_bytes(changed(path.read_bytes()))
    with pytest.raises(GateFailed, match=said):
        read(TEXT, Dialect(), path)
