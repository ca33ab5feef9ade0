"""Files as a source, without a place: how they are declared, which names they have, and what their rows are."""

import json
from datetime import date
from pathlib import Path
from typing import Any

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
from seamline.sources.files.rows import Form, Wrong, rows_of
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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b'{"tables": [{"table": "a", "files": [{"na', "cannot be read"),
        (b'{"rows": 1}', "it has no 'tables'"),
        (b'{"tables": [{"table": "a", "files": [{"name": "../x"}]}]}', "no name of a file of the delivery"),
        (b'{"tables": [{"table": "a", "rows": "many", "files": []}]}', "invalid literal"),
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
        (f"{NAMES}1,2.00,,a,b\n", "cannot be read as CSV: .*Expected 4 columns, got 5"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_by_row_and_column(content: str, said: str, tmp_path: Path) -> None:
    layout = layout_of(planned(declared(tables=[ACCOUNT]))).of("account")
    (tmp_path / "a.csv").write_text(content)
    assert layout.definition
    with pytest.raises(Wrong, match=said):
        list(rows_of(tmp_path / "a.csv", layout.definition, Form(CSV, Dialect(), layout)))


def test_columns_stand_in_any_order_behind_a_mark_of_the_encoding(tmp_path: Path) -> None:
    layout = layout_of(planned(declared(tables=[ACCOUNT]))).of("account")
    (tmp_path / "a.csv").write_text("\ufeffname,opened,amount,id\r\nx,20261127,-1,7\r\n", encoding="utf-8")
    assert layout.definition
    (rows,) = rows_of(tmp_path / "a.csv", layout.definition, Form(CSV, Dialect(), layout))
    (row,) = rows.to_pylist()
    assert json.dumps(row, default=str) == '{"id": 7, "amount": "-1.00", "opened": "2026-11-27", "name": "x"}'
