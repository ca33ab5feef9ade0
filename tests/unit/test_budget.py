"""What a comparison may cost: its time ends in INCONCLUSIVE with how far it came, its questions are short."""

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest

from seamline.domain.digest import Segment
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import Verdict
from seamline.plan.checks import BudgetPlan, ReconcilePlan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.sync.barrier import Barrier
from seamline.sync.bucket_search import Limits
from seamline.sync.budget import QUESTION_S, Spending
from seamline.sync.comparison import Work, compare_live, compare_tables
from seamline.sync.paced_pass import next_width
from seamline.sync.repetition import NEEDS_A_PERSON, until_conclusive
from tests.unit.memory_views import AUDIT, ENTRY, MemoryView, entries
from tests.unit.test_barrier import World
from tests.unit.test_comparison import RUN

MANY = replace(ENTRY, rows_estimate=100_000)
PACED = Limits(question_s=QUESTION_S)


@dataclass
class Ticking:
    """Each look at the clock takes `tick_s`."""

    tick_s: float = 1.0
    time: float = 0.0
    rests: list[float] = field(default_factory=list)

    def now(self) -> float:
        self.time += self.tick_s
        return self.time

    def wall(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)


def compared(source: MemoryView, destination: MemoryView, spending: Spending, limits: Limits = PACED) -> Any:
    segment = Segment(source.table.name)
    (found,) = compare_tables(
        [Work(source.table, segment, segment)],
        source=[source],
        destination=[destination],
        check=spending.before_a_question,
        limits=limits,
    )
    return found


def sides() -> tuple[MemoryView, MemoryView]:
    # Keys far apart: a question asks for a fifth of them.
    rows = [{**row, "id": row["id"] * 1_000} for row in entries(40)]
    return MemoryView(MANY, rows), MemoryView(MANY, [dict(row) for row in rows])


def test_a_budget_that_is_over_is_inconclusive_and_says_how_far_it_came() -> None:
    found = compared(*sides(), Spending(BudgetPlan(time_s=4), Ticking()))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason.startswith("the budget of 4 s was over before the table was wholly compared: keys below ")
    assert "were compared till then, and they are equal" in found.reason


def test_what_differs_in_the_part_that_was_compared_is_said_and_no_break() -> None:
    mine, theirs = sides()
    theirs.content[0]["amount"] = Decimal(9)
    found = compared(mine, theirs, Spending(BudgetPlan(time_s=4), Ticking()))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "1 of 2 parts of them differ" in found.reason


def test_within_its_budget_a_table_is_compared_whole_in_short_questions_with_rests() -> None:
    mine, theirs = sides()
    clock = Ticking(tick_s=0.0)
    assert compared(mine, theirs, Spending(BudgetPlan(pause_s=0.2), clock)).verdict is Verdict.MATCH
    assert mine.asked.count("digests") > 1
    assert set(clock.rests) == {0.2} and len(clock.rests) == len(mine.asked)


def test_paced_questions_find_the_breaks_that_one_question_finds() -> None:
    mine, theirs = sides()
    del theirs.content[3]
    theirs.content[17]["memo"] = "other"
    # Beyond the keys of the source, on either end.
    theirs.content += [{"id": n, "currency": "EUR", "amount": Decimal(1), "memo": None} for n in (-7, 99_999)]
    paced = compared(mine, theirs, Spending(BudgetPlan(), Ticking(0.0)))
    at_once = compared(mine, theirs, Spending(BudgetPlan(), Ticking(0.0)), Limits())
    assert paced.verdict is Verdict.BREAK and paced.breaks_total == 4
    assert [one.key for one in paced.breaks] == [one.key for one in at_once.breaks]


@pytest.mark.parametrize("rows", [0, 1])
def test_tables_with_no_row_and_with_one_are_compared(rows: int) -> None:
    mine, theirs = MemoryView(MANY, entries(rows)), MemoryView(MANY, entries(rows))
    assert compared(mine, theirs, Spending(BudgetPlan(), Ticking(0.0))).verdict is Verdict.MATCH


def test_a_table_without_one_integer_as_key_is_asked_at_once_and_not_begun_when_the_time_is_over() -> None:
    mine, theirs = MemoryView(AUDIT, []), MemoryView(AUDIT, [])
    found = compared(mine, theirs, Spending(BudgetPlan(time_s=1), Ticking(2.0)))
    assert (found.verdict, mine.asked) == (Verdict.INCONCLUSIVE, [])
    assert found.reason == "the budget of 1 s was over before the table was wholly compared"


def test_a_question_is_as_wide_as_half_a_second_allows() -> None:
    assert next_width(1_000, 0.25, 0.5) == 2_000
    assert next_width(1_000, 5.0, 0.5) == 100
    assert next_width(1_000, 100.0, 0.5) == 100, "one slow answer does not end in single rows"
    assert next_width(1_000, 0.0, 0.5) == 4_000
    assert next_width(1, 9.0, 0.5) == 1


def test_a_live_comparison_whose_budget_is_over_is_not_made_again_in_its_run() -> None:
    attempts = []

    def take(tried: Any) -> list[Reconciliation]:
        attempts.append(tried)
        barrier: Barrier = World().barrier()
        spent = Spending(BudgetPlan(time_s=1), Ticking(2.0))
        return [compare_live(RUN, "warehouse", barrier=barrier, views=2, tried=tried, spending=lambda: spent)]

    (found,) = until_conclusive(take, attempts=3, clock=Ticking())
    assert found.verdict is Verdict.INCONCLUSIVE and "budget of 1 s" in found.tables[0].reason
    assert len(attempts) == 1 and "reconcile.budget.time" in str(found.evidence[NEEDS_A_PERSON])


def test_a_plan_without_a_budget_has_the_text_that_it_had() -> None:
    assert '"budget"' not in plan_to_json(RUN.plan)
    plan = replace(RUN.plan, reconcile=ReconcilePlan(budget=BudgetPlan(60, 1, 0.25)))
    assert plan_from_json(plan_to_json(plan)) == plan
