"""What servers deny is named at the place of the declaration that says it; real servers are asked in integration."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from seamline import analysis
from seamline.cli import online, online_night
from seamline.cli.main import main
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import ConfigError, SeamlineError, TransientError
from seamline.domain.row_transform import Expression, RowTransform, transform_to_json
from seamline.kinds.live_columns import Misfit
from seamline.plan.model import SyncPlan
from seamline.ports import Problem, Survey
from tests.unit.declared import SYNC, write_declarations

ID = Column("id", Kind.INTEGER, "bigint", nullable=False)
OTHERS = (
    Column("booked_at", Kind.INSTANT, "timestamp"),
    Column("amount", Kind.DECIMAL, "decimal(19,4)", precision=19, scale=4),
    Column("currency", Kind.CHAR, "char(3)"),
    Column("account_id", Kind.INTEGER, "bigint"),
)
TABLES = (Table("account", (ID,), ("id",)), Table("ledger_entry", (ID, *OTHERS), ("id",)))
OF_TABLE = Problem("reader lacks SELECT on account", "run the script", table="account")
OF_SERVER = Problem("log_bin is OFF", "switch it on")
OF_NO_MATTER = Problem("the server is small", "give it memory", is_fatal=False)


class Source:
    """What the command asks of a source."""

    def __init__(self, tables: Sequence[Table], problems: Sequence[Problem]) -> None:
        self._tables, self._problems = tables, problems

    def survey(self, _: Sequence[str]) -> Survey:
        return Survey(tuple(self._tables))

    def preflight(self, _: Sequence[Table]) -> Sequence[Problem]:
        return self._problems


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    # Those of a stack of this checkout are of other types.
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "connections.json"))
    answer(monkeypatch, TABLES)
    return write_declarations(tmp_path)


def answer(
    monkeypatch: pytest.MonkeyPatch,
    tables: Sequence[Table],
    problems: Sequence[Problem] = (),
    at_destination: Sequence[Problem] = (),
) -> None:
    monkeypatch.setattr(online.registry, "source", lambda _: Source(tables, problems))
    monkeypatch.setattr(online.registry, "destination_problems", lambda *_: tuple(at_destination))
    monkeypatch.setattr(online.registry, "misfits", lambda *_: ())


def said_by(capsys: pytest.CaptureFixture[str]) -> str:
    """Without the folder, and notes first."""
    found = capsys.readouterr()
    return found.out + found.err


def test_what_nobody_denies_is_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--online"]) == 0
    assert "suites 1, as the servers say too" in said_by(capsys)
    assert main(["validate"]) == 0
    assert "servers were not asked (--online asks them)" in said_by(capsys)


def test_what_is_asked_now_is_said_beside_the_answer_and_not_to_a_program(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was said for as long as the servers took."""
    assert main(["validate", "--online"]) == 0
    said = capsys.readouterr()
    assert [line.partition("] ")[2] for line in said.err.splitlines()] == [
        "settlement: asks source core_bank for 2 tables",
        "settlement: asks source core_bank for rights and settings",
        "settlement: asks destination warehouse for rights, settings and the tables that are there",
    ]
    assert " asks " not in said.out
    assert main(["validate", "--online", "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_a_problem_of_a_table_stands_at_the_table_one_of_the_server_at_its_connection_and_a_warning_is_a_note(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, TABLES, (OF_TABLE, OF_SERVER, OF_NO_MATTER), (OF_SERVER, OF_NO_MATTER))
    assert main(["validate", "--online"]) == 2
    said = said_by(capsys)
    assert "3 mistakes in the declarations or at their servers" in said
    assert "settlement.yaml:5  tables[0]: reader lacks SELECT on account. run the script" in said
    assert "core_bank.yaml:3  connection: log_bin is OFF. switch it on" in said
    assert "warehouse.yaml:3  connection: log_bin is OFF. switch it on" in said
    assert said.count("note: source core_bank: the server is small. give it memory") == 1
    answer(monkeypatch, TABLES, (OF_NO_MATTER,))
    assert main(["validate", "--online"]) == 0, "a warning is no mistake"


def test_a_problem_that_the_source_s_file_mends_stands_at_its_place_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, TABLES, (replace(OF_TABLE, place=("database",)),))
    assert main(["validate", "--online"]) == 2
    assert "core_bank.yaml:4  database: reader lacks SELECT on account. run the script" in said_by(capsys)


def test_a_live_table_that_would_not_take_a_load_stands_at_the_table_with_the_way_of_a_sync_that_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    misfit = Misfit("ledger_entry", "table ledger_entry has other columns", "rename ledger_entry")
    monkeypatch.setattr(online.registry, "misfits", lambda *_: (misfit,))
    assert main(["validate", "--online"]) == 2
    said = said_by(capsys)
    assert "settlement.yaml:6  tables[1]: in destination `warehouse`: table ledger_entry has other columns" in said
    assert "run `settlement__tables`" in said and "has not ended yet: rename ledger_entry" in said


def test_live_tables_that_cannot_be_asked_are_named_unless_it_is_said_what_is_wrong_with_the_destination(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(*_: object) -> object:
        raise TransientError("the warehouse is away")

    monkeypatch.setattr(online.registry, "misfits", away)
    assert main(["validate", "--online"]) == 2
    assert "warehouse.yaml:3  connection: the warehouse is away" in said_by(capsys)
    monkeypatch.setattr(online.registry, "destination_problems", lambda *_: (OF_SERVER,))
    assert main(["validate", "--online"]) == 2
    said = said_by(capsys)
    assert "log_bin is OFF" in said and "is away" not in said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([date(2026, 11, 26), "20261126", 20261127], ""),
        ([], "nightly.cut_off.table: table account has no row, so each night would wait for one"),
        ([date(2026, 11, 26)] * 1000, "nightly.cut_off.table: table account has 1,000 rows or more"),
        (["open"], "nightly.cut_off.column: column `id` of table account holds no date in 1 of 1 rows"),
        (ConfigError("cannot be asked", hint="name a file"), "its rows cannot be read: cannot be asked. name a file"),
    ],
)
def test_the_system_date_by_which_a_day_ends_is_read(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    values: list[object] | SeamlineError,
    said: str,
) -> None:
    class Questions:
        def values_of(self, table: str, column: str) -> list[object]:
            assert (table, column) == ("account", "id")
            if isinstance(values, SeamlineError):
                raise values
            return values

    cut_off = "nightly:\n  cut_off: {table: account, column: id}\n"
    write_declarations(folder, {"syncs/settlement.yaml": SYNC.replace("nightly:\n", cut_off)})
    monkeypatch.setattr(online_night.registry, "questions", lambda _: Questions())
    assert main(["validate", "--online"]) == (2 if said else 0)
    assert said in said_by(capsys)


