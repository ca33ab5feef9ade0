"""`seamline status` says by its exit code what its text says."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seamline.cli import status
from seamline.cli.main import main
from seamline.domain.cut_state import CutState
from seamline.domain.ledger import StreamId
from seamline.domain.runs import Reconciliation, SyncState
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.ports import StreamReport
from tests.unit.declared import write_declarations
from tests.unit.reported import MATCH, MOMENT, cut, reconciliation

BREAK = TableVerdict("account", Verdict.BREAK, reason="1 row differs", breaks_total=1)


@dataclass
class Platform:
    """What the command asks of the platform database."""

    found: list[Reconciliation]
    state: SyncState | None = SyncState.ENABLED
    alarms: tuple[Any, ...] = ()
    cuts: list[CutState] = field(default_factory=list)

    def sync_state(self, _: str) -> SyncState | None:
        return self.state

    def live_reconciliations(self, *_: object) -> list[Reconciliation]:
        return self.found

    def cut_states(self, *_: object) -> list[CutState]:
        return self.cuts

    def timezone(self, _: str) -> str:
        return "Asia/Shanghai"

    def open_alarms(self) -> tuple[Any, ...]:
        return self.alarms


def told(
    monkeypatch: pytest.MonkeyPatch, platform: Platform, *arguments: str, streams: Sequence[StreamReport] = ()
) -> int:
    reports = {one.stream: one for one in streams}
    monkeypatch.setattr(status.registry, "platform", lambda: platform)
    monkeypatch.setattr(status.registry, "director", lambda: SimpleNamespace(latest_reports=lambda: reports))
    return main(["status", *arguments])


def test_a_match_is_zero_and_a_break_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, Platform([reconciliation(MATCH)])) == 0
    assert told(monkeypatch, Platform([reconciliation(MATCH, BREAK)])) == 1


def test_a_cut_of_which_nothing_was_published_is_not_zero_and_no_match(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live = [reconciliation(MATCH)]
    assert told(monkeypatch, Platform(live, cuts=[cut(MATCH)])) == 0
    assert told(monkeypatch, Platform(live, cuts=[cut(MATCH, publish={})])) == 1
    assert "NOT PUBLISHED  settlement → warehouse, business date" in capsys.readouterr().out


def test_a_cut_on_its_way_is_no_fault_and_no_match(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_its_way = replace(cut(MATCH, publish={}), is_running=True)
    assert told(monkeypatch, Platform([reconciliation(MATCH)], cuts=[on_its_way])) == 0
    assert "RUNNING  " in capsys.readouterr().out
    broken = replace(cut(BREAK, publish={}), is_running=True)
    assert told(monkeypatch, Platform([reconciliation(MATCH)], cuts=[broken])) == 1


def test_a_sync_that_was_not_reconciled_yet_is_not_red(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, Platform([], state=None)) == 0


def test_a_wrong_declaration_is_told_and_hides_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = write_declarations(tmp_path, {"syncs/treasury.yaml": "sync: treasury\n"})
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(folder))
    assert told(monkeypatch, Platform([reconciliation(MATCH)])) == 1
    said = capsys.readouterr().out
    assert "settlement: enabled" in said
    assert "MATCH" in said
    assert "treasury.yaml:1  source: is missing" in said


def test_an_open_alarm_is_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    alarm = SimpleNamespace(kind="lag", subject="s", raised_at=MOMENT, message="m")
    assert told(monkeypatch, Platform([reconciliation(MATCH)], alarms=(alarm,))) == 1


def test_of_a_stream_that_spoke_again_status_says_so_beside_its_old_alarm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = StreamId("settlement", "warehouse")
    silent = SimpleNamespace(kind="stream_silent", subject=str(stream), raised_at=MOMENT, message="no word for 70 s")
    platform = Platform([reconciliation(MATCH)], alarms=(silent,))
    for age_s, is_said in ((2.0, True), (80.0, False)):
        assert told(monkeypatch, platform, streams=[StreamReport(stream, "streaming", age_s=age_s)]) == 1
        said = capsys.readouterr().out
        assert "no word for 70 s" in said
        assert ("it has spoken since, 2 s ago" in said) == is_said


def test_a_failed_stream_is_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = StreamId("settlement", "warehouse")
    fine, failed = StreamReport(stream, "streaming"), StreamReport(stream, "failed", error="torn unit")
    assert told(monkeypatch, Platform([reconciliation(MATCH)]), streams=[fine]) == 0
    assert told(monkeypatch, Platform([reconciliation(MATCH)]), streams=[failed]) == 1


def test_an_unknown_sync_is_refused_with_the_name_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(monkeypatch, Platform([], state=None), "settlemnt") == 2
    assert "Did you mean `settlement`?" in capsys.readouterr().err
