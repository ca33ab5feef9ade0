"""What `seamline demo` tells where one of its runs fails."""

from pathlib import Path

import pytest

from seamline.cli import demo
from seamline.cli.main import main
from seamline.domain.errors import TerminalError
from seamline.domain.verdict import TableVerdict, Verdict
from tests.unit.reported import reconciliation


def test_a_failed_run_is_told_after_the_verdicts_and_the_way_into_airflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by a reader of the README: a break ended the demo with a log and nothing else."""

    def fail(_: demo.Demo) -> None:
        raise TerminalError("settlement__reconcile run demo-1 failed")

    broken = reconciliation(TableVerdict("account", Verdict.BREAK, reason="1 row differs", breaks_total=1))
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(demo.boot, "up", lambda *_: None)
    monkeypatch.setattr(demo.Demo, "fill_bank", lambda *_: None)
    monkeypatch.setattr(demo.Demo, "tell", fail)
    monkeypatch.setattr(demo.status, "newest_verdicts", lambda _: [broken])
    assert main(["demo"]) == TerminalError.exit_code
    said = capsys.readouterr()
    assert "BREAK" in said.out and "1 row differs" in said.out and "approver" in said.out
    assert "demo-1 failed" in said.err
