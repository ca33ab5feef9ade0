"""What `./seamline onboard` does before it asks Airflow for anything."""

import argparse
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from seamline import settings
from seamline.adapters.airflow_rest import DagRun
from seamline.adapters.connections import put, resolve
from seamline.cli import onboard, online
from seamline.cli.main import main
from seamline.cli.onboard import next_night_in_words
from seamline.cli.online import Answers
from seamline.cli.reconcile import outcome
from seamline.domain.backfill import Exit
from seamline.domain.business_dates import BusinessDates, Calendar
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.model import NightlyPlan
from seamline.spec.faults import DeclarationsInvalid, Fault
from seamline.spec.load import load_sync
from seamline.stack.layout import Layout
from tests.unit.declared import write_declarations
from tests.unit.reported import reconciliation

DENIED = Answers([Fault(Path("bank.yaml"), 3, "connection", "REPLICATION is missing", "run the script")])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    monkeypatch.setattr(onboard, "_LOOK_EVERY_S", 0.0)
    return write_declarations(tmp_path)


def answering(monkeypatch: pytest.MonkeyPatch, *answers: Answers) -> list[Answers]:
    """The servers answer so, one after the other; returns what is left to be asked."""
    left = list(answers)

    def ask(*_: object, on_step: online.OnStep) -> Answers:
        on_step("asks source core_bank")
        return left.pop(0)

    monkeypatch.setattr(onboard.online, "ask", ask)
    return left


def required(*, minutes: float) -> None:
    args = argparse.Namespace(sync="settlement", wait=minutes, json=False)
    onboard._require_rights(args, Layout(settings.load()))  # noqa: SLF001 (what comes behind it asks Airflow)


def test_rights_that_are_missing_are_listed_and_nothing_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, DENIED)
    assert main(["onboard", "settlement"]) == 2
    said = capsys.readouterr().err
    assert "REPLICATION is missing" in said and "--wait 30 goes on asking" in said
    assert "1 mistake in the declarations or at their servers" in said


def test_a_wait_ends_once_the_rights_hold(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    left = answering(monkeypatch, DENIED, DENIED, Answers())
    required(minutes=1)
    assert not left
    said = capsys.readouterr()
    assert said.out.count("REPLICATION is missing") == 1, "what stays the same is said once"
    assert said.err.count("asks source core_bank") == 1


def test_a_wait_that_is_over_lists_what_is_missing_still(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, DENIED)
    with pytest.raises(DeclarationsInvalid, match="REPLICATION is missing"):
        required(minutes=0)


def test_an_unknown_login_of_the_log_is_one_mistake_at_its_own_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was named at the reader's connection, with the reader as the name that was meant."""
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(folder / "connections.json"))
    put({name: {"conn_type": "mysql", "host": "127.0.0.1", "port": 1, "login": "me"} for name in ("core_bank",)})
    monkeypatch.setattr(online.registry, "source", lambda plan: resolve(plan.source.capture))
    monkeypatch.setattr(online.registry, "destination_problems", lambda *_: ())
    monkeypatch.setattr(online.registry, "misfits", lambda *_: ())
    answers = online.ask(load_sync(folder / "syncs" / "settlement.yaml"), "settlement", Layout(settings.load()))
    (fault,) = answers.faults
    assert (fault.file.name, fault.path) == ("core_bank.yaml", "connection"), "the key was left out"
    assert "`./seamline connect add core_bank_capture kind://" in fault.cure


