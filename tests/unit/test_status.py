"""`seamline status` says by its exit code what its text says."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from seamline.cli import status
from seamline.cli.main import main
from seamline.domain.runs import Reconciliation, SyncState
from seamline.domain.verdict import TableVerdict, Verdict
from tests.unit.test_report import MATCH, reconciliation

BREAK = TableVerdict("account", Verdict.BREAK, reason="1 row differs", breaks_total=1)


@dataclass
class Platform:
    """What the command asks of the platform database."""

    found: list[Reconciliation]
    state: SyncState | None = SyncState.ENABLED
    alarms: tuple[Any, ...] = ()

    def sync_state(self, _: str) -> SyncState | None:
        return self.state

    def reconciliations(self, *_: object) -> list[Reconciliation]:
        return self.found

    def open_alarms(self) -> tuple[Any, ...]:
        return self.alarms


def told(monkeypatch: pytest.MonkeyPatch, platform: Platform, *arguments: str) -> int:
    monkeypatch.setattr(status.registry, "platform", lambda: platform)
    monkeypatch.setattr(status.registry, "director", lambda: SimpleNamespace(latest_reports=dict))
    return main(["status", *arguments])


def test_a_match_is_zero_and_a_break_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, Platform([reconciliation(MATCH)])) == 0
    assert told(monkeypatch, Platform([reconciliation(MATCH, BREAK)])) == 1


def test_a_sync_that_was_not_reconciled_yet_is_not_red(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, Platform([], state=None)) == 0


def test_an_open_alarm_is_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    alarm = SimpleNamespace(kind="lag", subject="s", raised_at=MATCH_AT, message="m")
    assert told(monkeypatch, Platform([reconciliation(MATCH)], alarms=(alarm,))) == 1


def test_an_unknown_sync_is_refused_with_the_name_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(monkeypatch, Platform([], state=None), "settlemnt") == 2
    assert "Did you mean `settlement`?" in capsys.readouterr().err


MATCH_AT = reconciliation(MATCH).started_at
