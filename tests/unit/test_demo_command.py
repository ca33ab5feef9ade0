"""What `seamline demo` shows where one of its runs fails."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from seamline import settings
from seamline.adapters.airflow_rest import DagRun, TaskState
from seamline.cli import demo
from seamline.cli.main import main
from seamline.demo import story
from seamline.demo.story import Story
from seamline.domain.errors import TerminalError
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.model import NightlyPlan, SyncPlan, TablePlan
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress
from tests.log_topic import sync_plan
from tests.unit.reported import cut, reconciliation
from tests.waiting import wait_until


def test_a_failed_run_is_reported_after_the_verdicts_and_the_way_into_airflow(
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
    monkeypatch.setattr(demo.Demo, "run_dags", fail)
    monkeypatch.setattr(demo.seen, "newest_verdicts", lambda *_: demo.seen.Newest([], [broken], ZoneInfo("UTC"), ()))
    assert main(["demo"]) == TerminalError.exit_code
    said = capsys.readouterr()
    assert "BREAK" in said.out and "1 row differs" in said.out and "approver" in said.out
    assert re.search(r"http://127\.0\.0\.1:\d+/seamline/page\n", said.out), "the page of the reports"
    assert "demo-1 failed" in said.err


def test_a_demo_that_is_interrupted_shows_what_goes_on_and_how_to_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "data").mkdir()
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(demo.boot, "up", lambda *_: None)
    monkeypatch.setattr(demo.Demo, "fill_bank", interrupt)
    assert main(["demo"]) == 130
    said = capsys.readouterr()
    assert "goes on: `./seamline down` stops it" in said.out + said.err


DATES = [date(2026, 11, 23), date(2026, 11, 21), date(2026, 11, 22)]


ACCOUNT = TableVerdict("account", Verdict.MATCH)
LIVE = [reconciliation(ACCOUNT)]


def plan_of(*tables: str) -> SyncPlan:
    """Of a sync with nightly cuts."""
    return replace(sync_plan(), tables=tuple(TablePlan(name) for name in tables), nightly=NightlyPlan())


def test_a_demo_is_complete_with_live_tables_and_three_different_dates() -> None:
    plan, cuts = plan_of("account"), [cut(ACCOUNT, day=one) for one in DATES]
    assert demo.is_complete(plan, cuts, LIVE, DATES)
    assert not demo.is_complete(plan, cuts, [], DATES), "live tables were not compared"
    assert not demo.is_complete(plan, cuts[:2], LIVE, DATES), "a date has no verdict"
    assert not demo.is_complete(plan, cuts[:2], LIVE, DATES[:2]), "a date was not cut"
    assert not demo.is_complete(plan, cuts[:2], LIVE, [*DATES[:2], DATES[0]]), "one date was cut twice"
    assert not demo.is_complete(plan_of("account", "entry"), cuts, LIVE, DATES), "a table has no verdict"
    lake = replace(plan.destinations[0], name="lake")
    both = replace(plan, destinations=(*plan.destinations, lake))
    assert not demo.is_complete(both, cuts, [*LIVE, replace(LIVE[0], destination="lake")], DATES), "lake has no cuts"
    in_lake = [replace(one, destination="lake") for one in cuts]
    assert not demo.is_complete(both, [*cuts, *in_lake], LIVE, DATES), "nor a verdict of its live tables"


def test_a_sync_without_cuts_is_complete_with_its_live_tables() -> None:
    plan = replace(plan_of("account"), nightly=None)
    assert demo.is_complete(plan, [], LIVE, [])
    assert not demo.is_complete(plan, [], [], [])
    assert not demo.is_complete(plan, [], [reconciliation()], [])


NOT_RUN = TableVerdict("entry", Verdict.NOT_RUN, reason="no history")
OF_BEFORE = cut(TableVerdict("account", Verdict.BREAK), day=date(2026, 10, 1))


@pytest.mark.parametrize(
    ("account", "entry", "code"),
    [
        (Verdict.MATCH, NOT_RUN, 0),
        (Verdict.MATCH, TableVerdict("entry", Verdict.NOT_RUN), 1),
        (Verdict.MATCH, TableVerdict("other", Verdict.MATCH), 1),
        (Verdict.BREAK, NOT_RUN, 1),
        (Verdict.INCONCLUSIVE, NOT_RUN, 1),
    ],
    ids=["all agree", "no reason", "a table without a verdict", "a break", "nobody knows"],
)
def test_a_demo_ends_with_0_only_if_every_table_agrees_or_says_why_it_did_not_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    account: Verdict,
    entry: TableVerdict,
    code: int,
) -> None:
    live = [reconciliation(ACCOUNT, TableVerdict("entry", Verdict.MATCH))]
    cuts = [OF_BEFORE]
    for day, verdict in zip(DATES, (Verdict.MATCH, Verdict.MATCH, account), strict=True):
        cuts.append(cut(TableVerdict("account", verdict), entry, day=day))
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path))
    monkeypatch.setattr(demo.seen, "newest_verdicts", lambda *_: demo.seen.Newest(cuts, live, ZoneInfo("UTC"), ()))
    monkeypatch.setattr(demo.seen, "look_at_streams", lambda _: demo.seen.Streams((), {}, {}, (), ()))
    monkeypatch.setattr(demo, "print_airflow", lambda _: None)
    monkeypatch.setattr(demo.Demo, "plan", lambda *_: plan_of("account", "entry"))
    assert demo.Demo(Layout(settings.load())).show(DATES) == code
    said = capsys.readouterr().out
    assert ("All agree." in said) == (code == 0)
    partial = ", ".join(map(str, sorted(DATES)))
    assert (f"PARTIAL is as designed: {partial} without entry ({entry.reason})." in said) == (
        code == 0 and entry.is_left_out
    )


class Played:
    """A story without Airflow, of a sync without cuts: it keeps what it was asked to run."""

    def __init__(self, plan: SyncPlan) -> None:
        self.plan = plan
        self.runs: list[str] = []

    def wait_for_dags(self) -> None:
        pass

    def onboard(self) -> None:
        self.runs.append("onboard")

    def reconcile(self) -> None:
        self.runs.append("reconcile")


@pytest.mark.parametrize(
    ("loaded", "runs"),
    [([], ["onboard"]), (["warehouse"], ["onboard", "reconcile"]), (["warehouse", "lake"], ["reconcile"])],
    ids=["the first demo", "a lake joins", "all are there"],
)
def test_a_destination_that_joins_is_loaded_and_what_was_there_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: list[str], runs: list[str]
) -> None:
    plan = replace(plan_of("account"), nightly=None)
    (warehouse,) = plan.destinations
    plan = replace(plan, destinations=(warehouse, replace(warehouse, name="lake")))
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path))
    monkeypatch.setattr(demo.Demo, "onboarded_into", lambda *_: frozenset(loaded))
    story = Played(plan)
    played = demo.Demo(Layout(settings.load()), progress=Progress(out=io.StringIO()))
    assert played.run_sync(story) == []  # type: ignore[arg-type]
    assert story.runs == runs


class Asking:
    """Airflow with one run, of which a task waits for a person."""

    def trigger(self, dag_id: str, *, run_id: str, partition_key: str | None) -> DagRun:
        return DagRun(dag_id, run_id, "running", partition_key, {})

    def wait(self, dag_id: str, run_id: str, *, timeout_s: float, on_change: Callable[[TaskState], None]) -> DagRun:
        for task, state in (("gate", "success"), ("approve", "awaiting_input")):
            on_change(TaskState(task, state, 1, -1))
        return DagRun(dag_id, run_id, "success", None, {})


def test_a_cut_that_waits_for_a_person_says_who_decides_and_where() -> None:
    out = io.StringIO()
    Story(Asking(), sync_plan(), Progress(out=out)).nightly()  # type: ignore[arg-type]
    said = out.getvalue().splitlines()
    assert said[0].endswith("gate success")
    assert "the cut is not clean" in said[1] and "as `approver` and decide under Required Actions" in said[1]


class Listing:
    """Airflow that has read the DAGs of a sync without cuts."""

    def __init__(self) -> None:
        self.unpaused: list[str] = []

    def import_errors(self) -> list[str]:
        return []

    def dag_ids(self) -> set[str]:
        return {f"settlement__{kind}" for kind in ("onboard", "stream", "tables", "reconcile")}

    def unpause(self, dag_id: str) -> None:
        self.unpaused.append(dag_id)


def test_a_sync_without_cuts_is_not_waited_for_its_nights() -> None:
    airflow = Listing()
    Story(airflow, sync_plan(), Progress(out=io.StringIO())).wait_for_dags()  # type: ignore[arg-type]
    assert airflow.unpaused == ["settlement__onboard", "settlement__reconcile", "settlement__stream"]


class Slow(Asking):
    """Ends its run when the story has said what it waits for."""

    def __init__(self, out: io.StringIO) -> None:
        self.out = out

    def wait(self, dag_id: str, run_id: str, *, timeout_s: float, on_change: Callable[[TaskState], None]) -> DagRun:
        wait_until(lambda: "waits for Airflow, for " in self.out.getvalue(), timeout_s=10, what="the first line")
        on_change(TaskState("cut", "running", 1, -1))
        wait_until(lambda: " now, 0 of 1 tasks are done" in self.out.getvalue(), timeout_s=10, what="the second line")
        return DagRun(dag_id, run_id, "success", None, {})


def test_a_run_that_takes_long_says_now_and_then_what_it_is_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a newcomer on a loaded machine: minutes without a word."""
    out = io.StringIO()
    monkeypatch.setattr(story, "QUIET_S", 0.01)
    Story(Slow(out), sync_plan(), Progress(out=out)).nightly()  # type: ignore[arg-type]
    assert "settlement__nightly" in out.getvalue()


def test_a_date_that_ends_amid_a_demo_does_not_move_its_dates() -> None:
    before = datetime(2026, 11, 23, 15, 59, 59, tzinfo=UTC)
    story = Story(None, sync_plan(), Progress(), began=before)  # type: ignore[arg-type]
    assert story.last_date() == date(2026, 11, 22)