def test_a_partial_verdict_names_what_was_left_out_and_where_the_reason_stands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was one word, and a person who had onboarded a first sync did not know what it meant."""
    parked = TableVerdict("price", Verdict.NOT_RUN, reason="parked: money")
    found = reconciliation(TableVerdict("account", Verdict.MATCH), parked)
    args = argparse.Namespace(sync="settlement", json=False)
    assert outcome(args, DagRun("settlement__onboard", "run", "success", None, {}), [found]) is Exit.PROVEN
    said = "warehouse: PARTIAL, 1 of 2 tables MATCH; left out: price; `./seamline status settlement` says why\n"
    assert capsys.readouterr().out == said


class AirflowOfNights:
    """It has read a sync without a stream, and knows no other DAG of it."""

    def __init__(self) -> None:
        self.paused = {"settlement__onboard", "settlement__nightly"}
        self.due = datetime(2026, 11, 29, 16, 30, tzinfo=UTC)

    def __enter__(self) -> "AirflowOfNights":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def dag_ids(self) -> set[str]:
        return {"settlement__onboard", "settlement__nightly", "seamline__streams"}

    def is_paused(self, dag_id: str) -> bool:
        return dag_id in self.paused

    def next_run(self, dag_id: str) -> datetime:
        assert dag_id in self.paused, "asked too late: Airflow has started it, and answers for the run behind it"
        return self.due

    def unpause(self, dag_id: str) -> None:
        self.paused.discard(dag_id)

    def trigger(self, dag_id: str, **_: object) -> None:
        assert dag_id == "settlement__onboard"

    def wait(self, dag_id: str, run_id: str, **_: object) -> DagRun:
        return DagRun(dag_id, run_id, "success", None, {})

    def runs(self, dag_id: str) -> list[DagRun]:
        raise AssertionError(f"Airflow has no DAG {dag_id}")


class NothingCompared:
    def live_reconciliations_named(self, *_: object, **__: object) -> list[Reconciliation]:
        return []

    def close(self) -> None:
        pass


def test_a_sync_of_nights_alone_is_onboarded_and_its_first_cut_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command asked Airflow for a stream that there is none of, and ended as if the onboarding had failed."""
    source = folder / "sources" / "core_bank.yaml"
    source.write_text(source.read_text() + "log: none\n")
    airflow = AirflowOfNights()
    answering(monkeypatch, Answers(), Answers())
    monkeypatch.setattr(onboard.in_airflow, "airflow", lambda: airflow)
    monkeypatch.setattr(onboard.registry, "platform", NothingCompared)
    monkeypatch.setattr(onboard.airflow_pools, "are_made", lambda _: True)
    assert main(["onboard", "settlement"]) == 0
    assert not airflow.paused
    said = capsys.readouterr().out
    assert "settlement__nightly is on\nthe run of 2026-11-29 begins by itself now" in said
    assert said.endswith("settlement has nights and no stream: there is nothing to prove before the first cut\n")
    assert main(["onboard", "settlement", "--json"]) == 0
    document, progress = capsys.readouterr()
    assert "begins by itself now" not in progress, "the night was on before"
    said = json.loads(document)
    assert (said["state"], said["verdict"], said["destinations"]) == ("success", "NOT_RUN", {})
    assert said["run"].startswith("by_hand__")


NIGHTLY = NightlyPlan("Asia/Shanghai", run_at_delay_minutes=60)
NOW = datetime(2026, 11, 30, 2, 12, tzinfo=UTC)


def test_a_run_that_is_due_begins_by_itself_and_no_cut_is_advised() -> None:
    """The advice to run `cut` brought a second run of the date that Airflow had started a moment before."""
    due = datetime(2026, 11, 29, 17, tzinfo=UTC)
    said = next_night_in_words("bank_copy", NIGHTLY, due=due, now=NOW)
    shows = "`./seamline report bank_copy --date 2026-11-29` shows it"
    assert said == f"the run of 2026-11-29 begins by itself now: {shows}"


@pytest.mark.parametrize("due", [None, datetime(2026, 11, 30, 17, tzinfo=UTC)])
def test_a_run_that_is_not_due_yet_is_named_by_its_hour_in_the_zone_of_the_sync(due: datetime | None) -> None:
    said = next_night_in_words("bank_copy", NIGHTLY, due=due, now=NOW)
    assert said.startswith("the run of 2026-11-30 begins by itself at 2026-12-01 01:00:00 +08:00; `./seamline cut bank")
    ended = BusinessDates((Calendar("bank", date(2025, 1, 1), date(2025, 12, 31)),))
    without = replace(NIGHTLY, dates=ended)
    assert "no run begins by itself" in next_night_in_words("bank_copy", without, due=None, now=NOW)
