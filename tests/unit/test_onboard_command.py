"""What `./seamline onboard` does before it asks Airflow for anything."""

import argparse
from pathlib import Path

import pytest

from seamline import settings
from seamline.cli import onboard
from seamline.cli.main import main
from seamline.cli.online import Answers
from seamline.spec.faults import DeclarationsInvalid, Fault
from seamline.stack.layout import Layout
from tests.unit.declared import write_declarations

DENIED = Answers([Fault(Path("bank.yaml"), 3, "connection", "REPLICATION is missing", "run the script")])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    monkeypatch.setattr(onboard, "_LOOK_EVERY_S", 0.0)
    return write_declarations(tmp_path)


def answering(monkeypatch: pytest.MonkeyPatch, *answers: Answers) -> list[Answers]:
    """The servers answer so, one after the other; returns what is left to be asked."""
    left = list(answers)
    monkeypatch.setattr(onboard.online, "ask", lambda *_: left.pop(0))
    return left


def required(*, minutes: float) -> None:
    args = argparse.Namespace(sync="settlement", wait=minutes, json=False)
    onboard._require_rights(args, Layout(settings.load()))  # noqa: SLF001 (what comes behind it asks Airflow)


def test_rights_that_are_missing_are_listed_and_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, DENIED)
    assert main(["onboard", "settlement"]) == 2
    assert "REPLICATION is missing" in capsys.readouterr().err


def test_a_wait_ends_once_the_rights_hold(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    left = answering(monkeypatch, DENIED, DENIED, Answers())
    required(minutes=1)
    assert not left
    assert capsys.readouterr().out.count("REPLICATION is missing") == 1, "what stays the same is said once"


def test_a_wait_that_is_over_lists_what_is_missing_still(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, DENIED)
    with pytest.raises(DeclarationsInvalid, match="REPLICATION is missing"):
        required(minutes=0)
