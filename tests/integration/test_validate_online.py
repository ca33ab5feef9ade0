"""`validate --online` asks real servers, and says of everything at once what they deny."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.cli.main import main
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.plan.compile import compile_plan
from seamline.plan.model import TablePlan
from seamline.ports import Load
from seamline.spec.load import load_declarations
from seamline.values.arrow import schema_of
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.test_postgres_preflight import DATABASE, LOGINS, run
from tests.integration.test_postgres_preflight import root as root
from tests.log_topic import publication
from tests.unit.declared import DESTINATION

SOURCE = f"""\
source: {DATABASE}
kind: postgres
connection: {LOGINS.reader}
capture_connection: {LOGINS.capture}
marker_connection: {LOGINS.marker}
database: {DATABASE}
schema: core
"""
SYNC = f"""\
sync: ledger
source: {DATABASE}
destinations: [warehouse]
tables:
  - account
  - {{name: audit, business_date: {{column: at, as: instant}}}}
nightly:
  timezone: Asia/Shanghai
reconcile:
  control_totals:
    - {{table: account, sum: balance}}
  expectations: ledger
  approvers: [approver]
"""
SUITE = """\
expectations: ledger
checks:
  - {table: account, type: expect_column_values_to_be_unique, kwargs: {column: id}}
  - {table: account, type: expect_compound_columns_to_be_unique, kwargs: {column_list: [id, balance]}}
"""


@pytest.fixture
def folder(root: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Right declarations, of a source and a destination on which their owners have run the scripts."""
    for name, text in {
        f"sources/{DATABASE}": SOURCE,
        "destinations/warehouse": f"{DESTINATION}writer_connection: warehouse_writer\n",
        "syncs/ledger": SYNC,
        "expectations/ledger": SUITE,
    }.items():
        file = tmp_path / f"{name}.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    with postgres_database("validate_online_test") as publisher, destination_known_by_id(publisher, "warehouse"):
        yield tmp_path


def change(file: Path, *pairs: tuple[str, str]) -> None:
    text = file.read_text(encoding="utf-8")
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text, encoding="utf-8")


def test_what_the_servers_confirm_is_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--online"]) == 0, capsys.readouterr().err
    assert "syncs 1, suites 1, as the servers say too" in capsys.readouterr().out


def test_everything_that_the_servers_deny_is_named_at_once_with_file_line_and_cure(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("CREATE TABLE core.rate (id int PRIMARY KEY, value float8)")
    change(
        folder / "syncs" / "ledger.yaml",
        ("column: at", "column: att"),
        ("  - account\n", "  - account\n  - acount\n  - rate\n"),
        (
            "sum: balance}",
            "sum: balanse, by: [curency]}\n    - {table: rate, sum: value}\n    - {table: audit, sum: at}",
        ),
        ("[approver]", "[approver, aprover]"),
    )
    change(folder / "expectations" / "ledger.yaml", ("column: id", "column: ident"), ("[id, balance]", "[id, balanse]"))
    assert main(["validate"]) == 0, "without servers nothing is wrong with it"
    assert main(["validate", "--online"]) == 2
    said = capsys.readouterr().err
    for place, what in (
        ('ledger.yaml:6  tables[1]: schema core: there is no table "acount"', "account"),
        ("ledger.yaml:8  tables[3].business_date.column: table audit has no column `att`", "`at`?"),
        ("ledger.yaml:13  reconcile.control_totals[0].sum: table account has no column `balanse`", "`balance`?"),
        ("ledger.yaml:13  reconcile.control_totals[0].by[0]: table account has no column `curency`", "Known:"),
        ("ledger.yaml:14  reconcile.control_totals[1].sum: column `value` is ", "Name another column"),
        ("ledger.yaml:15  reconcile.control_totals[2].sum: column `at` is ", "Name another column"),
        ("ledger.yaml:17  reconcile.approvers[1]: `aprover` is no user of Airflow", "Did you mean `approver`?"),
        ("ledger.yaml:3  checks[0].kwargs.column: table account has no column `ident`", "Known: balance, id"),
        ("ledger.yaml:4  checks[1].kwargs.column_list: table account has no column `balanse`", "`balance`?"),
    ):
        assert [line for line in said.splitlines() if place in line and what in line], f"{place}\n{said}"


def test_a_server_that_does_not_answer_is_named_and_keeps_no_other_from_being_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change(folder / "syncs" / "ledger.yaml", ("[approver]", "[nobody]"))
    for connection_id, where in ((LOGINS.reader, "preflight_test.yaml:3"), ("warehouse", "warehouse.yaml:3")):
        with monkeypatch.context() as away:
            away.setenv(f"SEAMLINE_CONNECTION_{connection_id.upper()}", "postgres://x:y@127.0.0.1:1/x")
            assert main(["validate", "--online"]) == 2
            said = capsys.readouterr().err
            assert "2 mistakes in the declarations" in said
            assert f"{where}  connection: " in said and "`nobody` is no user of Airflow" in said
            assert ":y@" not in said


def test_a_right_that_is_missing_is_named_before_any_run_needs_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"REVOKE SELECT ON core.account FROM {LOGINS.capture}")
    assert main(["validate", "--online"]) == 2
    assert "SELECT" in capsys.readouterr().err


