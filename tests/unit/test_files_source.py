"""Files as a source, without a place: how they are declared, which names they have, and what their rows are."""

import hashlib
import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.column_types import column_of
from seamline.domain.errors import GateFailed, SchemaConflict
from seamline.files.csv_file import head_of, write_rows
from seamline.files.dialect import CSV, PARQUET, Dialect
from seamline.plan.model import SourcePlan
from seamline.sinks.files.types import stored
from seamline.sources.files import patterns
from seamline.sources.files.control import control_from
from seamline.sources.files.layout import TableLayout, layout_of
from seamline.sources.files.position import FilesPosition
from seamline.sources.files.reading import held
from seamline.sources.files.rows import Form, Wrong, rows_of
from seamline.sources.files.source import FilesSource as OpenedFiles
from seamline.sources.files.spec import FilesSource
from seamline.values.build import batch_of
from seamline.values.digest import segment_digest
from tests.contract.every_kind import VALUES

DAY = date(2026, 11, 27)
PLACE = {"source": "incoming", "kind": "files", "location": "/srv/incoming"}
ACCOUNT = {
    "table": "account",
    "key": ["id"],
    "columns": [
        {"name": "id", "type": "bigint"},
        {"name": "amount", "type": "decimal(18,2)"},
        {"name": "opened", "type": "date", "form": "%Y%m%d"},
        {"name": "name", "type": "varchar(8)"},
    ],
}


def declared(**said: Any) -> FilesSource:
    return FilesSource.model_validate({**PLACE, "delivery": "{date}", **said})


def planned(spec: FilesSource) -> SourcePlan:
    return SourcePlan("incoming", "files", spec.namespace, spec.connection, "", "", "", "", **spec.plan_fields())


# ---- declarations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"location": "incoming"}, "an absolute path"),
        ({"location": "sftp:///in"}, "name its `connection`, of type sftp"),
        ({"connection": "partner"}, "leave `connection` out"),
        ({"delivery": ""}, "nothing says which date is delivered"),
        ({"delivery": "../{date}"}, "no `..`"),
        ({"delivery": "{day}"}, "{day} has no meaning here"),
        ({"delivery": "{date:%H:%Q}"}, "only a date has a form"),
        ({"delivery": "v{version}/{date}"}, "in the name of the last folder"),
        ({"format": "parquet", "csv": {"trailer": ["T", "{rows}"]}}, "no header and no trailer"),
        ({"csv": {"trailer": ["{count}"]}}, "{count} has no meaning"),
        ({"csv": {"encoding": "shift_jis", "trailer": ["¥", "{rows}"]}}, "'¥' of `trailer` is no letter of shift_jis"),
        ({"csv": {"encoding": "gbk"}, "tables": [{"table": "t", "header": ["😀"]}]}, "'😀' of `header` is no letter"),
        ({"csv": {"delimiter": "|", "null": "|"}}, "`null` '|' holds the delimiter"),
        ({"tables": [ACCOUNT, ACCOUNT]}, "table account is declared twice"),
        ({"tables": [{"table": one, "file": "all.csv"} for one in "ab"]}, "file all.csv is declared twice"),
        ({"control_file": "", "tables": [ACCOUNT]}, "nothing says how many rows account has"),
        ({"control_file": "", "tables": [{"table": "account"}]}, "declare its `columns`"),
        ({"tables": [{"table": "account", "key": ["id"]}]}, "declare `columns` with `key`"),
        ({"tables": [{**ACCOUNT, "key": ["no"]}]}, "names columns that are not there: no"),
        ({"tables": [{"table": "t", "columns": [{"name": "a", "type": "money"}]}]}, "money is no type"),
        ({"tables": [{"table": "t", "columns": [{"name": "a", "type": "decimal"}]}]}, "decimal(digits, decimals)"),
        ({"tables": [{"table": "t", "columns": [{"name": "a", "type": "text", "form": "%Y"}]}]}, "has no `form`"),
    ],
)
def test_a_declaration_that_cannot_hold_is_refused_with_its_reason(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError) as refused:
        declared(**said)
    assert why in str(refused.value)


