"""A destination that fails keeps no other from its publish, its stream, its cutover and its comparison. The run is red
behind the others, with each one's own reason, and brings the missing one when it is cleared."""

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from seamline.domain.errors import InvariantViolated, Refused, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import position_to_json
from seamline.domain.runs import GATE, NOT_PUBLISHED, PUBLISH, TABLES, RunKind, RunState, Scope, SyncState
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.ports import Commit
from seamline_airflow import cutover_state, parts, runs
from seamline_airflow.operators.run_jobs import JoinJobOperator
from seamline_airflow.operators.spark_job import SparkJobOperator
from seamline_airflow.operators.step import EnableOperator, PublishOperator, StartStreamOperator, VerdictsOperator
from seamline_airflow.triggers.cutover import CutoverTrigger
from tests.dags import results
from tests.dags.test_runs import try_of

RUN = "settlement/onboard/-/manual__1"
ARCHIVE = replace(results.destination_plan("archive", "archived"), name="archive")
BOTH = results.plan(destinations=(ARCHIVE, *results.plan().destinations))
OTHER = StreamId("settlement", "archive")
LEDGER = LedgerRow(results.STREAM, "t", "t-1", 5, results.POSITION, 3, 0, 0, (), "high")


class Destinations:
    """Both of them; `failing`: what is raised by who is asked."""

    def __init__(self) -> None:
        self.failing: dict[str, SeamlineError] = {}
        self.ledgers: dict[str, LedgerRow] = {}
        self.published: list[str] = []

    @contextmanager
    def sink(self, _plan: Any, name: str) -> Any:
        if name in self.failing:
            raise self.failing[name]

        def publish(_stream: Any, _loads: Any, *, publication: Any) -> Commit:
            self.published.append(name)
            return Commit(LEDGER)

        yield SimpleNamespace(publish=publish, read_ledger=lambda _stream: self.ledgers.get(name, LEDGER))


@pytest.fixture
def destinations(monkeypatch: pytest.MonkeyPatch) -> Destinations:
    made = Destinations()
    monkeypatch.setattr(parts, "sink", made.sink)
    holds = SimpleNamespace(hold_log=lambda *_, **__: "h", release_log=lambda _hold: None)
    monkeypatch.setattr(parts, "pruning_holds", lambda: nullcontext(holds))
    return made


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    made.state = None
    runs.open_onboarding(made, BOTH, RUN)
    staged = [{"table": table.name, "staged_as": "s", "rows": 1} for table in BOTH.tables]
    snapshot = {
        "position": position_to_json(results.POSITION),
        "topic": "t",
        "topic_id": "t-1",
        "next_offset": 5,
        "high_marker": "high",
        "loads": {"archive": staged, "warehouse": staged},
    }
    made.put_result(RUN, "snapshot", snapshot)
    return made


def publish(number: int) -> None:
    PublishOperator(task_id="publish", run=RUN).execute(try_of(number))


def matched(platform: results.Platform, *names: str) -> None:
    platform.found = [replace(results.clean(), run_id=RUN, scope=Scope.LIVE, destination=name) for name in names]


def test_the_others_are_published_stream_and_enabled_and_the_run_is_red_with_the_reason(
    platform: results.Platform, destinations: Destinations
) -> None:
    destinations.failing["archive"] = TransientError("it is down")
    for number in (1, 2):
        with pytest.raises(AirflowException, match="it is down"):
            publish(number)
    publish(3)
    assert platform.runs[RUN].result[NOT_PUBLISHED] == {"archive": "it is down"}
    assert StartStreamOperator(task_id="start_stream", run=RUN).execute({}) == ["settlement@warehouse"]
    assert cutover_state.look(RUN).is_reached
    matched(platform, "warehouse")
    with pytest.raises(AirflowFailException, match="archive does not have the tables: it is down") as raised:
        EnableOperator(task_id="enable", run=RUN).execute({})
    assert "clear the task `publish`" in str(raised.value)
    assert (platform.state, RUN in platform.finished) == (SyncState.ENABLED, False)
    assert [one.name for one in runs.onboarded_plan(platform, BOTH).destinations] == ["warehouse"]
    assert runs.to_onboard(platform, BOTH, ()) == ("archive",)

    destinations.failing.clear()
    publish(4)
    assert platform.state is SyncState.ENABLED, "nights of the others do not wait for it"
    matched(platform, "archive", "warehouse")
    EnableOperator(task_id="enable", run=RUN).execute({})
    assert platform.finished[RUN] == RunState.SUCCEEDED


@pytest.mark.parametrize("verdict", [Verdict.INCONCLUSIVE, Verdict.BREAK])
def test_one_that_dies_or_differs_behind_its_publish_keeps_no_other_from_its_nights(
    platform: results.Platform, verdict: Verdict
) -> None:
    platform.put_result(RUN, PUBLISH, {"archive": "p", "warehouse": "p"})
    matched(platform, "warehouse")
    enable = EnableOperator(task_id="enable", run=RUN)
    other = results.reconciliation(results.table("account", verdict), destination="archive")
    platform.found.append(replace(other, run_id=RUN, scope=Scope.LIVE))
    with pytest.raises(AirflowFailException, match=f"archive: account {verdict}"):
        enable.execute({})
    assert (platform.state, RUN in platform.finished) == (SyncState.ENABLED, False)
    platform.state = SyncState.ONBOARDING
    del platform.found[0]
    platform.runs[RUN] = replace(platform.runs[RUN], plan=BOTH.into(["archive"]))
    with pytest.raises(AirflowFailException, match="archive: account"):
        enable.execute({})
    assert platform.state is SyncState.ONBOARDING, "nothing of it is proven"


