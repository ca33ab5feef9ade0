"""What a comparison may cost its databases, one of live tables or that of a night's cut: how long it may ask, by how
many sessions, and with which pauses. A budget that is over ends in INCONCLUSIVE with what was compared till then, never
in MATCH."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from seamline.domain.errors import SeamlineError
from seamline.domain.runs import Json
from seamline.plan.checks import BudgetPlan
from seamline.sync.bucket_search import Limits
from seamline.sync.clock import Clock, SystemClock
from seamline.sync.reading_pace import Pacer
from seamline.sync.repetition import NEEDS_A_PERSON

# How long one question of a first pass shall take, as it is measured.
QUESTION_S = 0.5
# Of a sync that declares none: its source's is one of load and of hours.
_ANY_TIME = BudgetPlan(time_s=math.inf)


class BudgetSpent(SeamlineError):
    """The declared time of the comparison is over."""


@dataclass(slots=True)
class Spending:
    """The budget of one comparison, from now on. May be asked from any thread."""

    plan: BudgetPlan
    clock: Clock = field(default_factory=SystemClock)
    pacer: Pacer | None = None
    is_over: bool = field(default=False, init=False)
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock.now()

    def before_a_question(self, check: Callable[[], None] = lambda: None) -> None:
        """Rest as declared, and wait as the source's own budget says; what `check` raises ends that. BudgetSpent where
        the time is over: no question is begun after it, and one that is asked is waited for."""

        def go_on() -> None:
            check()
            self._in_time()

        go_on()
        if self.pacer is not None:
            self.pacer.before_a_question(QUESTION_S, go_on)
        self.rest()

    def _in_time(self) -> None:
        if self.clock.now() - self._began < self.plan.time_s:
            return
        self.is_over = True
        why = self.pacer.pace.why if self.pacer is not None else ""
        raise BudgetSpent(
            f"the budget of {self.plan.time_s:g} s was over before the table was wholly compared"
            + (f", while {why}" if why else ""),
            hint="raise `reconcile.budget.time`, or compare at a quieter hour",
        )

    def rest(self) -> None:
        if self.plan.pause_s:
            self.clock.sleep(self.plan.pause_s)


def begun(plan: BudgetPlan | None, pacer: Pacer | None = None) -> Spending | None:
    """The budget of a comparison that begins now; None where neither the sync declares one nor its source."""
    return Spending(plan or _ANY_TIME, pacer=pacer) if plan or pacer else None


def within(spending: Spending | None, check: Callable[[], None]) -> Callable[[], None]:
    """What has to be asked before each question, where there is a budget."""
    if spending is None:
        return check

    return lambda: spending.before_a_question(check)


def limits_of(spending: Spending | None, limits: Limits | None) -> Limits:
    """The limits of a search under this budget: its first pass is asked in short questions."""
    found = limits or Limits()
    return found if spending is None else replace(found, question_s=QUESTION_S)


def evidence_of_budget(spending: Spending | None) -> Json:
    """What a reconciliation keeps of one that was over: another attempt within its run would spend the same again."""
    if spending is None or not spending.is_over:
        return {}
    return {NEEDS_A_PERSON: "the budget was over: raise `reconcile.budget.time`, or compare at a quieter hour"}
