"""What a plan says of its comparisons: control totals, rules, budgets and who may sign."""

from dataclasses import dataclass, field
from enum import StrEnum

from seamline.domain.measure import CLOSING, Measure, named, rolling
from seamline.domain.repair import RepairLimits


@dataclass(frozen=True, slots=True)
class ControlTotalPlan:
    """`column`: what is measured, with `further` columns of DUPLICATES; "" where rows are only counted. `called`: how
    reports call the total, where that is another name than that of what it measures."""

    table: str
    column: str
    by: tuple[str, ...] = ()
    measure: Measure = Measure.SUM
    further: tuple[str, ...] = ()
    called: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, *self.further) if self.column else ()

    @property
    def label(self) -> str:
        return self.called or named(self.measure, self.columns)


class Says(StrEnum):
    """What a rule demands of each cut."""

    BALANCE = "balance"
    ROLL_FORWARD = "roll_forward"
    NO_GAP = "no_gap"
    UNIQUE = "unique"


@dataclass(frozen=True, slots=True)
class RulePlan:
    """A rule by its name and table. BALANCE: `columns` add up to 0 in each group of `by`, or the first of two to what
    the second does. ROLL_FORWARD: `columns` is the closing and `movements` what moved it. NO_GAP: no whole number is
    missing in `columns`. UNIQUE: no two rows have these `columns` alike."""

    name: str
    table: str
    says: Says
    columns: tuple[str, ...]
    by: tuple[str, ...] = ()
    movements: ControlTotalPlan | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.table,) if self.movements is None else (self.table, self.movements.table)

    @property
    def closing(self) -> ControlTotalPlan:
        """Of a ROLL_FORWARD: its total of this name is in each cut's comparison, as that of `movements` is."""
        (column,) = self.columns
        return ControlTotalPlan(self.table, column, self.by, called=rolling(CLOSING, self.name, column, self.by))


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """What one comparison of live tables may cost. `pause_s`: between two questions; `sessions`: on each side."""

    time_s: float = 1_800.0
    sessions: int = 2
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SourceBudgetPlan:
    """When a source may be read in bulk, and beside which load; 0 is no limit. `quiet`: pairs of local times "HH:MM" in
    which it is not read. `wait_max_s`: so long each process that reads may wait."""

    running_max: int = 0
    replica_lag_max_s: float = 0.0
    quiet: tuple[tuple[str, str], ...] = ()
    timezone: str = "UTC"
    wait_max_s: float = 7_200.0


@dataclass(frozen=True, slots=True)
class ReconcilePlan:
    control_totals: tuple[ControlTotalPlan, ...] = ()
    expectations: str = ""
    on_break: str = "ask"
    approvers: tuple[str, ...] = ()
    wait_max_s: float = 600.0
    attempts: int = 3
    rules: tuple[RulePlan, ...] = ()
    repair: RepairLimits = field(default_factory=RepairLimits)
    budget: BudgetPlan | None = None
    tolerances: tuple[str, ...] = ()
    by_log: tuple[str, ...] = ()  # destinations; the live tables of all others are compared by the barrier
    rotate: int = 0  # after so many comparisons every bucket was read; 0: nothing is kept for the next one


@dataclass(frozen=True, slots=True)
class ReconcileOnlyPlan:
    """Another tool carries the tables. `in_flight_max_s`: what it takes at most to carry a change. `at`: local times of
    each day ("HH:MM") at which they are compared."""

    in_flight_max_s: float
    at: tuple[str, ...] = ()
    timezone: str = "UTC"
