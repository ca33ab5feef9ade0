"""`seamline report` prints or writes the report of a date, and says by its exit code what its text says."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

from seamline.cli import report
from seamline.cli.main import main
from seamline.domain.audit import Act, Kind
from seamline.domain.break_age import Aged
from seamline.domain.break_id import break_id
from seamline.domain.break_work import Work
from seamline.domain.cut_state import CutState, Publication
from seamline.domain.sign_off import SignOff
from seamline.domain.tolerance import Tolerance
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from tests.log_topic import sync_plan
from tests.unit.broken_date import PAYMENTS, broken_cut
from tests.unit.declared import SYNC, write_declarations
from tests.unit.reported import MATCH, cut

OLDER = replace(cut(MATCH), run_id="before")
SECOND = replace(broken_cut(), run_id="second")


@dataclass
class Platform:
    """What the command asks of the platform database."""

    found: Sequence[CutState]

    def takes(self, _: str, __: date) -> Sequence[CutState]:
        return self.found

    def timezone(self, _: str) -> str:
        return "Asia/Shanghai"

    def run(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(plan=sync_plan())

    def of_date(self, _: str, __: date) -> Sequence[SignOff]:
        return ()

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "declared").mkdir()
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(tmp_path / "declared", {})))


class NoWork:
    """Nobody has done anything about any break."""

    def of(self, _: Sequence[str]) -> Mapping[str, Work]:
        return {}

    def ageing(self, *_: object) -> tuple[Aged, ...]:
        return ()

    def in_force(self, _: str) -> tuple[Tolerance, ...]:
        return ()

    def close(self) -> None: ...


def report_on(monkeypatch: pytest.MonkeyPatch, found: Sequence[CutState], *arguments: str) -> int:
    for name in ("platform", "signatures"):
        monkeypatch.setattr(report.registry, name, lambda: Platform(found))
    monkeypatch.setattr(report.registry, "work", NoWork)
    monkeypatch.setattr(report.registry, "tolerances", NoWork)
    return main(["report", "settlement", "--date", "2026-11-21", *arguments])


def test_the_exit_code_is_zero_only_for_a_date_that_is_clean_published_or_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert report_on(monkeypatch, [cut(MATCH)]) == 0
    assert report_on(monkeypatch, [replace(cut(MATCH, publish={}), is_running=True)]) == 0
    for wrong in (broken_cut(), cut(MATCH, publish={}), cut(MATCH, expectations={}), cut()):
        assert report_on(monkeypatch, [wrong]) == 1
    assert report_on(monkeypatch, []) == 1
    assert report_on(monkeypatch, [replace(cut(MATCH), destination="archive"), broken_cut()]) == 1


def test_the_report_goes_to_the_terminal_verdict_first(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    report_on(monkeypatch, [broken_cut()])
    said = capfdbinary.readouterr().out.decode()
    assert said.startswith("BREAK  settlement, 2026-11-21\n")
    assert "guarantee         exactly_once" in said


def test_a_date_without_a_cut_says_not_run(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    report_on(monkeypatch, [])
    assert capfdbinary.readouterr().out.decode() == "NOT_RUN  settlement, 2026-11-21\n"


def test_the_newest_take_is_reported_and_with_a_version_the_one_that_published_it(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    takes = [SECOND, OLDER]
    assert report_on(monkeypatch, takes) == 1
    assert report_on(monkeypatch, takes, "--version", "1") == 0
    newest, older = capfdbinary.readouterr().out.decode().split("MATCH  settlement, 2026-11-21\n")
    assert newest.startswith("BREAK  ") and "run               second" in newest
    assert "run               before" in older and "published as version 1" in newest, "versions are in both"


def test_a_version_that_is_not_there_is_refused_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    second = replace(OLDER, run_id="third", publication=Publication(version=3, in_force=3))
    assert report_on(monkeypatch, [second, OLDER], "--version", "2") == 2
    assert "there is no version 2 of 2026-11-21\n  → 2026-11-21 has 1, 3" in capsys.readouterr().err
    assert report_on(monkeypatch, [SECOND], "--version", "2") == 2
    assert "nothing is published of 2026-11-21" in capsys.readouterr().err


def test_a_date_and_a_sync_that_are_none_are_refused_with_the_cure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report.registry, "platform", lambda: Platform([]))
    assert main(["report", "settlement", "--date", "21/11/2026"]) == 2
    assert "'21/11/2026' is not a business date\n  → write it as 2026-11-19" in capsys.readouterr().err
    assert main(["report", "setlement", "--date", "2026-11-21"]) == 2
    assert "there is no sync `setlement`" in capsys.readouterr().err


def test_a_file_is_written_in_the_format_of_its_name_or_in_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, arguments, begins in (
        ("r.txt", (), b"BREAK  settlement"),
        ("r.md", (), b"# BREAK settlement"),
        ("r.xlsx", (), b"PK\x03\x04"),
        ("r.pdf", (), b"%PDF-"),
        ("r.data", ("--format", "pdf"), b"%PDF-"),
        ("r.csv", (), b"sync,destination,"),
    ):
        file = tmp_path / name
        assert report_on(monkeypatch, [broken_cut()], "--output", str(file), *arguments) == 1
        assert file.read_bytes().startswith(begins)
        assert capsys.readouterr().out == f"BREAK  settlement, 2026-11-21: written to {file}\n"


def test_json_and_csv_hold_the_take_that_is_reported_and_no_other(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    report_on(monkeypatch, [SECOND, OLDER], "--format", "json")
    (one,) = json.loads(capfdbinary.readouterr().out)
    assert (one["run"], one["verdict"]) == ("second", "BREAK")
    report_on(monkeypatch, [SECOND, OLDER], "--format", "csv")
    rows = csv.DictReader(io.StringIO(capfdbinary.readouterr().out.decode()))
    assert {row["run"] for row in rows} == {"second"}


def test_a_file_that_cannot_be_written_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report_on(monkeypatch, [cut(PAYMENTS)], "--output", str(tmp_path / "no" / "r.md")) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err


def test_a_workbook_is_not_written_onto_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert report_on(monkeypatch, [cut(MATCH)], "--format", "xlsx") == 2
    assert "xlsx is nothing for a terminal\n  → --output FILE" in capsys.readouterr().err


class Log:
    """What is entered into the log of acts."""

    def __init__(self) -> None:
        self.acts: list[Act] = []

    def enter(self, act: Act) -> None:
        self.acts.append(act)

    def close(self) -> None:
        """Nothing is open."""


def test_values_of_sensitive_columns_are_masked_unless_a_reason_is_entered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SYNC.replace("- account", "- {name: account, sensitive: [iban]}")
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(tmp_path, {"syncs/settlement.yaml": text})))
    log = Log()
    monkeypatch.setattr(report.registry, "audit", lambda: log)
    one = Break("account", BreakType.VALUE, '{"iban": "DE89370400"}', {"iban": "DE89370400"}, {"iban": "other"})
    found = [cut(TableVerdict("account", Verdict.BREAK, breaks=(one,), breaks_total=1))]
    for kind in ("text", "md", "json", "csv"):
        report_on(monkeypatch, found, "--format", kind)
        shown = capsys.readouterr().out
        assert "••••" in shown and "DE89370400" not in shown, kind
        assert break_id("settlement", "warehouse", one) in shown, kind
    assert report_on(monkeypatch, found, "--reveal") == 2
    assert "not revealed without a reason" in capsys.readouterr().err
    assert not log.acts
    report_on(monkeypatch, found, "--reveal", "--reason", "a call of the bank")
    assert "DE89370400" in capsys.readouterr().out
    (act,) = log.acts
    assert (act.kind, act.origin, act.subject.business_date) == (Kind.REVEALED, "command line", date(2026, 11, 21))
    assert act.document == {"reason": "a call of the bank"}
