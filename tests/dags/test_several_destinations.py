"""A destination that differs from the source, or does not answer, waits alone: the others are published at once."""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskAwaitingInput
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.sdk.execution_time.task_runner import _serialize_outlet_events

from seamline.domain.cut_state import CutState, Headline, has_verdict, state_of_cut
from seamline.domain.decision import DECISION
from seamline.domain.errors import ConfigError, TransientError
from seamline.domain.runs import EXPECTATIONS, NOT_STAGED, PUBLISH, Cut, RunState, Scope
from seamline.domain.staged_cut import Published, StagedCut
from seamline.domain.verdict import Verdict
from seamline.plan.checks import ReconcilePlan
from seamline.plan.model import SyncPlan
from seamline_airflow import deadline
from seamline_airflow.expectations import Expectation, Outcome
from seamline_airflow.operators.approval import CutApprovalOperator
from seamline_airflow.operators.gate import NOT_CLEAN, GateOperator
from seamline_airflow.operators.gx_check import GXCheckOperator
from seamline_airflow.operators.publish_cut import CompleteCutOperator, PublishCutOperator, PublishRestOperator
from seamline_airflow.operators.step import VerdictsOperator
from tests.dags import results
from tests.dags.test_dag_run import dag_of

ABOUT = deadline.subject("settlement", results.DATE)
ASSET = Asset("settlement.cut", "seamline://settlement/cut")


def _plan(on_break: str = "ask") -> SyncPlan:
    archive = replace(results.destination_plan("archive", "archived"), name="archive")
    return results.plan(destinations=(*results.plan().destinations, archive), reconcile=ReconcilePlan((), "", on_break))


class Night:
    """A staged night of two destinations, of which `archive` has a BREAK, and what its tasks do."""

    def __init__(self, platform: results.Platform, monkeypatch: pytest.MonkeyPatch) -> None:
        self.platform = platform
        self.answer: Any = None
        self.away: set[str] = set()
        self.signatures: dict[str, str] = {}
        manifest = results.manifest()
        tables = [
            {**table, "verdict": "BREAK"} if table["table"] == "account" else table for table in manifest["tables"]
        ]
        archive = {**manifest, "destination": "archive", "tables": tables}
        passed = {"verdict": "MATCH", "checked": 3, "failed": []}
        checked = {"destinations": {"warehouse": passed, "archive": passed}}
        result = {"cut": {"warehouse": manifest, "archive": archive}, EXPECTATIONS: checked}
        platform.runs[results.RUN] = results.run(plan=_plan(), result=result)
        broken = (results.table("account", Verdict.BREAK), results.table("ledger_entry"))
        platform.found = [results.clean(), results.reconciliation(*broken, destination="archive")]
        monkeypatch.setattr(platform, "save_reconciliation", lambda found: None, raising=False)
        monkeypatch.setattr("seamline_airflow.parts.cut_publisher", self._publisher)

    def on_break(self, what: str) -> "Night":
        self.platform.runs[results.RUN] = replace(self.run, plan=_plan(what))
        return self

    @contextmanager
    def _publisher(self, plan: SyncPlan, destination: str) -> Any:
        if destination in self.away:
            raise TransientError(f"{destination} does not answer")

        def publish(cut: StagedCut, *, definitions: Any, signed_by: str) -> Published:
            self.signatures[destination] = signed_by
            return Published(1, is_new=True, signed_by=signed_by)

        yield SimpleNamespace(publish=publish)

    @property
    def run(self) -> Any:
        return self.platform.runs[results.RUN]

    def gate(self) -> Any:
        on_break = self.run.plan.reconcile.on_break
        return GateOperator(task_id="gate", run=results.RUN, on_break=on_break).choose_branch({})

    def publish(self, kind: Any = PublishCutOperator, *, number: int = 1) -> tuple[Any, list[Any]]:
        """What was published now, and the events of the cut's asset."""
        events = OutletEventAccessors()
        ti = SimpleNamespace(xcom_pull=lambda **_: self.answer, try_number=number, max_tries=2)
        context = {"ti": ti, "outlet_events": events}
        versions = kind(task_id="publish", run=results.RUN, outlets=[ASSET]).execute(context)
        return versions, [one["extra"]["versions"] for one in _serialize_outlet_events(events)]

    def complete(self) -> None:
        CompleteCutOperator(task_id="complete", run=results.RUN).execute({})

    def ask(self) -> CutApprovalOperator:
        operator = CutApprovalOperator(task_id="approve", subject="s", run=results.RUN, approvers=())
        with pytest.raises(TaskAwaitingInput):
            operator.execute({})
        return operator

    def state(self, destination: str) -> CutState:
        published = [one for one in self.platform.cut_list if one.destination == destination]
        return state_of_cut(
            run_id=results.RUN, sync="settlement", destination=destination, business_date=results.DATE,
            run_state=self.run.state, result=self.run.result,
            found=self.platform.reconciliation(results.RUN, Scope.CUT, destination),
            published=published[0] if published else None, in_force=published[0] if published else None,
        )  # fmt: skip


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch) -> Night:
    def ask(operator: HITLOperator, context: Any) -> None:
        raise TaskAwaitingInput(method_name="execute_complete")

    monkeypatch.setattr(HITLOperator, "execute", ask)
    return Night(results.use(monkeypatch, results.Platform()), monkeypatch)