def test_the_plan_carries_what_was_declared() -> None:
    trailer = ["T", "{rows}", "{sum:amount}"]
    layout = layout_of(planned(declared(tables=[{**ACCOUNT, "trailer": trailer}], csv={"delimiter": "|"})))
    known = layout.of("account")
    assert known.definition == Table(
        "account",
        (
            Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
            Column("amount", Kind.DECIMAL, "decimal(18,2)", precision=18, scale=2),
            Column("opened", Kind.DATE, "date"),
            Column("name", Kind.STRING, "varchar(8)", length=8),
        ),
        ("id",),
    )
    assert (known.forms, list(known.trailer)) == ({"opened": "%Y%m%d"}, trailer)
    assert layout.of("other").definition is None
    assert (layout.dialect.delimiter, layout.control_file, layout.flag_file) == ("|", "control.json", "_SUCCESS")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("smallint", Kind.INTEGER),
        ("Decimal( 38 , 10 )", Kind.DECIMAL),
        ("char(3)", Kind.CHAR),
        ("datetime(0)", Kind.DATETIME),
        ("instant", Kind.INSTANT),
        ("time", Kind.TIME_OF_DAY),
    ],
)
def test_types_are_written_as_people_write_them(text: str, kind: Kind) -> None:
    assert column_of("a", text).kind is kind


# ---- names ----------------------------------------------------------------------------------------------------------


def test_names_have_places_for_what_changes() -> None:
    name = "{table}_{date:%Y%m%d}.csv"
    assert patterns.filled(name, business_date=DAY, table="account") == "account_20261127.csv"
    assert patterns.filled("{date}/v{version}", business_date=DAY, version=2) == "2026-11-27/v2"
    found = patterns.numbered("{date}_v{version}", DAY).fullmatch("2026-11-27_v12")
    assert found
    assert found[1] == "12"
    assert not patterns.numbered("v{version}", DAY).fullmatch("v1.tmp")
    assert patterns.dated("x.{date}").fullmatch("x.2026-01-01")
    assert not patterns.dated("x.{date}").fullmatch("xy2026-01-01")


def test_a_position_covers_itself_and_no_other_delivery() -> None:
    one = FilesPosition("2026-11-27", 1, "a" * 64)
    assert one.covers(FilesPosition.from_json(one.to_json()))
    assert not one.covers(FilesPosition("2026-11-27", 2, "a" * 64))
    assert str(one) == "delivery of 2026-11-27 version 1, sha256 aaaaaaaaaaaa"


def described(columns: list[str], **more: Any) -> bytes:
    """A control file of a table of these columns."""
    of_columns = [{"name": name, "kind": "integer", "source_type": "bigint", "length": 64} for name in columns]
    return json.dumps({"tables": [{"table": "t", "files": [], "columns": of_columns, **more}]}).encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b'{"tables": [{"table": "a", "files": [{"na', "cannot be read"),
        (b'{"rows": 1}', "it has no 'tables'"),
        (b'{"tables": [{"table": "a", "files": [{"name": "a\\u0000"}]}]}', "no name of a file of the delivery"),
        (b'{"tables": [{"table": "a", "files": [{"name": "."}]}]}', "no name of a file of the delivery"),
        (b'{"tables": [{"table": "a", "files": [{"name": "//x"}]}]}', "no name of a file of the delivery"),
        (b'{"tables": [{"table": "a", "files": [{"name": "../x"}]}]}', "no name of a file of the delivery"),
        (b'{"tables": [{"table": "a", "rows": "many", "files": []}]}', "rows is many, which is no number of rows"),
        (b'{"tables": [{"table": "a", "rows": 2.9, "files": []}]}', "rows is 2.9, which"),
        (b'{"tables": [{"table": "a", "rows": true, "files": []}]}', "rows is True, which"),
        (b'{"tables": [{"table": "a", "files": [{"name": "x", "bytes": -1}]}]}', "bytes is -1, which"),
        (b'{"tables": [{"table": "a", "rows": 2, "rows": 3, "files": []}]}', "it has 'rows' twice in one object"),
        (b'{"tables": [{"table": null, "files": []}]}', "None is no name of a table"),
        (
            b'{"tables": [{"table": "a", "files": [], "totals": [{"sum": "b", "by": ["c"], "groups":'
            b' [{"c": "CNY", "rows": 1, "b": "2"}, {"c": "CNY", "rows": 3, "b": "4"}]}]}]}',
            "it says the total of b of c CNY more than once",
        ),
        (described(["id", "id"]), "the columns of t are 'id', 'id': each has a name of its own"),
        (described([""]), "the columns of t are '': each has a name of its own"),
        (described(["id"], key=["no"]), "names no, which is no column of it"),
        (described(["id"], totals=[{"sum": "id", "by": ["no"], "groups": []}]), "names no, which is no column of it"),
        (b'{"tables": [{"table": "a", "files": []}, {"table": "a", "files": []}]}', "names table a more than once"),
        (b'{"tables": [{"table": "a", "files": [{"name": "x"}, {"name": "./x"}]}]}', "names file x more than once"),
        (
            b'{"tables": [{"table": "a", "files": [], "totals": [{"sum": "rows", "groups": []}]}]}',
            "two things under one name",
        ),
    ],
)
def test_half_a_control_file_is_none(content: bytes, said: str) -> None:
    with pytest.raises(GateFailed, match=said):
        control_from(content, called="control.json")


