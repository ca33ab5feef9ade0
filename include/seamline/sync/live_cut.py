"""The nightly cut of a destination whose cuts are its live tables: nothing is read into it a second time.

The stream stands still at one position P while the destination keeps hold of its tables and the source's views open
(`sync.barrier`). Then the stream goes on, and what is held is compared with the source at P, every table whole: whoever
reads a cut sees what was compared.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

from seamline.domain.date_before import DATE_BEFORE, SinceCut, date_before_to_json
from seamline.domain.digest import Segment
from seamline.domain.errors import InvariantViolated, Refused
from seamline.domain.row_transform import transforms_evidence
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.staged_cut import StagedCut, StagedTable
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.model import DerivedTablePlan, DestinationPlan, ParkedTable, Run, TablePlan
from seamline.ports import Load, ReadView
from seamline.ports.cuts import PinnedTables
from seamline.sync.barrier import VERSIONED, Aligned, NotAligned, StreamEnded
from seamline.sync.budget import begun, evidence_of_budget, limits_of, within
from seamline.sync.comparison import DIGEST, Work, compare_tables
from seamline.sync.cut import CutRead, Selection, ended_day, never_asked, open_at, select, with_verdicts
from seamline.sync.derived import Derive, with_derived
from seamline.sync.late_rows import DateBefore, OpenCut, since_date_before
from seamline.sync.reading_pace import Pacer
from seamline.sync.reconcile import inconclusive, not_run
from seamline.sync.repetition import NEEDS_A_PERSON, Tried, evidence_of
from seamline.sync.self_test import self_tested

# Views of each side. More than the databases have cores to spare for us only makes each table slower.
VIEWS = 2


@dataclass(slots=True)
class Pinning:
    """What a barrier opens at the destination: live tables of which hold is kept. `open_pinned(n)` has n views."""

    open_pinned: Callable[[int], PinnedTables]
    tables: PinnedTables | None = field(default=None, init=False)

    def open(self, count: int) -> Sequence[ReadView]:
        self.tables = self.open_pinned(count)
        return self.tables.views

    @property
    def staged_as(self) -> Mapping[str, str]:
        if self.tables is None:
            raise InvariantViolated("the barrier has opened no table of the destination")
        return self.tables.staged_as


@dataclass(frozen=True, slots=True)
class LiveCutTools:
    """The world of one cut. `aligned(n)`: a barrier whose destination `pinning` opens. `date_before`, `open_cut` and
    `derive` as for a cut of rows; what is held of a table is what it is staged as. `pacer` and
    `is_closed`: as there."""

    aligned: Callable[[int], AbstractContextManager[Aligned]]
    pinning: Pinning
    date_before: DateBefore
    open_cut: OpenCut
    derive: Derive
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    pacer: Pacer | None = None
    is_closed: Callable[[date], bool] = never_asked


def take_live_cut(
    run: Run, destination: DestinationPlan, tools: LiveCutTools, *, tried: Sequence[Tried] = ()
) -> tuple[StagedCut | None, Reconciliation]:
    """The cut of the run's date, and what its comparison found. No cut, and INCONCLUSIVE, where both sides could not be
    brought to one position. What is derived is computed once both sides are closed.

    Refused: the date has not ended by this machine's clock, or no table has history for it.
    """
    business_date = run.business_date
    if business_date is None:
        raise Refused(f"run {run.run_id} has no business date", hint="a nightly run is for a date", sync=run.sync)
    run = replace(run, plan=run.plan.held_by(destination.name))
    started = tools.clock()
    # Before the barrier: what has ended by now has ended at P.
    ended_day(run.plan, business_date, at=started, clock="this machine's clock")
    try:
        budget = run.plan.reconcile.budget
        with tools.aligned(budget.sessions if budget else VIEWS) as aligned:
            spent = begun(budget, tools.pacer)
            selection = select(
                run.plan, business_date, as_of=tools.clock(), open_at=open_at(run), is_closed=tools.is_closed
            )
            _require_history(run, selection)
            work = [_whole(read) for read in selection.reads]
            verdicts = compare_tables(
                work,
                source=aligned.source,
                destination=aligned.destination,
                totals=run.plan.reconcile.control_totals,
                check=within(spent, aligned.check),
                limits=limits_of(spent, None),
            )
            verdicts, tested = self_tested(
                verdicts, work, source=aligned.source[0], destination=aligned.destination[0], check=aligned.check
            )
            held = _cut(run, destination, selection, aligned, tools, verdicts)
            since = since_date_before(
                run.plan, destination, business_date, aligned.source[0], tools.date_before, tools.open_cut,
                check=within(begun(None, tools.pacer), aligned.check),
            )  # fmt: skip
    except NotAligned as exc:
        names = [*(table.name for table in run.plan.tables), *(table.name for table in run.plan.derived)]
        verdicts = tuple(inconclusive(name, exc.message) for name in names)
        none = _found(run, destination, None, verdicts, (), tools, started=started, tried=tried)
        needs = {NEEDS_A_PERSON: exc.hint} if isinstance(exc, StreamEnded) else {}
        return None, replace(none, evidence={**none.evidence, **needs})
    loads = _loads(selection, held)
    whole, judged = with_derived(run.plan, destination, held, loads, verdicts, tools.derive)
    cut = with_verdicts(whole, judged)
    found = _found(run, destination, cut, judged, since, tools, started=started, tried=tried)
    return cut, replace(found, evidence={**found.evidence, **tested, **evidence_of_budget(spent)})


def _require_history(run: Run, selection: Selection) -> None:
    if not selection.reads:
        raise Refused(
            f"no table of {run.sync} has history for {run.business_date}: " + "; ".join(selection.left_out.values()),
            hint="only tables with a business date can be cut for an earlier date",
            sync=run.sync,
        )


def _whole(read: CutRead) -> Work:
    segment = Segment(read.plan.name)
    return Work(read.plan.target, segment, segment)


def _cut(
    run: Run,
    destination: DestinationPlan,
    selection: Selection,
    aligned: Aligned,
    tools: LiveCutTools,
    verdicts: Sequence[TableVerdict],
) -> StagedCut:
    assert run.business_date is not None
    rows = {verdict.table: verdict.destination_rows or 0 for verdict in verdicts}
    staged_as = tools.pinning.staged_as
    tables = tuple(
        StagedTable(read.plan.name, read.mode, staged_as[read.plan.name], rows[read.plan.name], Verdict.NOT_RUN)
        for read in selection.reads
    )
    return StagedCut(
        run.run_id,
        run.sync,
        destination.name,
        run.business_date,
        aligned.position,
        tools.clock(),
        tables,
        selection.left_out,
    )


def _loads(selection: Selection, cut: StagedCut) -> dict[str, Load]:
    """What the destination holds of each table."""
    held = {table.table: table for table in cut.tables}
    reads = ((read.plan.target, held[read.plan.name]) for read in selection.reads)
    return {table.name: Load(table, one.staged_as, one.rows) for table, one in reads}


def _found(
    run: Run,
    destination: DestinationPlan,
    cut: StagedCut | None,
    verdicts: Sequence[TableVerdict],
    since: Sequence[SinceCut],
    tools: LiveCutTools,
    *,
    started: datetime,
    tried: Sequence[Tried],
) -> Reconciliation:
    """All tables in the plan's order, those that were left out with their reason."""
    by_table = {verdict.table: verdict for verdict in verdicts}
    left_out = cut.left_out if cut else {table.name: table.verdict.reason for table in run.plan.parked}
    plan = run.plan
    tables: Sequence[TablePlan | DerivedTablePlan | ParkedTable] = (*plan.tables, *plan.derived, *plan.parked)
    names = [table.name for table in tables]
    return Reconciliation(
        run_id=run.run_id,
        sync=run.sync,
        destination=destination.name,
        scope=Scope.CUT,
        business_date=run.business_date,
        position=cut.position if cut else None,
        position_time=cut.as_of if cut else None,
        mode=VERSIONED,
        verdict=cut.verdict if cut else Verdict.INCONCLUSIVE,
        tables=tuple(by_table.get(name) or not_run(name, left_out[name]) for name in names),
        started_at=started,
        ended_at=tools.clock(),
        evidence={
            "digest": DIGEST,
            "config_hash": run.plan.config_hash,
            **transforms_evidence(plan.transforms_at(destination.name)),
            "partial": bool(left_out),
            DATE_BEFORE: date_before_to_json(since),
            **evidence_of(tried),
        },
    )