def _answer(option: str) -> dict[str, Any]:
    return {
        "chosen_options": [option],
        "params_input": {"reason": "known"},
        "responded_at": datetime.now(UTC),
        "responded_by_user": {"id": "olga", "name": "olga"},
    }


def test_the_clean_destination_is_published_while_a_person_is_asked_about_the_other_alone(night: Night) -> None:
    assert night.gate() == ["publish", "approve"]
    assert night.publish() == ({"warehouse": 1}, [{"warehouse": 1}])
    operator = night.ask()
    assert "in archive although it is not clean?" in operator.subject
    body = str(operator.body)
    assert (
        "not clean in **archive**" in body and "changes nothing in `warehouse`" in body and "in warehouse:" not in body
    )
    assert night.run.result[DECISION]["destinations"] == ["archive"]
    assert night.platform.alarms.keys() == {(NOT_CLEAN, ABOUT)}
    assert "warehouse" not in night.platform.alarms[NOT_CLEAN, ABOUT]
    assert night.run.state is RunState.RUNNING
    warehouse, archive = night.state("warehouse"), night.state("archive")
    assert (warehouse.headline, warehouse.decision) == (Headline.MATCH, None)
    assert "waits for a person" in archive.decision_in_words()
    assert "not published: it waits for a decision" in archive.lines()


def test_an_approval_publishes_what_it_is_about_with_its_signature_and_the_run_is_green(night: Night) -> None:
    night.gate(), night.publish()
    night.answer = night.ask().execute_complete({}, _answer("Approve"))
    assert night.publish(PublishRestOperator) == ({"archive": 1}, [{"archive": 1}])
    assert night.signatures == {"warehouse": "", "archive": "olga: known"}
    assert night.run.result[PUBLISH] == {"warehouse": 1, "archive": 1}
    night.complete()
    assert (night.run.state, night.platform.alarms) == (RunState.SUCCEEDED, {})
    assert (night.state("warehouse").signed_by, night.state("archive").signed_by) == ("", "olga: known")
    with pytest.raises(AirflowSkipException):
        night.publish(PublishRestOperator)


