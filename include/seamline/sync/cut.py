"""The nightly cut: which rows belong to a business date, what stands staged, and its publication.

A table with a business date gives that date's rows at P. A table without one is read whole and is its state *as of P*:
it counts only for the date that has just ended, and only while P lies within `as_of_max` of that date's end. What a
source delivers by date is read whole too, and is that date's whenever it comes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Protocol

from seamline.domain.calendar import Day, moment_in_words, zone
from seamline.domain.day_closed import CLOSED
from seamline.domain.digest import Segment
from seamline.domain.errors import GateFailed, InvariantViolated, Refused
from seamline.domain.expectation_results import results_fault
from seamline.domain.runs import NOT_STAGED, SIGNED_BY, Cut, Reconciliation, Scope, checked_in
from seamline.domain.staged_cut import CutMode, StagedCut, cut_from_json
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.model import DestinationPlan, NightlyPlan, Run, SyncPlan, TablePlan
from seamline.ports.cuts import CutPublisher
from seamline.sync.reconcile import not_run


@dataclass(frozen=True, slots=True)
class CutRead:
    """A table to be read for a cut, and the part of the source that belongs to it."""

    plan: TablePlan
    mode: CutMode
    segment: Segment


@dataclass(frozen=True, slots=True)
class Selection:
    """What a cut of a date reads, and which tables it cannot have, each with its reason."""

    reads: tuple[CutRead, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)


class CutRecords(Protocol):
    """What publishing needs of the platform database."""

    def reconciliation(self, run_id: str, scope: str, destination: str = "") -> Reconciliation | None: ...

    def require_as_entered(self, found: Reconciliation) -> None: ...

    def save_reconciliation(self, reconciliation: Reconciliation) -> None: ...

    def save_cut(self, cut: Cut) -> None: ...


def never_asked(_: date) -> bool:
    """Of a source that cannot be asked whether it has closed a date, or is not asked yet."""
    return False


# What lets a table without a business date into the cut of an earlier date.
_BY_LOG = "a cut from the log has it (`nightly.from`)"


def select(
    plan: SyncPlan,
    business_date: date,
    *,
    as_of: datetime,
    open_at: datetime | None = None,
    is_closed: Callable[[date], bool] = never_asked,
) -> Selection:
    """What the cut of a date reads when its views stand at `as_of`, the source's clock at P. `open_at`: when the
    source was last seen not to have closed the date, where it says so itself: before that the date was not over.
    `is_closed`: whether it has closed another date by now; asked for the next one, where that has ended by the clock
    before `open_at`.

    Raises Refused for a sync without a nightly cut and for a date that has not ended, and what `is_closed` raises.
    """
    nightly = _nightly(plan)
    day = ended_day(plan, business_date, at=as_of, clock="the source's clock")
    missing = ""
    if any(table.business_date is None for table in plan.tables):
        missing = _why_no_history(nightly, day, open_at, as_of) or _why_passed(nightly, day, open_at, is_closed)
    reads: list[CutRead] = []
    left_out = {table.name: table.verdict.reason for table in plan.parked}
    for table in plan.tables:
        if table.business_date is not None:
            reads.append(CutRead(table, _mode_of(table), dates_of(plan, table, business_date)))
        elif missing:
            left_out[table.name] = missing
        else:
            reads.append(CutRead(table, CutMode.WHOLE, Segment(table.name)))
    return Selection(tuple(reads), left_out)


def open_at(run: Run) -> datetime | None:
    """When the source was seen not to have closed the run's date for the last time; None where it was never seen so."""
    said = (run.result.get(CLOSED) or {}).get("open_at")
    return datetime.fromisoformat(said) if said else None


def select_by_log(
    plan: SyncPlan,
    business_date: date,
    *,
    as_of: datetime,
    open_at: datetime | None = None,  # noqa: ARG001 (a cut from the log ends at the cut-off)
    is_closed: Callable[[date], bool] = never_asked,  # noqa: ARG001 (as well)
) -> Selection:
    """What a cut that is made from the log has: every table, whatever its date, each already in its bounds."""
    ended_day(plan, business_date, at=as_of, clock="the cut-off")
    reads = tuple(CutRead(table, _mode_of(table), Segment(table.name)) for table in plan.tables)
    return Selection(reads, {table.name: table.verdict.reason for table in plan.parked})


def _mode_of(table: TablePlan) -> CutMode:
    if table.ahead_of:
        return CutMode.AHEAD
    return CutMode.WHOLE if table.business_date is None else CutMode.DATE


