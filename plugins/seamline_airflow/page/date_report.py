"""The report of a comparison as a person reads it: what differs in which currency, by kind, and since the take before.
Values only, no HTML."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

from seamline.domain import differences
from seamline.domain.attachment import Attachment
from seamline.domain.break_age import DAYS, Aged, with_groups
from seamline.domain.break_work import WorkState, is_all_settled
from seamline.domain.cut_state import CutState
from seamline.domain.differences import GroupDifference
from seamline.domain.errors import Refused
from seamline.domain.late_posting import LatePosting
from seamline.domain.level import level_of
from seamline.domain.load_progress import LOADING, LoadSoFar, load_from_json
from seamline.domain.runs import FAILURE, Reconciliation, RunKind, RunState
from seamline.domain.sign_off import Signature, SignOff
from seamline.domain.tolerance import Absorbed
from seamline.domain.verdict import ControlTotal, Verdict
from seamline.plan.model import Run, SyncPlan
from seamline.platform import ageing
from seamline.platform.attachments import Holder
from seamline.platform.breaks import Amount, Changes, Compared, Count, Money, StoredBreak, Wanted
from seamline.platform.reconciliations import Detail
from seamline.sync.delivered import Kept, kept_in
from seamline.sync.shown_order import by_run, newest_of_date
from seamline_airflow import parts
from seamline_airflow.page import late_pages, reading, reports
from seamline_airflow.page.reports import destinations_of, levels_of

# So many of the breaks of a table stand in its report; all of them are a link away.
BREAKS_SHOWN = 5
# The others are to be had by REST.
POSTINGS_SHOWN = 20
# A group that no row says.
_UNKNOWN = ("",)


@dataclass(frozen=True, slots=True)
class Report:
    """One comparison with its detail. `first`: of each table with breaks the first of them. `states`: how many of its
    listed breaks are in which state now. `tolerances`: those in force in its destination.
    `aged`: by bands of age, whose ends `bounds` has; also what a cut carries forward."""

    found: Reconciliation
    counts: tuple[Count, ...] = ()
    amounts: tuple[Amount, ...] = ()
    first: Mapping[str, tuple[StoredBreak, ...]] = field(default_factory=dict)
    states: Mapping[WorkState, int] = field(default_factory=dict)
    tolerances: tuple[Absorbed, ...] = ()
    aged: tuple[Aged, ...] = ()
    bounds: tuple[int, ...] = DAYS

    @property
    def is_settled(self) -> bool:
        """Whether every break that was found, listed or not, is explained or tolerated, or gone since."""
        return is_all_settled(self.states, sum(table.breaks_total for table in self.found.tables))

    @property
    def totals(self) -> list[ControlTotal]:
        return [total for table in self.found.tables for total in table.totals]

    @property
    def exposure(self) -> list[tuple[str, GroupDifference]]:
        """By column each group, as a currency, whose totals differ. Different columns are never added to each other:
        one may be an amount and another a number of accounts."""
        columns = dict.fromkeys(total.column for total in self.totals if total.column)
        return [
            (column, one)
            for column in columns
            for one in differences.by_group(total for total in self.totals if total.column == column)
            if one.unequal
        ]

    def amounts_of(self, count: Count) -> list[Amount]:
        return [one for one in self.amounts if (one.table, one.type) == (count.table, count.type)]

    @property
    def not_listed(self) -> dict[str, int]:
        """Of tables with more breaks than the comparison has listed, how many it has not."""
        listed: dict[str, int] = {}
        for count in self.counts:
            listed[count.table] = listed.get(count.table, 0) + count.breaks
        hidden = {table.table: table.breaks_total - listed.get(table.table, 0) for table in self.found.tables}
        return {table: number for table, number in hidden.items() if number > 0}


@dataclass(frozen=True, slots=True)
class SinceBefore:
    """What differs between a take and the one before it in the same destination; where an earlier version is signed,
    between the take and that one. `totals`: before and now, of those
    whose sides are others than they were."""

    before: CutState
    now: CutState
    breaks: Changes
    totals: tuple[tuple[ControlTotal, ControlTotal], ...]
    signed: Signature | None = None

    @property
    def is_same(self) -> bool:
        is_as_before = self.before.shown is self.now.shown and not self.totals
        return is_as_before and not self.breaks.new and not self.breaks.gone

    @property
    def are_same_breaks(self) -> bool:
        """Whether there are breaks, and the take before had the very same ones."""
        tables = self.now.found.tables if self.now.found else ()
        return any(one.breaks_total for one in tables) and not self.breaks.new and not self.breaks.gone


@dataclass(frozen=True, slots=True)
class Take:
    """One take of a cut in one destination. `level`: what readers may rely on there, "" where it is not declared any
    more."""

    state: CutState
    level: str
    report: Report | None = None
    since: SinceBefore | None = None


@dataclass(frozen=True, slots=True)
class DateReport:
    """`takes`: all of the date, the newest first; `shown`: those of the chosen run; `sign_offs`: of each published
    version, in each destination; by run and destination, `postings`: the newest that came late, `files`: what was
    attached."""

    sync: str
    day: date
    zone: ZoneInfo
    takes: tuple[CutState, ...]
    chosen: str
    shown: tuple[Take, ...]
    sign_offs: tuple[SignOff, ...]
    postings: Mapping[tuple[str, str], Sequence[LatePosting]]
    files: Mapping[tuple[str, str], Sequence[Attachment]]
    caused: tuple[Reconciliation, ...]

    def signs_of(self, state: CutState) -> list[SignOff]:
        """Of a take that was published its own; of another one that of the version that readers see meanwhile."""
        mine = [one for one in self.sign_offs if one.destination == state.destination]
        own = [one for one in mine if one.run_id == state.run_id]
        return own or [one for one in mine if one.version == one.in_force]


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one run of Airflow left: states of its cut, or comparisons of live tables, and the failure that ended it.
    `loads`: how far its load was when that was last looked at. `kept`: by destination what stays in force there,
    because the run has found nothing new to take."""

    zone: ZoneInfo
    cuts: tuple[Take, ...] = ()
    live: tuple[Report, ...] = ()
    failures: tuple[dict[str, Any], ...] = ()
    loads: tuple[LoadSoFar, ...] = ()
    kept: Mapping[str, Kept] = field(default_factory=dict)


