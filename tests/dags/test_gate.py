"""The gate fails closed: evidence first, then breaks, and a person's signature where one is asked for."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from seamline.domain.errors import ConfigError, GateFailed, Refused
from seamline.domain.runs import GATE
from seamline.domain.verdict import Verdict
from seamline.spec.expectation_types import EXPECTATION_TYPES
from seamline.spec.expectations import CAPPED_TYPE
from seamline_airflow import gx_engine
from seamline_airflow.expectations import GateResult, Weight, result_frames, staged_rows
from seamline_airflow.gx_engine import load_checks
from seamline_airflow.operators.gate import NOT_CLEAN, GateOperator, Question
from seamline_airflow.operators.gx_check import GXCheckOperator
from seamline_airflow.operators.step import VerdictsOperator
from seamline_memory import sink_kind as memory_kind
from tests.dags import results

ABOUT = f"settlement {results.DATE}"
BROKEN = results.reconciliation(results.table("account", Verdict.BREAK), results.table("ledger_entry"))


def _judge(found: Any, run: Any = None) -> GateResult:
    """The result frames of a run through the real Great Expectations; the staged rows need a server."""
    frames = result_frames(run or results.run(), "warehouse", found)
    return GateResult(tuple(gx_engine.check(frames, (), SimpleNamespace(), suite="s")))  # type: ignore[arg-type]


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    made.runs[results.RUN] = results.run()
    made.found = [results.clean()]
    return made


def test_a_clean_reconciliation_passes() -> None:
    result = _judge(results.clean())
    assert result.verdict is Verdict.MATCH
    assert len(result.outcomes) > 8


def test_what_is_shown_of_a_rule_that_is_not_met_are_plain_words_with_numbers() -> None:
    """Found by a newcomer: "element_count 2, unexpected_count 1"."""
    (one,) = [one for one in _judge(BROKEN).broken if one.expectation.why == "no table has a break"]
    assert one.detail == "1 of 2 rows does not meet it"
    (none,) = [one for one in _judge(None).missing if one.expectation.why == "reconciliation of this run was saved"]
    assert none.detail == "found: 0"


def test_no_reconciliation_is_not_run_although_there_is_no_break() -> None:
    result = _judge(None)
    assert result.verdict is Verdict.NOT_RUN
    assert "reconciliation of this run was saved" in [outcome.expectation.why for outcome in result.missing]


@pytest.mark.parametrize(
    ("planted", "why"),
    [
        (results.reconciliation(), "every table of the plan was compared"),
        (results.reconciliation(results.table("account")), "every table of the plan was compared"),
        (
            results.reconciliation(
                results.table("account", Verdict.NOT_RUN, reason="x"),
                results.table("ledger_entry", Verdict.NOT_RUN, reason="x"),
            ),
            "at least one table was really compared",
        ),
        (
            results.reconciliation(results.table("account"), results.table("ledger_entry"), run_id="another"),
            "the reconciliation belongs to this run and this business date",
        ),
        (
            results.reconciliation(results.table("account"), results.table("ledger_entry", totals=())),
            "each declared control total was computed",
        ),
    ],
)
def test_missing_evidence_is_not_run_and_cannot_be_signed(planted: Any, why: str) -> None:
    result = _judge(planted)
    assert result.verdict is Verdict.NOT_RUN
    assert why in [outcome.expectation.why for outcome in result.missing]
    assert {outcome.expectation.weight for outcome in result.missing} == {Weight.EVIDENCE}


@pytest.mark.parametrize(
    ("planted", "why"),
    [
        (BROKEN, "no table has a break"),
        (
            results.reconciliation(
                results.table("account"),
                results.table("ledger_entry", totals=(results.total("1.0000", "1.0001"),)),
            ),
            "control totals are equal on both sides",
        ),
        (
            results.reconciliation(
                results.table("account", Verdict.INCONCLUSIVE, reason="too old"), results.table("ledger_entry")
            ),
            "each table is MATCH, or is left out and says why",
        ),
        (
            results.reconciliation(results.table("account", Verdict.NOT_RUN), results.table("ledger_entry")),
            "each table is MATCH, or is left out and says why",
        ),
    ],
)
def test_a_difference_is_a_break_that_on_break_decides(planted: Any, why: str) -> None:
    result = _judge(planted)
    assert result.verdict is Verdict.BREAK
    assert why in [outcome.expectation.why for outcome in result.broken]


def test_a_table_left_out_with_its_reason_passes() -> None:
    left_out = results.table("account", Verdict.NOT_RUN, reason="no history", source_rows=None, destination_rows=None)
    assert _judge(results.reconciliation(left_out, results.table("ledger_entry"))).verdict is Verdict.MATCH


def test_an_expectation_that_gx_drops_or_cannot_evaluate_is_not_met() -> None:
    """GX logs an unknown expectation and goes on without it; an error inside one may come as a success of the rest."""
    from seamline_airflow.expectations import Expectation, Frame

    expectations = (
        Expectation("expect_nonsense", {}, "unknown"),
        Expectation("expect_column_values_to_be_unique", {"column": "no_such"}, "no column"),
    )
    frame = Frame("f", ("a",), ((1,),), expectations)
    outcomes = gx_engine.check([frame], (), SimpleNamespace(), suite="s")  # type: ignore[arg-type]
    assert [outcome.is_met for outcome in outcomes] == [False, False]
    assert "does not know" in outcomes[0].detail
    assert "could not be evaluated" in outcomes[1].detail


def test_a_check_with_arguments_that_gx_does_not_take_hides_no_other_one() -> None:
    from seamline_airflow.expectations import Expectation, Frame

    expectations = (
        Expectation("expect_column_values_to_be_unique", {"column": "a", "nosuch": 1}, "another argument"),
        Expectation("expect_column_max_to_be_between", {"column": "a", "max_value": {"$PARAMETER": "x"}}, "parameter"),
        Expectation("expect_column_values_to_be_unique", {"column": "a"}, "unique"),
        Expectation("expect_column_max_to_be_between", {"column": "a", "max_value": 1}, "too large"),
    )
    frame = Frame("f", ("a",), ((1,), (2,)), expectations)
    outcomes = gx_engine.check([frame], (), SimpleNamespace(), suite="s")  # type: ignore[arg-type]
    assert [outcome.is_met for outcome in outcomes] == [False, False, True, False]
    assert all("it could not be evaluated: " in outcome.detail for outcome in outcomes[:2])


def test_nothing_checked_is_never_a_match() -> None:
    assert GateResult(()).verdict is Verdict.NOT_RUN


def test_staged_tables_are_checked_for_their_receipt_their_key_and_the_declared_rules() -> None:
    from seamline.domain.staged_cut import cut_from_json

    cut = cut_from_json(results.manifest(account="other.s1"))
    checks = [
        ("ledger_entry", "expect_column_values_to_not_be_null", {"column": "amount"}, "why"),
        ("gone", "x", {}, ""),
    ]
    account, entry = staged_rows(results.plan(), "warehouse", cut, checks)
    assert (account.schema, account.relation) == ("other", "s1")
    assert (entry.schema, entry.relation) == ("settlement_stage", "s_ledger_entry")
    assert [one.type for one in entry.expectations] == [
        "expect_table_row_count_to_equal",
        "expect_column_values_to_be_unique",
        "expect_column_values_to_not_be_null",
    ]


def test_the_operator_is_red_when_the_run_staged_nothing(platform: results.Platform) -> None:
    platform.runs[results.RUN] = results.run(result={})
    with pytest.raises(AirflowFailException, match="reconciliation did not run"):
        GXCheckOperator(task_id="expectations", run=results.RUN).execute({})


def test_on_mismatch_return_leaves_breaks_to_the_gate_and_missing_evidence_red(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, suites = gx_engine.check, []

    def check(frames: Any, _staged: Any, _at: Any, *, suite: str) -> Any:
        suites.append(suite)
        return real(frames, (), None, suite=suite)  # type: ignore[arg-type]

    monkeypatch.setattr(gx_engine, "check", check)
    operator = GXCheckOperator(task_id="expectations", run=results.RUN, on_mismatch="return")
    platform.found = [BROKEN]
    assert operator.execute({})["warehouse"]["verdict"] == "BREAK"
    assert platform.runs[results.RUN].result["expectations"]["destinations"]["warehouse"]["failed"]
    with pytest.raises(AirflowFailException, match="no table has a break"):
        GXCheckOperator(task_id="expectations", run=results.RUN).execute({})
    platform.found = []
    with pytest.raises(AirflowFailException, match="reconciliation of this run was saved"):
        operator.execute({})
    assert set(suites) == {"settlement__reconciliation"}


def test_of_a_kind_whose_rows_it_cannot_read_only_the_results_are_checked_and_never_fewer_than_asked(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamline_airflow.cut_checks.sink_kind", {"postgres": memory_kind.KIND}.get)
    assert GXCheckOperator(task_id="expectations", run=results.RUN).execute({})["warehouse"]["verdict"] == "MATCH"
    with pytest.raises(AirflowFailException, match="cannot be checked by Great Expectations"):
        GXCheckOperator(task_id="expectations", run=results.RUN, suite="settlement").execute({})
    platform.runs[results.RUN] = results.run(result={})
    with pytest.raises(AirflowFailException, match="reconciliation did not run"):
        GXCheckOperator(task_id="expectations", run=results.RUN).execute({})


def test_the_declared_suite_and_a_native_one_are_read(checkout: Any, tmp_path: Any) -> None:
    declared = load_checks(checkout / "include", "settlement")
    assert (declared[0][0], declared[-1][0]) == ("ledger_entry", "account")
    (tmp_path / "expectations").mkdir()
    (tmp_path / "expectations" / "native.json").write_text(
        '{"name": "native", "expectations": [{"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"},'
        ' "meta": {"table": "account"}}], "meta": {"great_expectations_version": "1.24.1"}}'
    )
    type_ = "expect_column_values_to_be_unique"
    assert load_checks(tmp_path, "native") == (("account", type_, {"column": "id"}, type_),)
    assert load_checks(tmp_path, "") == ()


def test_the_expectations_that_a_suite_may_name_are_those_that_great_expectations_knows() -> None:
    import great_expectations  # noqa: F401 (it registers them)
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    assert sorted(EXPECTATION_TYPES) == sorted(list_registered_expectation_implementations())


def test_data_docs_of_great_expectations_let_a_value_act_so_that_nothing_here_makes_or_serves_them(
    tmp_path: Path, checkout: Path
) -> None:
    import great_expectations as gx
    from great_expectations.core import RunIdentifier
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    file, hostile = tmp_path / "rows.sqlite", "<script>alert(1)</script>"
    with closing(sqlite3.connect(file)) as session, session:
        session.execute("create table t (memo text)")
        session.execute("insert into t values (?)", (hostile,))
    source = gx.get_context(mode="ephemeral").data_sources.add_sqlite("s", connection_string=f"sqlite:///{file}")
    batch = source.add_table_asset("t", table_name="t").add_batch_definition_whole_table("all").get_batch()
    kwargs = {"column": "memo", "value_set": ["ok"]}
    only = [{"type": "expect_column_values_to_be_in_set", "kwargs": kwargs}]
    found = batch.validate(gx.ExpectationSuite("s", expectations=only), result_format="SUMMARY")
    found.meta["run_id"] = RunIdentifier(run_name="r")
    assert hostile in DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(found))
    code = [path.read_text("utf-8") for path in (checkout / "plugins").rglob("*.py")]
    assert not [text for text in code if "data_docs" in text or "great_expectations.render" in text]


def test_what_great_expectations_compares_over_200_rows_alone_is_refused_and_what_it_counts_is_whole(
    tmp_path: Path,
) -> None:
    """Both halves are of the version that is installed: a later one may have another bound."""
    import great_expectations as gx

    file = tmp_path / "rows.sqlite"
    with closing(sqlite3.connect(file)) as session, session:
        session.execute("create table mine as with recursive n(id) as (select 1 union all select id + 1 from n"
                        " where id < 1000) select id from n")  # fmt: skip
        session.execute("create table theirs as select case when id > 200 then -id else id end as id from mine")
    context = gx.get_context(mode="ephemeral")
    source = context.data_sources.add_sqlite("staged", connection_string=f"sqlite:///{file}")
    batch = source.add_table_asset("t", table_name="theirs").add_batch_definition_whole_table("all").get_batch()
    asked = {
        CAPPED_TYPE: {
            "base_query": "select id from mine order by abs(id)",
            "comparison_query": "select id from theirs order by abs(id)",
            "comparison_data_source_name": "staged",
        },
        "unexpected_rows_expectation": {"unexpected_rows_query": "select id from {batch} where id < 0"},
    }
    found = {
        name: batch.validate(gx.ExpectationSuite("s", expectations=[{"type": name, "kwargs": kwargs}])).results[0]
        for name, kwargs in asked.items()
    }
    assert found[CAPPED_TYPE].success, "800 of 1,000 rows differ"
    assert found["unexpected_rows_expectation"].result["observed_value"] == 800
    (tmp_path / "expectations").mkdir()
    text = f"expectations: s\nchecks: [{{table: t, type: {CAPPED_TYPE}}}]\n"
    (tmp_path / "expectations" / "s.yaml").write_text(text)
    with pytest.raises(ConfigError, match="no more than 200 rows"):
        load_checks(tmp_path, "s")


@pytest.mark.parametrize(
    ("found", "on_break", "branch"),
    [
        (results.clean(), "ask", "publish"),
        (results.clean(), "fail", "publish"),
        (BROKEN, "ask", "approve"),
        (BROKEN, "publish_and_flag", "publish"),
    ],
)
def test_the_gate_publishes_asks_or_flags(platform: results.Platform, found: Any, on_break: str, branch: str) -> None:
    platform.found = [found]
    assert GateOperator(task_id="gate", run=results.RUN, on_break=on_break).choose_branch({}) == branch
    lines = Question.left_by_gate(platform.runs[results.RUN]).lines
    assert lines == (() if found is not BROKEN else ("warehouse: account BREAK: 1 break",))


def test_what_several_tables_have_alike_is_said_once(platform: results.Platform) -> None:
    why = "the read views are 2,000 s old"
    tables = [results.table(name, Verdict.INCONCLUSIVE, reason=why) for name in ("account", "ledger_entry")]
    platform.found = [results.reconciliation(*tables)]
    GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({})
    lines = Question.left_by_gate(platform.runs[results.RUN]).lines
    assert lines == (f"warehouse: account, ledger_entry INCONCLUSIVE: {why}",)


def test_the_gate_fails_on_a_break_where_that_is_declared(platform: results.Platform) -> None:
    platform.found = [BROKEN]
    with pytest.raises(AirflowFailException, match="account BREAK"):
        GateOperator(task_id="gate", run=results.RUN, on_break="fail").choose_branch({})
    said = "not clean, and it is not published, for `on_break` is `fail`: warehouse: account BREAK: 1 break"
    assert said in platform.alarms[NOT_CLEAN, ABOUT]


@pytest.mark.parametrize("on_break", ["ask", "fail", "publish_and_flag"])
def test_nobody_is_asked_about_a_cut_that_was_not_reconciled(platform: results.Platform, on_break: str) -> None:
    for nothing in ([], [results.reconciliation(results.table("account", Verdict.NOT_RUN, reason="x"))]):
        platform.found = nothing
        with pytest.raises(AirflowFailException, match="was not reconciled"):
            GateOperator(task_id="gate", run=results.RUN, on_break=on_break).choose_branch({})
        assert "was not reconciled; run the task `cut` again" in platform.alarms.pop((NOT_CLEAN, ABOUT))


def test_checks_that_left_no_result_stop_the_gate(platform: results.Platform) -> None:
    """As where somebody has marked their task as a success."""
    platform.runs[results.RUN].result.pop("expectations")
    with pytest.raises(AirflowFailException, match="left no result"):
        GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({})


def test_a_broken_business_rule_goes_to_the_gate_as_well(platform: results.Platform) -> None:
    failed = [{"on": "ledger_entry", "type": "t", "why": "nets to zero", "detail": "1 of 9 rows does not meet it"}]
    platform.runs[results.RUN].result["expectations"] = {"verdict": "BREAK", "checked": 1, "failed": failed}
    assert GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({}) == "approve"
    question = Question.left_by_gate(platform.runs[results.RUN])
    assert question.lines == ("warehouse: ledger_entry: not met: nets to zero (1 of 9 rows does not meet it)",)


def test_a_cut_that_is_not_clean_is_an_alarm_until_a_take_of_its_date_is(platform: results.Platform) -> None:
    """Its rows may all be MATCH: what the business rules found would stand in Airflow alone."""
    result = platform.runs[results.RUN].result
    failed = [{"on": "ledger_entry", "type": "t", "why": "nets to zero", "detail": "1 of 9 rows does not meet it"}]
    result["expectations"] = {"verdict": "BREAK", "checked": 1, "failed": failed}
    gate = GateOperator(task_id="gate", run=results.RUN, on_break="ask")
    gate.choose_branch({})
    (said,) = platform.alarms.values()
    assert "a person has to decide about it: warehouse: ledger_entry: not met: nets to zero (1 of 9 rows" in said
    result["expectations"] = {"verdict": "MATCH", "checked": 1, "failed": []}
    gate.choose_branch({})
    assert platform.alarms == {}


def _judged(platform: results.Platform, *lines: str) -> Question:
    platform.runs[results.RUN].result["cut"] = {"warehouse": {"staged": "take one"}}
    question = Question.of(platform.runs[results.RUN], {"warehouse": lines})
    platform.runs[results.RUN].result[GATE] = question.to_json()
    return question


def test_a_signature_names_who_and_why_or_is_none(platform: results.Platform) -> None:
    question = _judged(platform, "warehouse: account BREAK: 1 break")
    answer = _answer("Approve")
    assert question.signature(answer) == "approver: late file"
    assert question.signature(None) == ""
    assert question.signature({**answer, "chosen_options": ["Reject"]}) == ""
    with pytest.raises(Refused, match="without a reason"):
        question.signature({**answer, "params_input": {"reason": "  "}})


def test_a_reason_is_one_line_that_moves_no_cursor(platform: results.Platform) -> None:
    question = _judged(platform, "warehouse: account BREAK: 1 break")
    reason = {"reason": " late\n\x1b[2J file,\u2028 Zürich\t"}
    answer = {**_answer("Approve"), "params_input": reason}
    assert question.signature(answer) == "approver: late [2J file, Zürich"
    answer["responded_by_user"] = {"id": "7", "name": "\x1b[1mboss: fine\r\n"}
    assert question.signature(answer) == "[1mboss fine: late [2J file, Zürich"


def test_a_clean_take_is_not_signed_by_the_approval_of_a_broken_one(platform: results.Platform) -> None:
    assert _judged(platform).signature(_answer("Approve")) == ""


def test_an_approval_signs_only_what_was_asked_about(platform: results.Platform) -> None:
    _judged(platform, "warehouse: account BREAK: 1 break")
    run = platform.runs[results.RUN]
    earlier = datetime.now(UTC) - timedelta(hours=1)
    with pytest.raises(Refused, match="earlier take"):
        Question.left_by_gate(run).signature(_answer("Approve", responded_at=earlier))
    run.result["cut"] = {"warehouse": {"staged": "take two"}}
    with pytest.raises(GateFailed, match="has not judged"):
        Question.left_by_gate(run)
    del run.result[GATE]
    with pytest.raises(GateFailed, match="has not judged"):
        Question.left_by_gate(run)


def test_the_gate_leaves_what_it_judged(platform: results.Platform) -> None:
    platform.found = [BROKEN]
    GateOperator(task_id="gate", run=results.RUN, on_break="ask").choose_branch({})
    assert Question.left_by_gate(platform.runs[results.RUN]).lines


def test_the_live_comparison_is_red_on_a_break_and_names_it(platform: results.Platform) -> None:
    from seamline.domain.runs import Scope

    platform.found = [results.reconciliation(*BROKEN.tables, scope=Scope.LIVE)]
    with pytest.raises(AirflowFailException, match=r"warehouse: account BREAK \(1 break\)"):
        VerdictsOperator(task_id="verdicts", run=results.RUN, scope="live").execute({})
    assert platform.finished == {results.RUN: "failed"}


def test_verdicts_of_a_cut_leave_breaks_to_the_gate_but_not_missing_ones(platform: results.Platform) -> None:
    platform.found = [BROKEN]
    shown = VerdictsOperator(task_id="verdicts", run=results.RUN, scope="cut").execute({})
    assert shown == {"warehouse.account": "BREAK", "warehouse.ledger_entry": "MATCH"}
    platform.found = []
    with pytest.raises(AirflowFailException, match="did not run"):
        VerdictsOperator(task_id="verdicts", run=results.RUN, scope="cut").execute({})


def _answer(*options: str, **more: Any) -> dict[str, Any]:
    return {
        "chosen_options": list(options),
        "params_input": {"reason": "late file"},
        "responded_at": datetime.now(UTC),
        "responded_by_user": {"id": "approver", "name": "approver"},
        **more,
    }
