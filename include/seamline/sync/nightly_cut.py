"""The work of a nightly run: every table of the sync read at one P, staged, compared with the source at that same P.

Read and comparison are one job, because read views cannot be opened a second time at the same place. What is derived
from the staged rows is computed after the source's views are closed, and compared with the staged rows themselves.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, Protocol

from seamline.domain.date_before import DATE_BEFORE, SinceCut, date_before_to_json
from seamline.domain.digest import Segment
from seamline.domain.errors import ConfigError, GateFailed, InvariantViolated, Refused, SeamlineError, TransientError
from seamline.domain.made_from import (
    LET_IT_BE_READ,
    LOG_PLACE,
    NOT_BY_LOG,
    OF_THE_DATE_ALONE,
    LogPlace,
    MadeFrom,
    NotByLog,
    place_to_json,
)
from seamline.domain.position import Position
from seamline.domain.row_transform import transforms_evidence
from seamline.domain.runs import NOT_STAGED, Json, Receipt, Reconciliation, Scope
from seamline.domain.staged_cut import (
    WITHOUT_ROWS,
    CutMode,
    CutSource,
    Lateness,
    StagedCut,
    StagedTable,
    cut_to_json,
    without_rows,
)
from seamline.domain.unlogged import DELIVERED, UNLOGGED
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.model import DerivedTablePlan, DestinationPlan, ParkedTable, Run, SyncPlan, TablePlan
from seamline.plan.not_picked import modes_not_picked
from seamline.ports import Load, StagedView, TableRead
from seamline.sync.bucket_search import Divided, Sides
from seamline.sync.budget import begun, evidence_of_budget, within
from seamline.sync.clock import Clock
from seamline.sync.comparison import DIGEST, Work, compare_tables, with_whole_digests
from seamline.sync.cut import CutRead, Selection, never_asked, open_at, select, with_verdicts
from seamline.sync.derived import Derive, with_derived
from seamline.sync.late_rows import DateBefore, OpenCut, since_date_before
from seamline.sync.live_cut import LiveCutTools, take_live_cut
from seamline.sync.outcomes import in_each, outcome_of, require_one_done
from seamline.sync.reading_pace import Pacer
from seamline.sync.reconcile import not_run
from seamline.sync.repetition import NEEDS_A_PERSON, Tried, evidence_of, until_conclusive
from seamline.sync.self_test import self_tested
from seamline.sync.snapshot import ReadAtOnePosition

_log = logging.getLogger(__name__)

READ = "read"


class CutRecords(Protocol):
    """What a nightly run needs of the platform database."""

    def put_result(self, run_id: str, key: str, value: Any) -> None: ...

    def put_receipt(self, run_id: str, receipt: Receipt) -> None: ...

    def save_reconciliation(self, reconciliation: Reconciliation) -> None: ...


class Selects(Protocol):
    def __call__(
        self,
        plan: SyncPlan,
        business_date: date,
        *,
        as_of: datetime,
        open_at: datetime | None = None,
        is_closed: Callable[[date], bool] = never_asked,
    ) -> Selection: ...


@dataclass(frozen=True, slots=True)
class How:
    """How a cut is made, as its reconciliation says: `mode`, and `evidence` once it is staged. `select`: what is in
    it. `proven`: as of `Work`."""

    mode: str = READ
    select: Selects = select
    evidence: Callable[[], Json] = dict
    proven: Callable[[Sides], Divided | None] | None = None


@dataclass(frozen=True, slots=True)
class CutTools:
    """The world of one cut. `open_read` opens only when called; `open_staged` gives views of staged tables.

    `derive` computes one derived table from its staged bases; `lateness` is None where the date has no version yet.
    `date_before` finds the published date before a date, and `open_cut` gives a view of its tables. `live` brings what
    a cut of live tables needs, and is asked for destinations whose cuts are made of these; the rest is for the others.
    `log` brings what a cut from the log needs. `admit` refuses what is not to be read a second time. `pacer`: at which
    pace the comparison asks, where the source has a budget. `is_closed`: as of `select`. `forget`: called where staged
    rows are not the source's, so that whoever reads next reads all of them.
    """

    open_read: Callable[[Sequence[TableRead]], AbstractContextManager[ReadAtOnePosition]]
    open_staged: Callable[[DestinationPlan, Sequence[Load], int], AbstractContextManager[Sequence[StagedView]]]
    derive: Derive
    lateness: Callable[[DestinationPlan, date, Load], Lateness | None]
    date_before: DateBefore
    open_cut: OpenCut
    records: CutRecords
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    live: Callable[[DestinationPlan], LiveCutTools] | None = None
    log: "LogWay | None" = None
    how: How = field(default_factory=How)
    admit: Callable[[Position], None] = lambda _: None
    pacer: Pacer | None = None
    is_closed: Callable[[date], bool] = never_asked
    forget: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class LogWay:
    """What cuts from the log need. `tools(destination)`: those of a cut that is made so; NotByLog when it is opened, or
    before. `read(run)`: those of a read into the destinations of this run alone, which leaves what others have staged.
    `place(destinations)`: from where on the log has all that a read which begins now does not hold; the log is kept
    from there for these. Cuts that begin with a cut and go on without a log have none. `judge`: NotByLog where what was
    found says that the date has to be read after all. `why`: the name in the evidence of why a date was read.
    """

    tools: Callable[[DestinationPlan], CutTools]
    read: Callable[[Run], CutTools]
    place: Callable[[Sequence[str]], LogPlace] | None
    judge: Callable[[Sequence[Reconciliation]], None] = lambda _: None
    why: str = NOT_BY_LOG


def made_of(run: Run, source: CutSource) -> Run:
    """The run in those destinations alone whose cuts are made of this."""
    return replace(run, plan=run.plan.into([one.name for one in run.plan.destinations if one.cut_source is source]))


def take_conclusive_cut(run: Run, tools: CutTools, *, clock: Clock | None = None) -> Mapping[str, StagedCut]:
    """The cut of the run's date in every destination, and again at another P where a comparison was INCONCLUSIVE, as
    often as the plan allows.

    What is read from the source stands at one P in all destinations that take it (`take_cut`). A destination whose cuts
    are its live tables has a P of its own, and is taken after these; whatever happens there keeps no other from its
    cut. Raises the first error where there is no cut at all.
    """
    for why in modes_not_picked(run.plan):
        _log.info("%s: %s", run.business_date, why)
    by_rows, live = (made_of(run, source) for source in (CutSource.ROWS, CutSource.LIVE))
    by_rows = replace(by_rows, plan=by_rows.plan.of_cuts)
    if not live.plan.destinations:
        return _conclusive_rows(by_rows, tools, clock)[0]
    cuts, failed = dict[str, StagedCut](), dict[str, str]()
    outcomes: list[object] = []
    if by_rows.plan.destinations:
        made = outcome_of(lambda: _conclusive_rows(by_rows, tools, clock))
        outcomes.append(made)
        if isinstance(made, SeamlineError):
            failed |= dict.fromkeys((one.name for one in by_rows.plan.destinations), made.message)
        else:
            cuts |= made[0]
            failed |= {one.destination: one.tables[0].reason for one in made[1] if one.destination not in cuts}
    for one in live.plan.destinations:
        cut = outcome_of(lambda one=one: _conclusive_live(live, one, tools, clock))  # type: ignore[misc]
        outcomes.append(cut)
        if isinstance(cut, SeamlineError):
            failed[one.name] = f"{cut.message}. To mend it: {cut.hint}" if cut.hint else cut.message
        else:
            cuts[one.name] = cut
    require_one_done(outcomes)
    tools.records.put_result(run.run_id, "cut", {name: cut_to_json(cut) for name, cut in cuts.items()})
    tools.records.put_result(run.run_id, NOT_STAGED, failed)
    return cuts


_Taken = tuple[Mapping[str, StagedCut], Sequence[Reconciliation]]


def _conclusive_rows(run: Run, tools: CutTools, clock: Clock | None) -> _Taken:
    """From an earlier cut where the plan wants that and the destination has what it takes; the others are read
    together."""
    nightly, way = run.plan.nightly, tools.log
    if nightly is None or not nightly.made_from.begins_with_a_cut or way is None:
        return _conclusive(run, tools, clock)
    cuts, found = dict[str, StagedCut](), list[Reconciliation]()
    left, outcomes = dict[str, str](), dict[str, object]()
    for destination in run.plan.destinations:
        made = outcome_of(lambda one=destination: _from_log(run, one, way, clock))  # type: ignore[misc]
        if isinstance(made, SeamlineError) and _may_be_read(run, made, tools):
            left[destination.name] = made.message
            _log.info("%s in %s: not from an earlier cut: %s", run.business_date, destination.name, made.message)
            continue
        outcomes[destination.name] = made if not isinstance(made, SeamlineError) else _refused(run, made)
        if not isinstance(made, SeamlineError):
            cuts |= made[0]
            found += made[1]
    if left:
        rest = replace(run, plan=run.plan.into(left))
        read = outcome_of(lambda: _read(rest, way, left, clock))
        outcomes |= {name: _of_read(read, name) for name in left}
        if not isinstance(read, SeamlineError):
            cuts |= read[0]
            found += read[1]
    require_one_done(list(outcomes.values()))
    failed = {name: one.message for name, one in outcomes.items() if isinstance(one, SeamlineError)}
    tools.records.put_result(run.run_id, "cut", {name: cut_to_json(cut) for name, cut in cuts.items()})
    tools.records.put_result(run.run_id, NOT_STAGED, failed)
    return cuts, found


def _of_read(read: _Taken | SeamlineError, destination: str) -> object:
    """What became of one destination of a read."""
    if isinstance(read, SeamlineError) or destination in read[0]:
        return read
    reasons = [one.tables[0].reason for one in read[1] if one.destination == destination]
    return TransientError(reasons[0] if reasons else "it was not staged")


def _from_log(run: Run, destination: DestinationPlan, way: LogWay, clock: Clock | None) -> _Taken:
    taken = _conclusive(replace(run, plan=run.plan.into([destination.name])), way.tools(destination), clock)
    way.judge(taken[1])
    return taken


def _may_be_read(run: Run, error: SeamlineError, tools: CutTools) -> bool:
    """Whether a cut that was not made from an earlier one for this is read: where the plan leaves that open, and the
    very first one, if all of it can be read. What a person has to mend, or has bounded, is no reason to read more."""
    assert run.plan.nightly is not None
    made_from = run.plan.nightly.made_from
    if not isinstance(error, NotByLog):
        return made_from is MadeFrom.AUTO and not isinstance(error, Refused | ConfigError)
    if made_from.may_be_read:
        return True
    if not error.is_first or run.business_date is None:
        return False
    parked = {table.name for table in run.plan.parked}
    wanted = select(run.plan, run.business_date, as_of=tools.clock(), open_at=open_at(run), is_closed=tools.is_closed)
    return wanted.left_out.keys() <= parked


def _refused(run: Run, error: SeamlineError) -> SeamlineError:
    if not isinstance(error, NotByLog):
        return error
    cure = (
        "take the date that has just ended first; later ones begin with its cut" if error.is_first else LET_IT_BE_READ
    )
    return Refused(
        f"the cut of {run.business_date} cannot be made from the log: {error.message}",
        hint=error.hint or cure,
        sync=run.sync,
    )


def _read(run: Run, way: LogWay, why: Mapping[str, str], clock: Clock | None) -> _Taken:
    """One read for all of these, such that the next cut can be made from the log. `why` this one is not, by
    destination."""
    evidence: dict[str, Any] = {way.why: "; ".join(dict.fromkeys(why.values()))}
    if (find := way.place) is not None:
        place = outcome_of(lambda: find(list(why)))
        if isinstance(place, SeamlineError):
            evidence[way.why] += f"; nor can the next one begin with it: {place.message}"
        else:
            evidence[LOG_PLACE] = place_to_json(place)
    tools = way.read(run)
    return _conclusive(run, replace(tools, how=replace(tools.how, evidence=lambda: evidence)), clock)


def _conclusive(run: Run, tools: CutTools, clock: Clock | None) -> _Taken:
    taken: Mapping[str, StagedCut] = {}

    def take(tried: Sequence[Tried]) -> Sequence[Reconciliation]:
        nonlocal taken
        taken, found = take_cut(run, tools, tried=tried)
        return found

    found = until_conclusive(take, attempts=run.plan.reconcile.attempts, clock=clock, now=tools.clock)
    return taken, found


def _conclusive_live(run: Run, destination: DestinationPlan, tools: CutTools, clock: Clock | None) -> StagedCut:
    if tools.live is None:
        raise InvariantViolated(f"nothing can make a cut of the live tables of {destination.name}", sync=run.sync)
    with_live, taken = tools.live(destination), list[StagedCut | None]()

    def take(tried: Sequence[Tried]) -> Sequence[Reconciliation]:
        cut, found = take_live_cut(run, destination, with_live, tried=tried)
        taken.append(cut)
        tools.records.save_reconciliation(found)
        return [found]

    (found,) = until_conclusive(take, attempts=run.plan.reconcile.attempts, clock=clock, now=tools.clock)
    cut = taken[-1]
    if cut is None:
        why = f"no cut of {destination.name}: {found.tables[0].reason}"
        if (cure := found.evidence.get(NEEDS_A_PERSON)) is not None:
            raise GateFailed(why, hint=f"{cure}; then run this date again", sync=run.sync)
        raise TransientError(why, sync=run.sync)
    for table in cut.tables:
        if table.mode is CutMode.DERIVED:
            continue
        receipt = Receipt(table.table, 0, table.staged_as, table.rows, None, cut.position)
        tools.records.put_receipt(run.run_id, receipt)
    return cut


def take_cut(
    run: Run, tools: CutTools, *, tried: Sequence[Tried] = ()
) -> tuple[Mapping[str, StagedCut], Sequence[Reconciliation]]:
    """Stage and compare the cut of the run's date in every destination; publishes nothing.

    Kept for the steps after it: a reconciliation of scope `cut` per destination, and `result["cut"]`, the manifest per
    destination. One that fails takes no other with it: it has neither rows nor verdicts, and stands with its error in
    `result["not_staged"]`; where all fail, the first error is raised. Repeat-safe: a repeat reads at a new P into
    tables of other names, and replaces all of it. `tried`: the attempts of this run before this one.
    """
    business_date = run.business_date
    if business_date is None:
        raise Refused(f"run {run.run_id} has no business date", hint="a nightly run is for a date", sync=run.sync)
    started = tools.clock()
    wanted = tools.how.select(run.plan, business_date, as_of=started, open_at=open_at(run))
    reads = [TableRead(read.plan.target, read.segment) for read in wanted.reads]
    if not reads:
        raise Refused(
            f"no table of {run.sync} has history for {business_date}: " + "; ".join(wanted.left_out.values()),
            hint="only tables with a business date can be cut for an earlier date",
            sync=run.sync,
        )
    with tools.open_read(reads) as read:
        tools.admit(read.position)
        # Judged again by the source's own clock at P: what was in time a moment ago may be too late now.
        selection = tools.how.select(
            run.plan, business_date, as_of=read.position_time, open_at=open_at(run), is_closed=tools.is_closed
        )
        staged = in_each(run.plan.destinations, lambda destination: _stage(run, destination, selection, read, tools))
        there = {name: one for name, one in staged.items() if not isinstance(one, SeamlineError)}
        # What fails here is the platform database, and no destination.
        _leave_receipts(run, selection, there.values(), tools)
        ask = within(begun(None, tools.pacer), _go_on)
        late = {
            one.name: since_date_before(
                run.plan, one, business_date, read.views_for(one)[0], tools.date_before, tools.open_cut, check=ask
            )
            for one in run.plan.destinations
            if one.name in there
        }
        position, moment = read.position, read.position_time
    if any(verdict.verdict is Verdict.BREAK for one in there.values() for verdict in one[2]):
        tools.forget()

    def judge(destination: DestinationPlan) -> tuple[StagedCut, Sequence[TableVerdict]]:
        if isinstance(one := staged[destination.name], SeamlineError):
            raise one
        made, loads, compared, _ = one
        cut, verdicts = with_derived(run.plan, destination, made, loads, compared, tools.derive)
        return with_verdicts(cut, verdicts), verdicts

    cuts: dict[str, StagedCut] = {}
    failed: dict[str, str] = {}
    found: list[Reconciliation] = []
    for name, outcome in in_each(run.plan.destinations, judge).items():
        if isinstance(outcome, SeamlineError):
            failed[name] = outcome.message
            why = f"not compared: the task `cut` could not make its cut in {name}: {outcome.message}"
            left_out = {one.name: f"{why}. Mend that, then run this date again" for one in _all_tables(run.plan)}
            cut = StagedCut(run.run_id, run.sync, name, business_date, position, moment, (), left_out)
            made = _reconciliation(run, cut, (), (), started, tools)
        else:
            cuts[name], verdicts = outcome
            made = _reconciliation(run, cuts[name], verdicts, late[name], started, tools)
            made = replace(made, evidence={**made.evidence, **there[name][3]})
        found.append(replace(made, evidence={**made.evidence, **evidence_of(tried)}))
        tools.records.save_reconciliation(found[-1])
    tools.records.put_result(run.run_id, "cut", {name: cut_to_json(cut) for name, cut in cuts.items()})
    tools.records.put_result(run.run_id, NOT_STAGED, failed)
    return cuts, found


def _all_tables(plan: SyncPlan) -> tuple[TablePlan | DerivedTablePlan | ParkedTable, ...]:
    return (*plan.tables, *plan.derived, *plan.parked)


# The last: what is kept of the comparison's self-test.
_Staged = tuple[StagedCut, Mapping[str, Load], Sequence[TableVerdict], Json]


def _work(chosen: CutRead, load: Load, how: How) -> Work:
    """What is compared is the date's rows and not the table's: so many that they are worth dividing, or not."""
    definition = replace(load.table, rows_estimate=load.rows)
    return Work(definition, chosen.segment, Segment(chosen.plan.name), proven=how.proven)


def _stage(
    run: Run, destination: DestinationPlan, selection: Selection, read: ReadAtOnePosition, tools: CutTools
) -> _Staged:
    """Stage every table and compare it while the source's views are open, so that a difference can be followed."""
    loads = {load.table.name: load for load in read.stage(destination)}
    reads = [chosen for chosen in selection.reads if chosen.plan.name in loads]
    if len(reads) != len(selection.reads):
        raise InvariantViolated(f"{len(selection.reads)} tables were to be staged, {len(reads)} were", sync=run.sync)
    budget = run.plan.reconcile.budget
    # As many sessions as are declared; the others have read their part, and only keep their view.
    source = read.views_for(destination)[: budget.sessions if budget else None]
    with tools.open_staged(destination, list(loads.values()), len(source)) as views:
        work = [_work(each, loads[each.plan.name], tools.how) for each in reads]
        totals = run.plan.reconcile.control_totals
        spent = begun(budget, tools.pacer)
        verdicts = compare_tables(work, source=source, destination=views, totals=totals, check=within(spent, _go_on))
        verdicts = with_whole_digests(verdicts, work, views[0])
        verdicts, tested = self_tested(verdicts, work, source=source[0], destination=views[0])
    cut = StagedCut(
        run_id=run.run_id,
        sync=run.sync,
        destination=destination.name,
        business_date=_date(run),
        position=read.position,
        as_of=read.position_time,
        tables=tuple(_staged_table(run, destination, each, loads[each.plan.name], tools) for each in reads),
        left_out=selection.left_out,
    )
    return cut, loads, verdicts, {**tested, **evidence_of_budget(spent)}