def of_date(sync: str, day: date, run: str) -> DateReport:
    """The take of `run`, or the newest one of the date in each destination."""
    declared = destinations_of(sync)
    with _Reader(sync) as read:
        takes = tuple(by_run(read.store.takes(sync, day, detail=Detail.TOTALS), declared))
        signs = read.signatures.of_date(sync, day)
        chosen = run or (takes[0].run_id if takes else "")
        caused = read.store.live_reconciliations_after_cut(sync, day, detail=Detail.VERDICTS)
        return DateReport(
            sync=sync,
            day=day,
            zone=ZoneInfo(read.store.timezone(sync)),
            takes=takes,
            chosen=chosen,
            shown=tuple(read.take(one, takes, signs) for one in _shown(takes, run, declared)),
            sign_offs=signs,
            postings={
                (one.run_id, one.destination): found
                for one in signs
                if (found := late_pages.postings_of(one, limit=POSTINGS_SHOWN))
            },
            files=_files(signs),
            caused=tuple(by_run(caused, declared)),
        )


def _shown(takes: Sequence[CutState], run: str, declared: Sequence[str]) -> list[CutState]:
    return [one for one in takes if one.run_id == run] if run else newest_of_date(takes, declared)


def _files(signs: Sequence[SignOff]) -> dict[tuple[str, str], Sequence[Attachment]]:
    if not signs:
        return {}
    with parts.attachments() as store:
        return {
            (one.run_id, one.destination): store.files(Holder(one.sync, run_id=one.run_id, destination=one.destination))
            for one in signs
        }


def of_run(sync: str, airflow_run: str) -> RunReport:
    """What one Airflow run left; the run's id is the last part of ours."""
    declared = destinations_of(sync)
    with _Reader(sync) as read:
        mine = read.store.runs_named(sync, airflow_run)
        days = dict.fromkeys(run.business_date for run in mine if run.kind is RunKind.NIGHTLY and run.business_date)
        ids, of_days = {run.run_id for run in mine}, {}
        for day in days:
            of_days[day] = read.store.takes(sync, day, detail=Detail.TOTALS)
        cuts = by_run((state for takes in of_days.values() for state in takes if state.run_id in ids), declared)
        live = by_run(read.store.live_reconciliations_named(sync, airflow_run, detail=Detail.TOTALS), declared)
        return RunReport(
            zone=ZoneInfo(read.store.timezone(sync)),
            cuts=tuple(read.take(one, of_days[one.business_date]) for one in cuts),
            live=tuple(read.report(one) for one in live),
            failures=tuple(run.result[FAILURE] for run in mine if run.result.get(FAILURE)),
            loads=tuple(load_from_json(run.result[LOADING]) for run in mine if _is_loading(run)),
            kept=kept_in(mine[0]) if mine else {},
        )


def _is_loading(run: Run) -> bool:
    """One that has failed keeps its last look."""
    return run.state is RunState.RUNNING and bool(run.result.get(LOADING))


def live_of(sync: str, run_id: str) -> tuple[Report, ...]:
    """The comparisons of live tables of one run of the sync."""
    with _Reader(sync) as read:
        found = read.store.live_reconciliations_of(sync, run_id, detail=Detail.TOTALS)
        return tuple(read.report(one) for one in by_run(found, destinations_of(sync)))


