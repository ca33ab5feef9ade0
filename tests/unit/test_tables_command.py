"""`tables` of a sync, and of a database."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from seamline.cli import seen, tables
from seamline.cli.main import main
from seamline.domain.server_found import ListedTable, ServerFound
from seamline.domain.verdict import TableVerdict, Verdict
from tests.unit.declared import SYNC, write_declarations
from tests.unit.reported import reconciliation

PARKED = SYNC.replace("  - account\n", "  - account\n  - {name: audit, parked: trying it}\n")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    monkeypatch.setenv("SEAMLINE_CONNECTION_CORE_BANK", "mysql://reader:secret@bank:3306/bank")
    return write_declarations(tmp_path, {"syncs/settlement.yaml": PARKED})


def test_the_tables_of_a_sync_come_with_their_newest_verdicts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = reconciliation(TableVerdict("account", Verdict.BREAK, "1 row differs", source_rows=1000))
    monkeypatch.setattr(tables.registry, "platform", lambda: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(seen, "newest_verdicts", lambda *_: seen.Newest((), [found], None, ()))  # type: ignore[arg-type]
    assert main(["tables", "settlement"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "account       whole; warehouse: BREAK, 1,000 rows (1 row differs)",
        "ledger_entry  by booked_at; warehouse: not compared yet",
        "audit         parked: trying it",
    ]
    assert main(["tables", "settlement", "--json"]) == 0
    account, entry, audit = json.loads(capsys.readouterr().out)["tables"]
    assert (account["place"], account["verdicts"]["warehouse"]["rows"]) == ("bank.account", 1000)
    assert (entry["verdicts"], audit["parked"]) == ({"warehouse": None}, "parked: trying it")


def test_the_tables_of_a_database_say_which_syncs_carry_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = [ListedTable("bank", "account", 12_000, 3_400_000), ListedTable("bank", "draft")]
    monkeypatch.setattr(tables, "examined", lambda _: ServerFound("MariaDB 11.4", kind="mariadb"))
    monkeypatch.setattr(tables, "power", lambda *_, **__: SimpleNamespace(list_tables=lambda _: listed))
    assert main(["tables", "core_bank"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "bank.account  about 12,000 rows, 3.4 MB, carried by settlement",
        "bank.draft  rows not known",
    ]


def test_a_name_that_nobody_knows_and_a_server_without_tables_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tables", "setlement"]) == 2
    assert "Did you mean `settlement`?" in capsys.readouterr().err
    monkeypatch.setattr(tables, "examined", lambda _: ServerFound("a server"))
    assert main(["tables", "core_bank"]) == 2
    assert "leads to no database whose tables can be listed" in capsys.readouterr().err