def dates_of(plan: SyncPlan, table: TablePlan, business_date: date) -> Segment:
    """The rows of a table that belong to the cut of a date; of the rows that are kept for the next one, those of all
    later dates."""
    if table.business_date is None:
        raise InvariantViolated(f"{table.name} is not cut by date", sync=plan.sync)
    segment = _nightly(plan).segment_of(table, business_date)
    return replace(segment, date_from=segment.date_to, date_to="") if table.ahead_of else segment


def ended_day(plan: SyncPlan, business_date: date, *, at: datetime, clock: str) -> Day:
    """The instants of a business date that has ended at `at`, which `clock` says. Refused while it has not, and for a
    day that is no business date; ConfigError where no calendar knows it."""
    nightly = _nightly(plan)
    nightly.dates.require(business_date)
    day = nightly.day_of(business_date)
    if at < day.end:
        newest = nightly.last_ended(at)
        where = zone(nightly.timezone)
        raise Refused(
            f"business date {business_date} has not ended: it ends at {moment_in_words(day.end, where)},"
            f" {nightly.cut_off} in {nightly.timezone}; {clock} says {moment_in_words(at, where)}",
            hint=f"the newest date that has ended is {newest}: take that one or an earlier one, or come back later"
            if newest
            else "come back later",
            sync=plan.sync,
        )
    return day


def _nightly(plan: SyncPlan) -> NightlyPlan:
    if plan.nightly is None:
        raise Refused(f"sync {plan.sync} declares no nightly cut", hint="add `nightly:` to the sync", sync=plan.sync)
    return plan.nightly


def _why_no_history(nightly: NightlyPlan, day: Day, open_at: datetime | None, as_of: datetime) -> str:
    """Why a table read whole cannot stand for this date; "" when it can."""
    if nightly.is_delivered:
        return ""
    business_date, end = day.business_date, max(day.end, open_at or day.end)
    newest = nightly.last_ended(as_of)
    # Dates that ended by the clock while the source had this one open are later ones, and have not begun for it.
    if newest != (business_date if end == day.end else nightly.last_ended(end)):
        return (
            f"{_no_history(business_date)}, as it is now, and that is {newest}, the date that has just ended; {_BY_LOG}"
        )
    late = as_of - end
    if late > timedelta(seconds=nightly.as_of_max_s):
        return (
            f"{_no_history(business_date)}, and that was at {moment_in_words(as_of, zone(nightly.timezone))},"
            f" {late / timedelta(hours=1):.1f} h after the date had ended (`nightly.as_of_max` is"
            f" {nightly.as_of_max_s / 3600:g} h); let its night run sooner, or: {_BY_LOG}"
        )
    return ""


def _why_passed(nightly: NightlyPlan, day: Day, open_at: datetime | None, is_closed: Callable[[date], bool]) -> str:
    """Why a table read whole stands for a later date already, though it was in time for this one; "" where it does not.
    A source that catches up closes one date soon after the other."""
    following = nightly.dates.after(day.business_date)
    if nightly.is_delivered or open_at is None or following is None:
        return ""
    if open_at < nightly.day_of(following).end or not is_closed(following):
        return ""
    return f"{_no_history(day.business_date)}, as it is now, and the source has closed {following} too; {_BY_LOG}"


def _no_history(business_date: date) -> str:
    return f"not in this cut, it has no history for {business_date}: without a business date the table is read whole"


def with_verdicts(cut: StagedCut, verdicts: Sequence[TableVerdict]) -> StagedCut:
    """The manifest with the verdict and digest of each staged table; one that was not judged is NOT_RUN."""
    judged = {verdict.table: verdict for verdict in verdicts}
    none = not_run("", "not judged")
    tables = ((table, judged.get(table.table, none)) for table in cut.tables)
    return replace(cut, tables=tuple(replace(t, verdict=found.verdict, digest=found.digest) for t, found in tables))


def staged_in(run: Run) -> tuple[DestinationPlan, ...]:
    """The destinations that hold the run's staged cut: all that take it, but those that could not be written."""
    return tuple(one for one in run.taking.plan.destinations if one.name not in (run.result.get(NOT_STAGED) or {}))


def published_by(run: Run, cuts: Iterable[Cut]) -> dict[str, int]:
    """The versions that this very run has published, by destination. `cuts`: of its sync and date."""
    return {cut.destination: cut.version for cut in cuts if cut.run_id == run.run_id}


def require_staged(run: Run, destination: str) -> None:
    """GateFailed where the destination has no staged cut, because it could not be written while others could."""
    if (why := (run.result.get(NOT_STAGED) or {}).get(destination)) is not None:
        raise GateFailed(
            f"{destination} has no cut of {run.business_date}: {why}",
            hint="mend the cause, then run this date again; the other destinations wait for nothing",
            sync=run.sync,
        )


