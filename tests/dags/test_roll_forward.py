"""Closing of the date before and movements make the closing of the date, or the groups that do not are named."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from seamline.domain.business_dates import BusinessDates, Calendar
from seamline.domain.cut_state import state_of_cut
from seamline.domain.measure import MOVEMENTS, rolling
from seamline.domain.runs import EXPECTATIONS, Cut, Reconciliation, RunState
from seamline.domain.staged_cut import CutSource
from seamline.domain.verdict import ControlTotal, Verdict
from seamline.plan.checks import ControlTotalPlan, ReconcilePlan, RulePlan, Says
from seamline.plan.model import DestinationPlan, NightlyPlan, Run
from seamline_airflow.expectations import GateResult, Outcome
from seamline_airflow.operators.gx_check import GXCheckOperator
from seamline_airflow.roll_forward import Before, date_before, rolled_forward
from tests.dags import results

BY = ("currency",)
MOVED = ControlTotalPlan("ledger_entry", "amount", BY, called=rolling(MOVEMENTS, "customer money", "amount", BY))
RULE = RulePlan("customer money", "account", Says.ROLL_FORWARD, ("balance",), BY, MOVED)
PLAN = results.plan(reconcile=ReconcilePlan((RULE.closing, MOVED), rules=(RULE,)))
RUN = results.run(plan=PLAN)
EARLIER = results.DATE - timedelta(days=1)


def _totals(total: ControlTotalPlan, **sums: str) -> tuple[ControlTotal, ...]:
    return tuple(
        ControlTotal(total.table, total.label, (group,), 1, 1, Decimal(amount), Decimal(amount))
        for group, amount in sums.items()
    )


def _cut(closing: dict[str, str], moved: dict[str, str], **fields: Any) -> Reconciliation:
    tables = (
        results.table("account", totals=_totals(RULE.closing, **closing)),
        results.table("ledger_entry", totals=_totals(MOVED, **moved)),
    )
    return results.reconciliation(*tables, **fields)


def _published(destination: str, day: date) -> Cut:
    moment = datetime(2026, 11, 19, tzinfo=UTC)
    return Cut("settlement", destination, day, 1, "before", results.POSITION, moment, ("account",), Verdict.MATCH)


YESTERDAY = _cut({"EUR": "100.00", "USD": "7"}, {"EUR": "1"})


def _judged(
    found: Reconciliation | None, before: Before, destination: DestinationPlan | None = None, run: Run = RUN
) -> Outcome:
    (outcome,) = rolled_forward(run, destination or PLAN.destinations[0], found, before)
    return outcome


def test_balances_that_roll_forward_pass_also_where_a_group_comes_or_goes() -> None:
    today = _cut({"EUR": "105.50", "CNY": "3"}, {"EUR": "5.5", "USD": "-7", "CNY": "3"})
    outcome = _judged(today, Before.of_versions([YESTERDAY]))
    assert (outcome.is_met, outcome.rows, outcome.note) == (True, None, "")


def test_each_group_that_does_not_is_named_with_its_numbers() -> None:
    today = _cut({"EUR": "105.51", "USD": "7"}, {"EUR": "5.5"})
    outcome = _judged(today, Before.of_versions([YESTERDAY]))
    assert (outcome.is_met, outcome.rows) == (False, 1)
    (key,) = map(json.loads, outcome.keys)
    assert key == {
        "currency": "EUR",
        "opening": "100.00",
        "movements": "5.5",
        "expected": "105.50",
        "closing": "105.51",
    }


def test_the_date_before_a_monday_is_its_friday_by_the_calendar() -> None:
    bank = Calendar("bank", date(2026, 1, 1), date(2026, 12, 31))
    nightly = NightlyPlan(dates=BusinessDates((bank,)))
    monday = replace(RUN, business_date=date(2026, 11, 16), plan=replace(PLAN, nightly=nightly))
    assert (date_before(monday), date_before(RUN)) == (date(2026, 11, 13), EARLIER)
    outcome = _judged(_cut({"EUR": "1"}, {"EUR": "0"}), Before(), run=monday)
    assert "2026-11-13 has no cut" in str(outcome)


def test_the_first_date_has_no_opening_and_that_is_said_and_no_failure() -> None:
    outcome = _judged(_cut({"EUR": "1"}, {"EUR": "0"}), Before(is_first=True))
    assert (outcome.is_met, outcome.note) == (True, "customer money: no opening: first date")


def test_a_rule_that_is_newer_than_the_cut_before_begins_with_the_next_one() -> None:
    old = results.reconciliation(results.table("account", totals=()), results.table("ledger_entry", totals=()))
    outcome = _judged(_cut({"EUR": "1"}, {"EUR": "0"}), Before.of_versions([old]))
    assert (outcome.is_met, outcome.note) == (
        True,
        f"customer money: no opening: the cut of {EARLIER} is older than the rule",
    )


def test_a_date_that_was_left_out_between_two_is_no_pass() -> None:
    outcome = _judged(_cut({"EUR": "1"}, {"EUR": "0"}), Before())
    assert not outcome.is_met
    assert outcome.detail.startswith(f"{EARLIER} has no cut, and earlier dates have")


def test_a_table_that_the_cut_before_lacks_is_no_pass_unless_an_earlier_version_has_it() -> None:
    today = _cut({"EUR": "100.00", "USD": "7"}, {"EUR": "0"})
    part = results.reconciliation(
        results.table("account", Verdict.NOT_RUN, reason="only ledger_entry was wanted", totals=()),
        results.table("ledger_entry", totals=_totals(MOVED, EUR="1")),
    )
    outcome = _judged(today, Before.of_versions([part]))
    assert (outcome.is_met, outcome.detail) == (False, f"the cut of {EARLIER} has no account")
    assert _judged(today, Before.of_versions([part, YESTERDAY])).is_met


def test_a_total_that_was_not_added_up_is_no_pass() -> None:
    today = results.reconciliation(
        results.table("account", totals=()), results.table("ledger_entry", totals=_totals(MOVED, EUR="1"))
    )
    outcome = _judged(today, Before.of_versions([YESTERDAY]))
    assert (outcome.is_met, outcome.detail) == (
        False,
        "closing of customer money: balance by currency of account was not added up",
    )


def test_of_tables_without_rows_every_balance_is_nothing() -> None:
    none: dict[str, Any] = {"totals": (), "source_rows": 0, "destination_rows": 0}
    empty = results.reconciliation(results.table("account", **none), results.table("ledger_entry", **none))
    assert _judged(empty, Before.of_versions([empty])).is_met
    assert not _judged(empty, Before.of_versions([YESTERDAY])).is_met


def test_where_a_cut_holds_the_movements_of_all_dates_those_since_the_cut_before_count() -> None:
    lake = replace(PLAN.destinations[0], cut_source=CutSource.LIVE)
    today = _cut({"EUR": "104.00", "USD": "7"}, {"EUR": "5"})
    assert _judged(today, Before.of_versions([YESTERDAY]), lake).is_met
    assert not _judged(today, Before.of_versions([YESTERDAY])).is_met


def test_a_rule_whose_tables_are_not_in_the_cut_is_not_asked() -> None:
    part = results.reconciliation(results.table("ledger_entry", totals=_totals(MOVED, EUR="1")))
    assert rolled_forward(RUN, PLAN.destinations[0], part, Before()) == ()
    assert rolled_forward(RUN, PLAN.destinations[0], None, Before()) == ()


def test_what_was_found_stands_in_the_state_of_the_cut() -> None:
    today = _cut({"EUR": "105.51", "USD": "7"}, {"EUR": "5.5"})
    outcomes = (
        _judged(today, Before.of_versions([YESTERDAY])),
        _judged(today, Before(is_first=True)),
    )
    state = state_of_cut(
        run_id=results.RUN,
        sync="settlement",
        destination="warehouse",
        business_date=results.DATE,
        run_state=RunState.RUNNING,
        result={EXPECTATIONS: {"destinations": {"warehouse": GateResult(outcomes).to_json()}}},
        found=today,
        published=None,
        in_force=None,
    )
    assert [one.rows for one in state.checks.failed] == [1]
    said = state.lines()[1]
    assert "customer money: closing of the date before and movements make the closing of balance, 1 row" in said
    assert said.endswith("; customer money: no opening: first date")


def test_the_gate_looks_for_the_date_before_in_the_same_destination(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = results.use(monkeypatch, results.Platform())
    platform.found = [replace(YESTERDAY, run_id="before"), _cut({"EUR": "105.51", "USD": "7"}, {"EUR": "5.5"})]
    platform.runs[results.RUN] = RUN
    judged = "seamline_airflow.operators.gx_check.judge_cut"
    monkeypatch.setattr(judged, lambda *_given, **_named: ())
    for destination, day, rows, notes in (
        ("warehouse", EARLIER, [1], None),
        ("archive", EARLIER, [], ["customer money: no opening: first date"]),
        ("warehouse", EARLIER - timedelta(days=1), [None], None),
    ):
        platform.cut_list = [_published(destination, day)]
        operator = GXCheckOperator(task_id="expectations", run=results.RUN, on_mismatch="return")
        found = operator.execute({})["warehouse"]
        assert [one["rows"] for one in found["failed"]] == rows
        assert found.get("notes") == notes
