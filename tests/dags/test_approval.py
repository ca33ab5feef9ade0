"""Who is asked about a cut that is not clean, with what in hand, and which answers are taken; what is kept of it."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput

from seamline.domain.decision import DECISION
from seamline.domain.errors import Refused
from seamline.domain.runs import ASKED_BY, EXPECTATIONS, FAILURE, RunKind
from seamline.domain.verdict import Break, BreakType, Verdict
from seamline.plan.document import plan_to_json
from seamline_airflow.operators.approval import CutApprovalOperator
from seamline_airflow.operators.gate import GateOperator
from seamline_airflow.operators.gx_check import GXCheckOperator
from seamline_airflow.operators.run_jobs import CutJobOperator
from seamline_airflow.question import question_text
from seamline_airflow.run_ends import RunOf
from tests.dags import results

BROKEN = results.reconciliation(results.table("account", Verdict.BREAK), results.table("ledger_entry"))
ASKED: list[HITLOperator] = []


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    """A cut that the gate has judged and that is not clean, and an Airflow that asks when it is asked to."""

    def ask(operator: HITLOperator, context: Any) -> None:
        ASKED.append(operator)
        raise TaskAwaitingInput(method_name="execute_complete")

    ASKED.clear()
    monkeypatch.setattr(HITLOperator, "execute", ask)
    made = results.use(monkeypatch, results.Platform())
    made.runs[results.RUN] = results.run()
    made.found = [BROKEN]
    GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({})
    return made


def _operator(*approvers: str) -> CutApprovalOperator:
    return CutApprovalOperator(task_id="approve", subject="s", run=results.RUN, approvers=approvers)


def _answer(*options: str, reason: Any = "late file") -> dict[str, Any]:
    return {
        "chosen_options": list(options),
        "params_input": {"reason": reason},
        "responded_at": datetime(2026, 11, 20, 1, tzinfo=UTC),
        "responded_by_user": {"id": "approver", "name": "approver"},
    }


def _ask(operator: CutApprovalOperator) -> None:
    with pytest.raises(TaskAwaitingInput):
        operator.execute({})


def _decision(platform: results.Platform) -> Any:
    return platform.runs[results.RUN].result[DECISION]


def test_a_question_is_kept_with_who_may_answer_and_then_with_the_answer(platform: results.Platform) -> None:
    assert _decision(platform) is None
    operator = _operator("approver", "deputy")
    _ask(operator)
    asked = _decision(platform)
    assert {**asked, "since": ""} == {
        "state": "waiting", "who": "", "reason": "", "since": "", "at": "", "approvers": ["approver", "deputy"],
        "destinations": ["warehouse"],
    }  # fmt: skip
    assert datetime.fromisoformat(asked["since"]).utcoffset() == datetime.now(UTC).utcoffset()
    assert operator.execute_complete({}, _answer("Approve"))["chosen_options"] == ["Approve"]
    assert _decision(platform) == {
        **asked, "state": "approved", "who": "approver", "reason": "late file", "at": "2026-11-20T01:00:00+00:00",
    }  # fmt: skip


def test_an_approval_by_the_person_who_asked_for_the_run_is_not_taken_and_asked_again(
    platform: results.Platform,
) -> None:
    run = platform.runs[results.RUN]
    platform.runs[results.RUN] = replace(run, result={**run.result, ASKED_BY: "approver"})
    operator = _operator("approver")
    _ask(operator)
    asked = _decision(platform)
    with pytest.raises(TaskAwaitingInput):
        operator.execute_complete({}, _answer("Approve"))
    assert _decision(platform) == asked


def test_an_approval_by_a_person_who_worked_on_the_run_is_asked_again_and_does_not_end_the_night(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database refuses it; the task failed by that, and the cut with it."""
    operator = _operator("approver")
    _ask(operator)
    asked = _decision(platform)

    def refused(*_: object) -> None:
        raise Refused("approver has explained breaks of the run, so another person decides")

    with monkeypatch.context() as held, pytest.raises(TaskAwaitingInput):
        held.setattr(platform, "put_result", refused)
        operator.execute_complete({}, _answer("Approve"))
    assert _decision(platform) == asked


@pytest.mark.parametrize(
    ("event", "said", "state", "who", "reason"),
    [
        (_answer("Reject"), "approver rejected this cut: late file", "rejected", "approver", "late file"),
        (_answer("Reject", reason=None), "approver rejected this cut: no reason given", "rejected", "approver", ""),
        ({"error": "timed out", "error_type": "timeout"}, "nobody decided about this cut", "expired", "", ""),
    ],
)
def test_a_refusal_is_red_for_good_and_is_a_decision_and_no_failure(
    platform: results.Platform, event: Any, said: str, state: str, who: str, reason: str
) -> None:
    operator = _operator("approver")
    _ask(operator)
    with pytest.raises(AirflowFailException, match=said) as raised:
        operator.execute_complete({}, event)
    _ends_with(platform, raised.value)
    run = platform.runs[results.RUN]
    assert FAILURE not in run.result
    assert (run.state, run.result[DECISION]["state"]) == ("failed", state)
    assert (run.result[DECISION]["who"], run.result[DECISION]["reason"]) == (who, reason)
    assert run.result[DECISION]["at"]


def test_an_answer_that_airflow_lost_is_a_failure_and_no_decision(platform: results.Platform) -> None:
    operator = _operator("approver")
    _ask(operator)
    with pytest.raises(AirflowFailException, match="lost") as raised:
        operator.execute_complete({}, {"error": "lost", "error_type": "unknown"})
    _ends_with(platform, raised.value)
    assert "lost" in platform.runs[results.RUN].result[FAILURE]["error"]
    assert _decision(platform) is None