def test_each_publication_anchors_the_log_of_acts_and_stands_where_that_is_not_possible(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.gate(), night.publish()
    assert night.platform.anchors == 1

    def refuse() -> str:
        raise ConfigError("the log of acts cannot be anchored in its folder: Permission denied")

    monkeypatch.setattr("seamline_airflow.parts.anchor_audit", refuse)
    night.answer = night.ask().execute_complete({}, _answer("Approve"))
    assert night.publish(PublishRestOperator)[0] == {"archive": 1}


def test_what_is_clean_waits_for_no_answer_and_meets_none_that_was_given_before(night: Night) -> None:
    """As where `gate` was cleared with those after it: Airflow keeps the answer until it asks again."""
    night.answer = _answer("Approve")
    night.gate()
    assert night.publish()[0] == {"warehouse": 1}


def test_a_rejection_leaves_the_other_destinations_cut_as_green_as_it_was(night: Night) -> None:
    night.gate(), night.publish()
    with pytest.raises(AirflowFailException, match="olga rejected this cut: known"):
        night.ask().execute_complete({}, _answer("Reject"))
    night.platform.finish_run(results.RUN, state=RunState.FAILED)
    assert night.state("warehouse").is_green
    assert night.state("archive").decision_in_words().startswith("rejected by olga")


def test_where_nobody_is_asked_the_clean_one_is_published_and_the_run_ends_red_with_the_others_name(
    night: Night,
) -> None:
    assert night.on_break("fail").gate() == "publish"
    assert night.publish()[0] == {"warehouse": 1}
    with pytest.raises(AirflowSkipException):
        night.publish(PublishRestOperator)
    with pytest.raises(AirflowFailException, match="archive has no cut of 2026-11-19: it is not clean") as raised:
        night.complete()
    assert "warehouse" not in str(raised.value)
    assert night.on_break("publish_and_flag").gate() == "publish"
    assert night.publish()[0] == {"archive": 1}
    assert night.run.result[PUBLISH] == {"warehouse": 1, "archive": 1}


def test_a_destination_that_does_not_answer_while_the_night_is_published_is_tried_again_behind_the_others(
    night: Night,
) -> None:
    night.on_break("publish_and_flag").gate()
    night.away = {"warehouse"}
    assert night.publish() == ({"archive": 1}, [{"archive": 1}])
    with pytest.raises(AirflowException, match="warehouse does not answer"):
        night.publish(PublishRestOperator)
    with pytest.raises(AirflowFailException, match="warehouse has no cut of 2026-11-19: warehouse does not answer"):
        night.complete()
    night.away = set()
    assert night.publish(PublishRestOperator) == ({"warehouse": 1}, [{"warehouse": 1}])
    night.complete()


def test_a_clean_destination_that_is_down_keeps_what_is_signed_for_from_nothing(night: Night) -> None:
    night.gate(), night.ask()
    night.away = {"warehouse"}
    for number in (1, 2):
        with pytest.raises(AirflowException, match="warehouse does not answer"):
            night.publish(number=number)
    with pytest.raises(AirflowSkipException, match="left to publish_rest: .*warehouse does not answer"):
        night.publish(number=3)
    assert "not published: warehouse does not answer" in night.state("warehouse").lines()
    assert "waits for a person" in night.state("archive").decision_in_words()
    night.answer = _answer("Approve")
    assert night.publish(PublishRestOperator) == ({"archive": 1}, [{"archive": 1}])
    with pytest.raises(AirflowFailException, match="warehouse has no cut of 2026-11-19: warehouse does not answer"):
        night.complete()


def test_of_two_clean_ones_the_one_that_is_down_is_tried_again_before_the_answer_about_a_third(night: Night) -> None:
    vault = replace(results.destination_plan("vault", "kept"), name="vault")
    plan = replace(_plan(), destinations=(*_plan().destinations, vault))
    result = night.run.result
    result["cut"]["vault"] = {**results.manifest(), "destination": "vault"}
    result[EXPECTATIONS]["destinations"]["vault"] = result[EXPECTATIONS]["destinations"]["warehouse"]
    night.platform.runs[results.RUN] = replace(night.run, plan=plan)
    night.platform.found.append(replace(results.clean(), destination="vault"))
    assert night.gate() == ["publish", "approve"]
    night.away = {"vault"}
    with pytest.raises(AirflowException, match="vault does not answer"):
        night.publish()
    assert night.run.result[PUBLISH] == {"warehouse": 1}
    assert night.publish(number=3)[0] == {"warehouse": 1}
    night.away = set()
    assert night.publish(number=2)[0] == {"warehouse": 1, "vault": 1}


def test_one_that_could_not_be_written_makes_the_run_red_by_its_name_behind_the_others(night: Night) -> None:
    night.run.result[NOT_STAGED] = {"archive": "it does not answer"}
    night.platform.found[1] = results.reconciliation(
        results.table("account", Verdict.NOT_RUN, reason="archive could not be written"), destination="archive"
    )
    assert night.gate() == "publish"
    said = night.platform.alarms[NOT_CLEAN, ABOUT]
    assert said.startswith(
        "archive has no cut of 2026-11-19: it does not answer; mend the cause, then run this date again"
    )
    assert night.publish()[0] == {"warehouse": 1}
    assert (NOT_CLEAN, ABOUT) in night.platform.alarms, "it still has none"
    with pytest.raises(AirflowFailException, match=r"^GateFailed: archive has no cut of 2026-11-19: it does"):
        night.complete()


def test_a_destination_whose_comparison_had_no_answer_is_in_the_alarm_and_has_no_verdict(night: Night) -> None:
    """Found by a newcomer: its stream had failed, the others were published, and the date was in nobody's list."""
    why = "the stream into archive has ended: rows are gone"
    night.run.result[NOT_STAGED] = {"archive": f"no cut of archive: {why}"}
    night.platform.found[1] = results.reconciliation(
        results.table("account", Verdict.INCONCLUSIVE, reason=why), destination="archive"
    )
    night.platform.alarms[deadline.ALARM, ABOUT] = "late"
    VerdictsOperator(task_id="verdicts", run=results.RUN, scope="cut").execute({})
    assert night.gate() == "publish"
    assert why in night.platform.alarms[NOT_CLEAN, ABOUT] and "signature" not in night.platform.alarms[NOT_CLEAN, ABOUT]
    assert (deadline.ALARM, ABOUT) in night.platform.alarms, "INCONCLUSIVE is no verdict"
    assert night.publish()[0] == {"warehouse": 1}
    states = [night.state("warehouse"), night.state("archive")]
    assert [has_verdict([one]) for one in states] == [True, False]
    night.run.result.pop(NOT_STAGED)
    night.platform.found[1] = replace(results.clean(), destination="archive")
    assert night.gate() == "publish"
    assert (NOT_CLEAN, ABOUT) not in night.platform.alarms


def test_one_whose_rows_cannot_be_checked_keeps_no_other_waiting_and_nobody_can_sign_for_it(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(frames: Any, staged: Any, at: Any, *, suite: str) -> Any:
        raise TransientError("it does not answer")

    monkeypatch.setattr("seamline_airflow.gx_engine.check", check)
    checks = GXCheckOperator(task_id="expectations", run=results.RUN, on_mismatch="return")
    with pytest.raises(AirflowException, match="does not answer"):
        checks.execute({})
    passed = {"verdict": "MATCH", "checked": 3, "failed": []}
    night.run.result[EXPECTATIONS]["destinations"]["warehouse"] = passed
    assert night.gate() == "publish"
    assert night.publish()[0] == {"warehouse": 1}
    with pytest.raises(AirflowFailException, match="archive has no cut of 2026-11-19: its checks did not run"):
        night.complete()
    assert night.state("archive").headline is Headline.BREAK
    assert "it can be checked (it does not answer)" in "\n".join(night.state("archive").lines())


def test_one_that_was_not_checked_is_checked_alone_and_what_the_others_have_stands(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    def judge(_plan: Any, destination: Any, *_: Any, suite: str) -> list[Outcome]:
        judged.append(destination.name)
        return [Outcome("account", Expectation("t", {}, "a row"), is_met=True)]

    monkeypatch.setattr("seamline_airflow.operators.gx_check.judge_cut", judge)
    left = night.run.result[EXPECTATIONS]["destinations"]
    stands, left["warehouse"] = left["archive"], {"verdict": "NOT_RUN", "checked": 0, "failed": []}
    # It was published with a signature.
    night.platform.cut_list = [Cut(
        "settlement", "archive", results.DATE, 7, results.RUN, results.POSITION, datetime.now(UTC), (), Verdict.BREAK
    )]  # fmt: skip
    GXCheckOperator(task_id="expectations", run=results.RUN, on_mismatch="return").execute({})
    checked = night.run.result[EXPECTATIONS]["destinations"]
    assert (judged, checked["archive"], checked["warehouse"]["verdict"]) == (["warehouse"], stands, "MATCH")
    assert night.gate() == "publish", "nobody is asked again about what is published"
    assert night.publish() == ({"warehouse": 1}, [{"warehouse": 1}])
    assert night.run.result[PUBLISH] == {"archive": 7, "warehouse": 1}
    night.complete()


def test_where_all_is_published_nothing_is_checked_again(night: Night) -> None:
    night.gate()
    night.publish()
    night.answer = _answer("Approve")
    night.publish(PublishRestOperator)
    before = dict(night.run.result)
    with pytest.raises(AirflowFailException, match="published in warehouse, archive: its checks stand"):
        GXCheckOperator(task_id="expectations", run=results.RUN, on_mismatch="return").execute({})
    assert night.run.result == before


# What the gate leads to, what becomes of the question, and the states of the tasks behind it and of the run.
NIGHTS: dict[str, tuple[Any, bool | None, str, str]] = {
    "all clean": ("publish", None, "success skipped skipped success", "success"),
    "one waits and is approved": (["publish", "approve"], True, "success success success success", "success"),
    "one waits and is rejected": (
        ["publish", "approve"],
        False,
        "success failed upstream_failed upstream_failed",
        "failed",
    ),
    "the clean one is down and the other approved": (
        ["publish", "approve"],
        True,
        "skipped success success success",
        "success",
    ),
    "all wait and are approved": ("approve", True, "skipped success success success", "success"),
    "only compared": (None, None, "skipped skipped skipped skipped", "success"),
}  # fmt: skip


def _raising(error: Exception, *, where: Callable[[], bool]) -> Any:
    def execute(operator: Any, context: Any) -> None:
        if where():
            raise error

    return execute


def test_the_tasks_behind_the_gate_wait_for_each_other_only_where_they_must(
    checkout: Path, airflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.use(monkeypatch, results.Platform())
    dag = dag_of(checkout, "settlement__nightly")
    # `dag.test()` of a DAG with a deadline fails in Airflow's own database.
    dag.deadline = None
    branch: list[Any] = []
    is_approved: list[bool | None] = []
    is_down: list[bool] = []
    for task_id in ("open", "cut", "verdicts", "expectations", "complete"):
        monkeypatch.setattr(type(dag.get_task(task_id)), "execute", lambda operator, context: "r")
    monkeypatch.setattr(GateOperator, "choose_branch", lambda operator, context: branch[-1])
    left = AirflowSkipException("left to publish_rest")
    monkeypatch.setattr(PublishCutOperator, "execute", _raising(left, where=lambda: is_down[-1]))
    nothing = AirflowSkipException("nothing has waited")
    monkeypatch.setattr(PublishRestOperator, "execute", _raising(nothing, where=lambda: is_approved[-1] is None))
    rejected = AirflowFailException("rejected")
    monkeypatch.setattr(CutApprovalOperator, "execute", _raising(rejected, where=lambda: not is_approved[-1]))
    for name, (leads_to, answer, wanted, colour) in NIGHTS.items():
        branch.append(leads_to)
        is_approved.append(answer)
        is_down.append("is down" in name)
        run = dag.test(run_conf={"business_date": "2026-11-19"})
        states = {task.task_id: str(task.state) for task in run.get_task_instances()}
        behind = " ".join(states[task_id] for task_id in ("publish", "approve", "publish_rest", "complete"))
        assert (behind, str(run.state)) == (wanted, colour), name
    assert dag.get_task("publish").upstream_task_ids == {"gate"}
    assert dag.max_active_runs == 2, "a decision that is still open delays no next night"