# ---- rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [CSV, PARQUET])
@pytest.mark.parametrize("column", VALUES, ids=lambda column: f"{column.name} {column.source_type}")
def test_every_value_that_the_destination_writes_is_read(column: Column, form: str, tmp_path: Path) -> None:
    table, path, dialect = Table("t", (column,)), tmp_path / "t", Dialect("|", "gb18030", null="\\N")
    batch = batch_of(table, [(value,) for value in (*VALUES[column], None)])
    if form == CSV:
        with path.open("wb") as file:
            file.write(head_of(table, dialect, ()))
            write_rows(table, [batch], dialect, file)
    else:
        try:
            pq.write_table(stored(table, batch), path)
        except SchemaConflict:
            return
    nothing = segment_digest(table, batch[:0], run_key="k")
    found = list(rows_of(path, table, Form(form, dialect, TableLayout("t"))))
    digest = sum((segment_digest(table, rows, run_key="k") for rows in found), nothing)
    assert digest == segment_digest(table, batch, run_key="k")


NAMES = "id,amount,opened,name\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no line with the names of columns"),
        (f"{NAMES}1,2.00,20261127", "ends in the middle of a line"),
        ("id,amount,opened\n", "it lacks name"),
        ("id,amount,opened,name,more\n", "it has more, which nobody declares"),
        ("id,amount,opened,name,name\n", "it names one twice"),
        (f"{NAMES}1,2.00,20261127,a\n2,3.001,20261127,b\n", "in row 2 the amount '3.001', which is no decimal"),
        (f"{NAMES}1,2.00,2026112,a\n", "in row 1 the opened '2026112', which is no date"),
        (f"{NAMES}1,2.00,20261131,a\n", "in row 1 the opened '20261131'"),
        (f"{NAMES}1,2.00,,a\n,2.00,,a\n", "in row 2 no id, and it must have one"),
        (f"{NAMES}1,2.00,,123456789\n", "a name of 9 letters: varchar"),
        (f"{NAMES}1,2.00,,a,b\n", "has in line 2 more than 4 fields: another one begins behind name"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_by_row_and_column(content: str, said: str, tmp_path: Path) -> None:
    layout = layout_of(planned(declared(tables=[ACCOUNT]))).of("account")
    (tmp_path / "a.csv").write_text(content)
    assert layout.definition
    with pytest.raises(Wrong, match=said):
        list(rows_of(tmp_path / "a.csv", layout.definition, Form(CSV, Dialect(), layout)))


@pytest.mark.parametrize(
    ("declared_as", "text", "said"),
    [
        ("double", "1e400", "which a double would hold as inf"),
        ("double", "1e-400", "which a double would hold as 0.0"),
        ("double", "9007199254740993", "which a double would hold as 9007199254740992.0"),
        ("double", "0.1", ""),
        ("double", "0.10000000000000001", ""),
        ("double", "0.1000000000000000055511151231257827", ""),
        ("double", "-Infinity", ""),
        ("double", "1e300", ""),
        ("float", "16777217", "which a float would hold as 16777216.0"),
        ("float", "3.4028236e38", "which a float would hold as"),
        ("float", "0.1", ""),
        ("float", "0.100000001", ""),
        ("float", "16777218", ""),
        ("datetime(3)", "2026-11-27 12:00:00.1234", "which has more than 3 digits of a second"),
        ("datetime(3)", "1926-11-27 12:00:00.123000", ""),
        ("datetime(0)", "2026-11-27 12:00:00.1", "which has more than 0 digits of a second"),
        ("instant(3)", "2026-11-27 12:00:00.1234Z", "which has more than 3 digits of a second"),
        ("time(3)", "12:00:00.123400", "which has more than 3 digits of a second"),
    ],
)
def test_nothing_is_rounded(declared_as: str, text: str, said: str, tmp_path: Path) -> None:
    table = Table("t", (column_of("a", declared_as),))
    (tmp_path / "a.csv").write_text(f"a\n\n{text}\n")
    form = Form(CSV, Dialect(), TableLayout("t"))
    if not said:
        assert [batch.num_rows for batch in rows_of(tmp_path / "a.csv", table, form)] == [2]
        return
    with pytest.raises(Wrong, match=f"has in row 2 the a '{re.escape(text)}', {said}"):
        list(rows_of(tmp_path / "a.csv", table, form))


def test_a_number_of_a_parquet_file_is_not_rounded_either(tmp_path: Path) -> None:
    table = Table("t", (column_of("a", "float"),))
    form = Form(PARQUET, Dialect(), TableLayout("t"))
    for number, is_taken in ((0.5, True), (float("nan"), True), (0.1, False)):
        pq.write_table(pa.table({"a": pa.array([None, number], pa.float64())}), tmp_path / "a.parquet")
        if is_taken:
            assert len(list(rows_of(tmp_path / "a.parquet", table, form))) == 1
        else:
            with pytest.raises(Wrong, match=r"in row 2 the a '0.1', which a float would round"):
                list(rows_of(tmp_path / "a.parquet", table, form))


@pytest.mark.parametrize(
    ("promise", "trailer", "is_enough"),
    [
        ({}, [], False),
        ({"rows": 2}, [], True),
        ({"files": [{"name": "t.csv", "bytes": 6}]}, [], True),
        ({"files": [{"name": "t.csv", "sha256": hashlib.sha256(b"a\n1\n2\n").hexdigest()}]}, [], True),
        ({}, ["T", "{rows}"], True),
        ({}, ["T"], False),
    ],
)
def test_a_file_of_which_nothing_is_promised_is_refused(
    promise: dict[str, Any], trailer: list[str], is_enough: bool, tmp_path: Path
) -> None:
    content = b"a\n1\n2\n" + {0: b"", 1: b"T\n", 2: b"T,2\n"}[len(trailer)]
    folder = tmp_path / DAY.isoformat()
    folder.mkdir()
    (folder / "t.csv").write_bytes(content)
    control = {"tables": [{"table": "t", "files": [{"name": "t.csv"}], **promise}]}
    (folder / "control.json").write_text(json.dumps(control))
    (folder / "_SUCCESS").touch()
    column = {"name": "a", "type": "bigint"}
    source = declared(location=str(tmp_path), tables=[{"table": "t", "columns": [column], "trailer": trailer}])
    (table,) = OpenedFiles(planned(source)).catalogue(["t"])
    if is_enough:
        with held(planned(source), DAY, [table]) as found:
            assert found.tables["t"].rows == 2
        return
    with (
        pytest.raises(GateFailed, match=r"nothing says how much of t.csv there is"),
        held(planned(source), DAY, [table]),
    ):
        pass


def test_columns_stand_in_any_order_behind_a_mark_of_the_encoding(tmp_path: Path) -> None:
    layout = layout_of(planned(declared(tables=[ACCOUNT]))).of("account")
    (tmp_path / "a.csv").write_text("\ufeffname,opened,amount,id\r\nx,20261127,-1,7\r\n", encoding="utf-8")
    assert layout.definition
    (rows,) = rows_of(tmp_path / "a.csv", layout.definition, Form(CSV, Dialect(), layout))
    (row,) = rows.to_pylist()
    assert json.dumps(row, default=str) == '{"id": 7, "amount": "-1.00", "opened": "2026-11-27", "name": "x"}'