def test_what_another_try_cannot_help_keeps_nobody_waiting(
    platform: results.Platform, destinations: Destinations
) -> None:
    destinations.failing["archive"] = Refused("no rights")
    publish(1)
    assert destinations.published == ["warehouse"]


@pytest.mark.parametrize(
    "failing", [{"archive": InvariantViolated("a bug")}, {"archive": Refused("a"), "warehouse": Refused("b")}]
)
def test_an_error_of_no_destination_and_one_of_all_end_the_run_there(
    platform: results.Platform, destinations: Destinations, failing: dict[str, SeamlineError]
) -> None:
    destinations.failing = failing
    with pytest.raises(AirflowFailException):
        publish(1)
    assert destinations.published == []
    with pytest.raises(AirflowFailException, match="put no tables in place"):
        StartStreamOperator(task_id="start_stream", run=RUN).execute({})


@pytest.mark.parametrize("done", [{}, {"warehouse": "p"}])
def test_a_join_that_failed_in_one_destination_goes_on_with_the_others(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch, done: dict[str, str]
) -> None:
    tables = "settlement/tables/-/manual__1"
    platform.start_run(run_id=tables, sync="settlement", kind=RunKind.TABLES, plan_json=plan_to_json(BOTH))
    platform.put_result(tables, TABLES, {"added": ["account"], "again": [], "removed": []})

    def job(_self: Any, _context: Any) -> None:
        platform.put_result(tables, PUBLISH, done)
        platform.put_result(tables, NOT_PUBLISHED, {"archive": "its stream is paused"})
        raise AirflowFailException("exit code 3")

    monkeypatch.setattr(SparkJobOperator, "execute", job)
    join = JoinJobOperator(task_id="join", job="spark_jobs/table_join.py", run=tables)
    if not done:
        with pytest.raises(AirflowFailException, match="exit code 3"):
            join.execute(try_of(1))
        return
    join.execute(try_of(1))
    platform.found = [replace(results.clean(), run_id=tables, scope=Scope.LIVE)]
    with pytest.raises(AirflowFailException, match="archive does not have the tables: its stream is paused") as raised:
        VerdictsOperator(task_id="verdicts", run=tables, scope="live").execute({})
    assert "clear the task `join`" in str(raised.value)
    assert platform.runs[tables].result[GATE]["lines"] == ["archive does not have the tables: its stream is paused"]


def test_a_stream_that_fails_or_whose_destination_is_away_keeps_no_other_from_its_cutover(
    platform: results.Platform, destinations: Destinations, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.put_result(RUN, PUBLISH, {"archive": "p", "warehouse": "p"})
    trigger = CutoverTrigger(RUN, 0.01)
    destinations.failing["archive"] = TransientError("it is down")
    assert cutover_state.look(RUN).away == {str(OTHER): "does not answer"}
    assert trigger._event(cutover_state.look(RUN)) is None, "it may be back in a moment"
    monkeypatch.setattr("seamline_airflow.triggers.cutover._AWAY_S", 0.0)
    event = trigger._event(cutover_state.look(RUN))
    assert event == {
        "status": "reached",
        "positions": {str(results.STREAM): str(results.POSITION)},
        "message": f"{OTHER} does not answer",
    }
    destinations.failing["archive"] = Refused("its ledger is gone")
    state = cutover_state.look(RUN)
    assert (state.is_reached, state.error) == (True, f"{OTHER}: its ledger is gone")
    destinations.failing["warehouse"] = Refused("gone too")
    assert cutover_state.look(RUN).is_missed


def test_a_destination_that_can_be_read_and_takes_nothing_keeps_no_other_waiting(
    platform: results.Platform, destinations: Destinations, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.put_result(RUN, PUBLISH, {"archive": "p", "warehouse": "p"})
    destinations.ledgers["archive"] = replace(LEDGER, stream=OTHER, last_marker="low")
    now = [0.0]
    monkeypatch.setattr("seamline_airflow.triggers.cutover.time.monotonic", lambda: now[0])
    trigger = CutoverTrigger(RUN, 0.01)

    def event(state: str, seconds: float) -> Any:
        now[0] += seconds
        platform.reports = {OTHER: replace(results.report(state=state, error="the disk is full"), stream=OTHER)}
        return trigger._event(cutover_state.look(RUN))

    assert [event("backing_off", 0), event("catching_up", 40), event("catching_up", 40)] == [None] * 3, "it comes"
    assert [event("backing_off", 10), event("catching_up", 10), event("backing_off", 40)] == [None] * 3
    assert event("backing_off", 10)["message"] == f"{OTHER} is tried again and again: the disk is full"
    assert event("failed", 0) is not None
    # As where each COMMIT waits for a standby that is away.
    platform.reports = {OTHER: replace(results.report(state="catching_up", still_s=400), stream=OTHER)}
    assert cutover_state.look(RUN).away == {str(OTHER): "has not come further for 401 s"}, "its report is a second old"


def test_a_stream_that_the_publish_of_its_own_run_has_fenced_is_waited_for(
    platform: results.Platform, destinations: Destinations
) -> None:
    platform.put_result(RUN, PUBLISH, {"archive": "p"})
    destinations.ledgers["archive"] = replace(LEDGER, stream=OTHER, last_marker="low")
    fenced = replace(results.report(state="failed", error="Fenced: another owner"), stream=OTHER)
    platform.reports = {OTHER: fenced}
    assert cutover_state.look(RUN).waiting == (str(OTHER),)
    platform.reports = {OTHER: replace(fenced, age_s=61)}
    assert cutover_state.look(RUN).is_missed