def test_a_question_that_is_asked_again_by_a_retry_waits_since_it_was_asked_first(platform: results.Platform) -> None:
    _ask(_operator("approver"))
    first = _decision(platform) | {"since": "2026-11-19T20:00:00+00:00"}
    platform.put_result(results.RUN, DECISION, first)
    _ask(_operator("approver"))
    assert _decision(platform) == first
    # To others it is another question.
    _ask(_operator("deputy"))
    assert (_decision(platform)["approvers"], _decision(platform)["since"] > first["since"]) == (["deputy"], True)


def _ends_with(platform: results.Platform, error: Exception) -> None:
    dag_run = SimpleNamespace(partition_key=str(results.DATE), run_id="manual__1")
    context = {"dag_run": dag_run, "ti": SimpleNamespace(task_id="approve"), "exception": error}
    RunOf("settlement", RunKind.NIGHTLY).failed(context)


@pytest.mark.parametrize("reason", [None, "", " \n\t "])
def test_an_approval_without_a_reason_is_not_taken_and_asked_again(platform: results.Platform, reason: Any) -> None:
    operator = _operator("approver")
    _ask(operator)
    with pytest.raises(TaskAwaitingInput):
        operator.execute_complete({}, _answer("Approve", reason=reason))
    assert len(ASKED) == 2
    assert _decision(platform)["state"] == "waiting"


def test_the_persons_form_needs_a_reason_and_begins_without_one(platform: results.Platform) -> None:
    operator = _operator("approver")
    operator.params["reason"] = "what somebody gave as the reason of the run"
    (shown,) = operator.serialized_params.values()
    assert shown["value"] is None
    assert (shown["schema"]["type"], shown["schema"]["minLength"]) == ("string", 1)
    assert shown["schema"]["title"] == "Reason"


def test_a_person_is_asked_about_the_cut_that_the_gate_judged_only(platform: results.Platform) -> None:
    platform.runs[results.RUN].result["cut"] = {"warehouse": {"staged": "take two"}}
    with pytest.raises(AirflowFailException, match="has not judged"):
        _operator("approver").execute({})
    assert ASKED == []


def test_the_question_names_rows_by_their_keys_the_report_and_who_can_sign(platform: results.Platform) -> None:
    run = platform.runs[results.RUN]
    hostile = '{"id": "`](javascript:x) <b>\\u001b[2J`"}'
    keys = ['{"id": "17"}', hostile, *(f'{{"id": "{number}"}}' for number in range(9))]
    run.result["expectations"] = {"verdict": "BREAK", "checked": 2, "failed": [
        {"on": "payment_order", "type": "t", "why": "moves money one way", "detail": "d", "rows": 11, "keys": keys},
        {"on": "table_verdicts", "type": "t", "why": "no table has a break", "detail": "d", "rows": None, "keys": []},
    ]}  # fmt: skip
    operator = _operator("approver")
    GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({})
    _ask(operator)
    body = str(operator.body)
    assert "settlement for 2026-11-19" in operator.subject
    assert '`account` in warehouse: BREAK, 1 break\n    - `["7"]`' in body
    assert "1.0001" not in body
    assert '`payment_order`: moves money one way – not met, 11 rows\n    - `{"id": "17"}`' in body
    assert body.count('{"id": "') == 5
    assert "``" not in body
    assert "no table has a break" not in body
    assert "(/seamline/page?sync=settlement&business_date=2026-11-19)" in body
    assert "Only `approver` may answer" in body
    assert "Whoever may run this DAG" in question_text(run, [BROKEN], [])


def test_of_a_table_without_a_key_no_row_is_named() -> None:
    keyless = results.table(
        "audit", Verdict.BREAK, breaks=(Break("audit", BreakType.MISSING, '{"who": "8675309"}', {}, None),)
    )
    assert "8675309" not in question_text(results.run(), [results.reconciliation(keyless)], [])


def test_what_is_staged_or_checked_again_begins_without_the_old_decision(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(work: Any) -> None:
        operator = _operator("approver")
        _ask(operator)
        operator.execute_complete({}, _answer("Approve"))
        assert _decision(platform)["state"] == "approved"
        work()
        assert _decision(platform) is None
        platform.runs[results.RUN].result[EXPECTATIONS] = results.PASSED
        GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({})

    monkeypatch.setattr("seamline_airflow.gx_engine.check", lambda *_, **__: [])
    monkeypatch.setattr("seamline_airflow.runs.open_nightly", lambda *_: None)
    monkeypatch.setattr("seamline_airflow.operators.spark_job.SparkJobOperator.execute", lambda *_: None)
    checks = GXCheckOperator(task_id="expectations", run=results.RUN)
    again(lambda: pytest.raises(AirflowFailException, checks.execute, {}))
    again(lambda: GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({}))
    _ask(_operator("approver"))
    _operator("approver").execute_complete({}, _answer("Approve"))
    take = f"{results.RUN}~2"
    platform.runs[take] = results.run(run_id=take)
    platform.runs[take].result[DECISION] = _decision(platform)
    CutJobOperator(task_id="cut", job="j", run=results.RUN, plan_json=plan_to_json(results.plan())).execute({})
    assert [platform.runs[take].result[key] for key in (DECISION, EXPECTATIONS)] == [None, None]
    assert _decision(platform)["state"] == "approved", "that of the take before it stays"