def staged_cut(run: Run, destination: str) -> StagedCut:
    """The manifest that the run's job left under `result["cut"]`. Raises Refused when it did not."""
    document = run.result.get("cut", {}).get(destination)
    if document is None:
        raise Refused(
            f"run {run.run_id} has staged no cut for {destination}",
            hint="its job nightly_cut comes first",
            sync=run.sync,
        )
    return cut_from_json(document)


def publish_cut(
    run: Run, destination: str, *, publisher: CutPublisher, records: CutRecords, signed_by: str = ""
) -> Cut:
    """Publish the staged cut of a run, repeat-safe by its run id, and write it down in the platform database.

    Fails closed: without a saved reconciliation of this very cut, and without its checks, both as the log of acts has
    them, nothing goes. Where they are not MATCH, only a person's signature (`signed_by`) or `on_break:
    publish_and_flag` lets it through, and the verdict stays what it is. The signature is kept with the reconciliation
    that it is about: another take of the cut brings another one, which nobody has signed.
    """
    cut = replace(staged_cut(run, destination), checks=_checked(run, destination))
    found = _reconciled(run, cut, records.reconciliation(run.run_id, Scope.CUT, destination))
    records.require_as_entered(found)
    _require_as_checked(run, found)
    wrong = _require_clean(run, cut, signed_by)
    definitions = {table.name: table.target for table in run.plan.held_by(destination).of_cuts.tables}
    published = publisher.publish(cut, definitions=definitions, signed_by=signed_by if wrong else "")
    record = Cut(
        sync=cut.sync,
        destination=cut.destination,
        business_date=cut.business_date,
        version=published.version,
        run_id=cut.run_id,
        position=cut.position,
        as_of=cut.as_of,
        tables=tuple(table.table for table in cut.tables),
        verdict=cut.verdict,
        partial=cut.is_partial,
    )
    records.save_cut(record)
    if published.signed_by:
        records.save_reconciliation(replace(found, evidence={**found.evidence, SIGNED_BY: published.signed_by}))
    return record


def _reconciled(run: Run, cut: StagedCut, found: Reconciliation | None) -> Reconciliation:
    """What was found, if it is about this very cut."""
    if found is None:
        raise GateFailed(
            f"the staged cut of {cut.business_date} in {cut.destination} was not reconciled: it is not published",
            hint="run the nightly again; a cut without a verdict cannot be signed either",
            sync=cut.sync,
        )
    if found.position != cut.position:
        raise InvariantViolated(
            f"run {cut.run_id} was reconciled at {found.position}, its manifest stands at {cut.position}"
        )
    judged = {verdict.table: verdict.verdict for verdict in found.tables}
    staged = {table.table: table.verdict for table in cut.tables}
    if not staged:
        raise GateFailed(f"the cut of {cut.business_date} holds no table", sync=cut.sync)
    if any(judged.get(table) is not verdict for table, verdict in staged.items()):
        raise InvariantViolated(f"the manifest of run {cut.run_id} and its reconciliation have different verdicts")
    return found


def _checked(run: Run, destination: str) -> Verdict:
    said = (checked_in(run.result, destination) or {}).get("verdict")
    verdict = Verdict(said) if said in list(Verdict) else Verdict.NOT_RUN
    if verdict is Verdict.NOT_RUN:
        raise GateFailed(
            f"the staged cut of {run.business_date} in {destination} was not checked: it is not published",
            hint="run the task `expectations` again, with those after it; what was not checked cannot be signed either",
            sync=run.sync,
        )
    return verdict


def _require_as_checked(run: Run, found: Reconciliation) -> None:
    """What lets a cut through is what was entered into the log of acts."""
    if wrong := results_fault(found, run.result):
        raise GateFailed(
            f"the cut of {run.business_date} in {found.destination} is not published: {wrong} after they were entered",
            hint="`./seamline audit verify` names what was changed; clear the task `expectations` with those after it",
            sync=run.sync,
        )


def _require_clean(run: Run, cut: StagedCut, signed_by: str) -> list[str]:
    """What is wrong with the cut though it may be published; [] of a clean one."""
    wrong = [f"{table.table} {table.verdict}" for table in cut.tables if table.verdict is not Verdict.MATCH]
    if cut.checks is not Verdict.MATCH:
        wrong.append(f"expectations {cut.checks}")
    if wrong and not signed_by and run.plan.reconcile.on_break != "publish_and_flag":
        raise GateFailed(
            f"the cut of {cut.business_date} in {cut.destination} is not published: {', '.join(wrong)}",
            hint="see the reconciliation's breaks; a person may sign for it where `on_break: ask` is declared",
            sync=cut.sync,
        )
    return wrong