def test_the_system_date_that_ends_a_day_is_looked_at_where_it_lies(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("CREATE TABLE core.system_date (unit int PRIMARY KEY, business_date text)")
    file = folder / "syncs" / "ledger.yaml"
    change(file, ("nightly:\n", "nightly:\n  cut_off: {table: system_date, column: business_dat}\n"))

    def said() -> str:
        main(["validate", "--online"])
        return capsys.readouterr().err

    assert "ledger.yaml:8  nightly.cut_off.column: table system_date has no column `business_dat`" in said()
    change(file, ("business_dat}", "business_date}"))
    assert "ledger.yaml:8  nightly.cut_off.table: its rows cannot be read: " in (denied := said())
    assert "permission denied" in denied
    run(f"GRANT SELECT ON core.system_date TO {LOGINS.reader}")
    assert "table system_date has no row" in said()
    run("INSERT INTO core.system_date VALUES (1, '20261126'), (2, 'closed')")
    assert "nightly.cut_off.column: column `business_date` of table system_date holds no date in 1 of 2 rows" in said()
    run("UPDATE core.system_date SET business_date = '20261126'")
    assert "ledger.yaml" not in said()
    change(file, ("{table: system_date, ", "{table: system_dates, "))
    assert 'there is no table "system_dates"' in said()


def test_what_is_wrong_without_servers_hides_nothing_that_they_deny_of_another_sync(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(folder / "syncs" / "ledger.yaml", ("sum: balance", "sum: balanse"))
    (folder / "syncs" / "other.yaml").write_text("sync: other\n", encoding="utf-8")
    assert main(["validate", "--online"]) == 2
    said = capsys.readouterr().err
    assert "other.yaml:1  source: is missing" in said
    assert "table account has no column `balanse`" in said


def test_a_table_of_a_lake_that_would_not_take_a_load_is_named_at_its_place_in_the_sync(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = f"kind: iceberg\nnamespace: ledger\ncatalog: lake\nwarehouse: {folder}\n"
    change(folder / "destinations" / "warehouse.yaml", ("kind: postgres\n", lake), ("schema: settlement\n", ""))
    plan = compile_plan(load_declarations(folder), "ledger")
    tables = registry.source(plan).survey(["account", "audit"]).tables
    plan = replace(plan, tables=tuple(TablePlan(table.name, table=table) for table in tables))
    kind, (destination,) = sink_kind("iceberg"), plan.destinations
    places = kind.load_area(destination, run_id="run-1").create(tables)
    loads = [Load(table, places[table.name].name, 0) for table in tables]
    for load in loads:
        kind.load(destination, places[load.table.name], ArrowRows(schema_of(load.table), iter(())))
    with closing(registry.sink(plan, "warehouse")) as sink:
        sink.publish(plan.stream_id("warehouse"), loads, publication=publication(tables))
    assert main(["validate", "--online"]) == 0, capsys.readouterr().err
    run("ALTER TABLE core.account ADD COLUMN note text")
    assert main(["validate", "--online"]) == 2
    said = capsys.readouterr().err
    assert "1 mistake in the declarations" in said
    assert "ledger.yaml:5  tables[0]: in destination `warehouse`: table account differs from what a load" in said
    assert "column note (type, NULL)" in said and "ledger__tables" in said