class _Reader:
    """Store, breaks and signatures, open at the same time."""

    def __init__(self, sync: str) -> None:
        self._sync = sync
        self._ends = ExitStack()

    def __enter__(self) -> "_Reader":
        self.store = self._ends.enter_context(reading.platform())
        self.breaks = self._ends.enter_context(reading.breaks(self._sync))
        self.work = self._ends.enter_context(parts.work())
        self.tolerances = self._ends.enter_context(parts.tolerances())
        self.signatures = self._ends.enter_context(parts.signatures())
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def take(self, state: CutState, takes: Sequence[CutState], signs: Sequence[SignOff] = ()) -> Take:
        return Take(
            state,
            level=level_of(state.found, levels_of(state.sync).get(state.destination)) or "",
            report=self.report(state.found) if state.found else None,
            since=self._since(state, takes, _signed_before(state, signs)),
        )

    def report(self, found: Reconciliation) -> Report:
        compared, plan = compared_as(found), self._plan(found.run_id)
        made = Report(found)
        rules = reports.shown_rules(found.sync)
        money = ageing.money_of(plan) if plan else []
        aged = with_groups(self.work.ageing(compared, money, rules.ages), made.totals)
        made = replace(made, aged=aged, bounds=rules.ages)
        broken = [table for table in found.tables if table.breaks_total]
        if not broken:
            return made
        amounts = self.breaks.amounts(compared, _money(plan, made.totals))
        return replace(
            made,
            counts=self.breaks.counts(compared),
            states=self.work.states(compared),
            tolerances=self.tolerances.of_comparison(found.sync, compared),
            amounts=tuple(_with_group(one, made.totals) for one in amounts),
            first={
                table.table: self.breaks.some(compared, Wanted(table=table.table, limit=BREAKS_SHOWN))
                for table in broken
            },
        )

    def _plan(self, run_id: str) -> SyncPlan | None:
        try:
            plan: SyncPlan = self.store.run(run_id).plan
        except Refused:
            return None  # it has expired
        return plan

    def _since(self, state: CutState, takes: Sequence[CutState], signed: Signature | None) -> SinceBefore | None:
        mine = [one for one in takes if one.destination == state.destination]
        earlier = mine[mine.index(state) + 1 :] if state in mine else []
        compared = [one for one in earlier if one.found]
        of_signed = next((one for one in compared if signed and one.publication.version == signed.version), None)
        # One that has compared nothing, as a run that failed before, is nothing to hold this one against.
        before = of_signed or next((one for one in compared if one.compared is not Verdict.NOT_RUN), None)
        if state.found is None or before is None or before.found is None:
            return None
        changes = self.breaks.changes(compared_as(state.found), compared_as(before.found))
        return SinceBefore(before, state, changes, _changed(before.found, state.found), signed if of_signed else None)


def _signed_before(state: CutState, signs: Sequence[SignOff]) -> Signature | None:
    mine = (one for one in signs if (one.run_id, one.destination) == (state.run_id, state.destination))
    return next((one.earlier for one in mine), None)


def compared_as(found: Reconciliation) -> Compared:
    return Compared(found.run_id, found.destination, found.scope)


def _changed(before: Reconciliation, now: Reconciliation) -> tuple[tuple[ControlTotal, ControlTotal], ...]:
    def named(found: Reconciliation) -> dict[tuple[str, str, tuple[str, ...]], ControlTotal]:
        totals = (total for table in found.tables for total in table.totals)
        return {(total.table, total.column, total.group): total for total in totals}

    old, new = named(before), named(now)
    pairs = ((_or_nothing(old, name), _or_nothing(new, name)) for name in dict.fromkeys([*old, *new]))
    return tuple(pair for pair in pairs if pair[0] != pair[1])


def _or_nothing(
    totals: Mapping[tuple[str, str, tuple[str, ...]], ControlTotal], name: tuple[str, str, tuple[str, ...]]
) -> ControlTotal:
    """A group that was not there has no rows."""
    return totals.get(name) or ControlTotal(*name, source_rows=0, destination_rows=0)


def _money(plan: SyncPlan | None, totals: Iterable[ControlTotal]) -> list[Money]:
    """What is summed as a control total. Where the run has gone the columns of its groups are not known."""
    known = {(one.table, one.column): one.by for one in plan.reconcile.control_totals} if plan else {}
    columns = dict.fromkeys((total.table, total.column) for total in totals if total.column)
    return [Money(*about, known.get(about, _UNKNOWN)) for about in columns]


def _with_group(amount: Amount, totals: Iterable[ControlTotal]) -> Amount:
    """Where all of a column's totals are of one group, its breaks are too."""
    if amount.group is not None:
        return amount
    groups = {one.group for one in totals if (one.table, one.column) == (amount.table, amount.column)}
    return replace(amount, group=groups.pop()) if len(groups) == 1 else amount