def test_a_query_that_the_source_does_not_answer_stands_at_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Questions:
        def ask(self, statement: str, _: date) -> object:
            raise ConfigError(f"there is no table in {statement}")

    ready = "nightly:\n  ready_when: {sql: 'select 1 from nowhere where day = :date'}\n"
    write_declarations(folder, {"syncs/settlement.yaml": SYNC.replace("nightly:\n", ready)})
    monkeypatch.setattr(online_night.registry, "questions", lambda _: Questions())
    assert main(["validate", "--online"]) == 2
    said = said_by(capsys)
    assert "nightly.ready_when.sql: the source does not answer it: there is no table in select 1 from nowhere" in said


QUERY = "SELECT id,\n  nme\nFROM account\n"
FILE = "include/transforms/account.sql"
TRANSFORMED = {
    "syncs/settlement.yaml": SYNC.replace("  - account\n", f"  - {{name: account, transform: {FILE}}}\n"),
    "transforms/account.sql": QUERY,
}


def test_spark_s_analysis_of_a_transform_stands_at_its_line_and_the_table_that_it_makes_is_what_destinations_are_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_declarations(folder, TRANSFORMED)
    mistake = {"line": 2, "what": "there is no column `nme`", "cure": "Known: id"}
    about = {"table": "account", "file": FILE}
    asked: list[object] = []

    def refused(question: str) -> object:
        asked.append(question)
        return [{**about, "mistakes": [mistake]}]

    monkeypatch.setattr(analysis, "_answer", refused)
    assert main(["validate"]) == 0 and not asked, "no JVM is started"
    assert main(["validate", "--online"]) == 2
    assert "transforms/account.sql:2  there is no column `nme`. Known: id" in said_by(capsys)
    target = replace(TABLES[0], columns=(replace(ID, source_type="of a transform"),))
    made = RowTransform(FILE, QUERY, target, (Expression("column", "bigint", value="id"),))
    monkeypatch.setattr(analysis, "_answer", lambda _: [{**about, "transform": transform_to_json(made)}])
    plans: list[SyncPlan] = []
    monkeypatch.setattr(online.registry, "destination_problems", lambda plan, _: plans.append(plan) or ())
    assert main(["validate", "--online"]) == 0
    assert plans[0].at_destination("warehouse").table("account").definition == made.target

    def away(_: object) -> object:
        raise TransientError("Spark did not analyse the transforms within 300 s")

    monkeypatch.setattr(analysis, "_answer", away)
    assert main(["validate", "--online"]) == 0
    assert "note: settlement: its transforms were not analysed: Spark did not" in said_by(capsys)


def test_a_source_that_is_away_keeps_neither_destination_nor_approver_from_being_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(_: object) -> Source:
        raise TransientError("core_bank does not answer", hint="start it")

    answer(monkeypatch, (), (), (OF_SERVER,))
    monkeypatch.setattr(online.registry, "source", away)
    sync = SYNC.replace("reconcile:\n", "reconcile:\n  approvers: [aprover]\n")
    write_declarations(folder, {"syncs/settlement.yaml": sync})
    assert main(["validate", "--online"]) == 2
    said = said_by(capsys)
    assert "core_bank.yaml:3  connection: core_bank does not answer. start it" in said
    assert "warehouse.yaml:3  connection: log_bin is OFF" in said
    assert (
        "settlement.yaml:10  reconcile.approvers[0]: `aprover` is no user of Airflow. Did you mean `approver`?" in said
    )


def test_what_two_syncs_have_in_common_is_said_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "sync: other\nsource: core_bank\ndestinations: [archive]\ntables: [account]\n"
    archive = "destination: archive\nkind: postgres\nconnection: archive\nschema: archive\n"
    write_declarations(folder, {"syncs/other.yaml": other, "destinations/archive.yaml": archive})
    answer(monkeypatch, TABLES, (OF_SERVER, OF_NO_MATTER))
    assert main(["validate", "--online"]) == 2
    said = said_by(capsys)
    assert "1 mistake in the declarations" in said
    assert said.count("note: ") == 1


def test_a_sum_over_a_text_is_refused_by_the_source_and_not_without_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_declarations(
        folder, {"syncs/settlement.yaml": SYNC.replace("sum: amount, by: [currency]}", "sum: currency}")}
    )
    assert main(["validate"]) == 0
    assert main(["validate", "--online"]) == 2
    assert "settlement.yaml:11  reconcile.control_totals[0].sum: column `currency` is char(3)" in said_by(capsys)