def _go_on() -> None:
    """Views of a night are as old as its loads are long."""


def _leave_receipts(run: Run, selection: Selection, staged: Iterable[_Staged], tools: CutTools) -> None:
    for cut, loads, _, _ in staged:
        for load in (loads[each.plan.name] for each in selection.reads):
            # Without a digest: the comparison has read the source once, a second time would show nothing new.
            receipt = Receipt(load.table.name, 0, load.staged_as, load.rows, None, cut.position)
            tools.records.put_receipt(run.run_id, receipt)


def _staged_table(run: Run, destination: DestinationPlan, read: CutRead, load: Load, tools: CutTools) -> StagedTable:
    found = tools.lateness(destination, _date(run), load) if read.mode is CutMode.DATE else None
    return StagedTable(
        table=read.plan.name,
        mode=read.mode,
        staged_as=load.staged_as,
        rows=load.rows,
        verdict=Verdict.NOT_RUN,
        late_rows=found.late_rows if found else None,
        gone_rows=found.gone_rows if found else None,
    )


def _reconciliation(
    run: Run,
    cut: StagedCut,
    verdicts: Sequence[TableVerdict],
    since: Sequence[SinceCut],
    started: datetime,
    tools: CutTools,
) -> Reconciliation:
    """All tables in the plan's order, those that were left out with their reason; the verdict is of what is in it."""
    by_table = {verdict.table: verdict for verdict in verdicts}
    plan = run.plan
    names = [table.name for table in _all_tables(plan)]
    tables = tuple(by_table.get(name) or not_run(name, cut.left_out[name]) for name in names)
    late = {table.table: {"late": table.late_rows, "gone": table.gone_rows} for table in cut.tables}
    return Reconciliation(
        run_id=run.run_id,
        sync=run.sync,
        destination=cut.destination,
        scope=Scope.CUT,
        business_date=cut.business_date,
        position=cut.position,
        position_time=cut.as_of,
        mode=_mode(plan, tools.how),
        verdict=cut.verdict,
        tables=tables,
        started_at=started,
        ended_at=tools.clock(),
        evidence={
            "digest": DIGEST,
            "config_hash": run.plan.config_hash,
            **transforms_evidence(plan.transforms_at(cut.destination)),
            "partial": cut.is_partial,
            "rows_since_the_version_before": {
                name: counts for name, counts in late.items() if counts["late"] is not None
            },
            DATE_BEFORE: date_before_to_json(since),
            WITHOUT_ROWS: without_rows(cut),
            **({OF_THE_DATE_ALONE: True} if _is_day_slice(plan) else {}),
            **tools.how.evidence(),
        },
    )


def _mode(plan: SyncPlan, how: How) -> str:
    if plan.nightly and plan.nightly.is_delivered:
        return DELIVERED
    if not plan.source.has_log:
        return UNLOGGED
    return MadeFrom.DAY_SLICE.value if _is_day_slice(plan) else how.mode


def _is_day_slice(plan: SyncPlan) -> bool:
    return plan.nightly is not None and plan.nightly.made_from is MadeFrom.DAY_SLICE


def _date(run: Run) -> date:
    if run.business_date is None:
        raise InvariantViolated(f"run {run.run_id} lost its business date", sync=run.sync)
    return run.business_date
