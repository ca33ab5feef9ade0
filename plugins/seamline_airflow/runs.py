"""Opening a run: which plan it runs by, and whether its sync may run at all."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from airflow.sdk.exceptions import AirflowSkipException

from seamline.domain.catalogue import PARK_IT
from seamline.domain.decision import DECISION, DecisionState, decision_from_json
from seamline.domain.errors import Refused
from seamline.domain.ledger import LedgerRow
from seamline.domain.row_transform import RowTransform, transform_from_json, transform_to_json
from seamline.domain.runs import (
    AGAIN,
    CUT_TRANSFORMS,
    GATE,
    INTO,
    KEPT,
    PUBLISH,
    TABLES,
    TOOK_NOTHING,
    WHOLE,
    Cut,
    RunKind,
    RunState,
    SyncState,
)
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.list_change import ListChange, altered, list_change, with_origins_of
from seamline.plan.model import Run, SyncPlan, TablePlan
from seamline.sync.cut import ended_day
from seamline.sync.dates_asked import DateTaken
from seamline_airflow.nightly_form import asked
from seamline_airflow.run_context import business_date, optional_business_date

_SCHEDULED = "scheduled"

Ledgers = Mapping[str, LedgerRow | None]


class Records(Protocol):
    """What opening a run asks of the platform database."""

    def run(self, run_id: str) -> Run: ...

    def published_into(self, sync: str) -> Mapping[str, Run]:
        """By destination the newest run that put the sync's tables in place there, the oldest first."""

    def sync_state(self, sync: str) -> SyncState | None: ...

    def latest_run(self, sync: str, *kinds: str, with_result: str = "") -> Run | None: ...

    def set_sync_state(self, sync: str, state: str) -> None: ...

    def cuts(self, sync: str, business_date: Any = None) -> tuple[Cut, ...]:
        """The newest date first, of a date the newest version first."""

    def put_result(self, run_id: str, key: str, value: Any) -> None: ...

    def start_run(self, *, run_id: str, sync: str, kind: str, plan_json: str, business_date: Any = None) -> None: ...

    def start_alone(self, *, run_id: str, sync: str, kind: str, plan_json: str, business_date: Any) -> str:
        """The run of the same date that goes on and is in the way; "" where it has started."""


def take_of(records: Records, run_id: str) -> str:
    """The name to run under: `run_id`, or `run_id~2` and so on when what bears that name is closed.

    Publishing is resolved by the run's name, so a cleared run that kept it would stage and judge a new cut and then
    find the old one published. A retry before that keeps its name.
    """
    number = 1
    while (known := _known(records, _take(run_id, number))) is not None and is_closed(known):
        number += 1
    return _take(run_id, number)


def is_closed(run: Run) -> bool:
    """Whether what a run has found stays on record as it is: it was published, or was not clean and nobody is asked
    about it any more. What is staged after that is another take: a break and its rejection are not written over."""
    if PUBLISH in run.result:
        return True
    decision = decision_from_json(run.result.get(DECISION))
    is_asked = decision is not None and decision.state is DecisionState.WAITING
    return bool((run.result.get(GATE) or {}).get("lines")) and not is_asked


def newest_take(records: Records, run_id: str) -> Run | None:
    """The run of this name, or the one that it went on as when it was cleared; None where none was written down."""
    found, number = None, 1
    while (known := _known(records, _take(run_id, number))) is not None:
        found, number = known, number + 1
    return found


def _take(run_id: str, number: int) -> str:
    return run_id if number == 1 else f"{run_id}~{number}"


def _known(records: Records, run_id: str) -> Run | None:
    try:
        return records.run(run_id)
    except Refused:
        return None


def to_onboard(records: Records, plan: SyncPlan, asked: Collection[str]) -> tuple[str, ...]:
    """The destinations that an onboarding goes into: those that a person asked for; else those of an enabled sync that
    were declared after it was onboarded; else all."""
    declared = tuple(one.name for one in plan.destinations)
    if unknown := sorted(set(asked) - set(declared)):
        raise Refused(
            f"{', '.join(unknown)}: no destination of {plan.sync}",
            hint=f"declared: {', '.join(declared)}",
            sync=plan.sync,
        )
    if asked:
        return tuple(name for name in declared if name in asked)
    if records.sync_state(plan.sync) is not SyncState.ENABLED:
        return declared
    there = records.published_into(plan.sync)
    return tuple(name for name in declared if name not in there) or declared


def fix_destinations(records: Records, plan: SyncPlan, run_id: str, asked: Collection[str]) -> tuple[str, ...]:
    """The destinations that the onboarding of this name goes into, as its first attempt found them and wrote them down:
    an edit of the declarations between two attempts must not make it load what nobody asked for."""
    known = newest_take(records, run_id)
    if known is not None and INTO in known.result:
        require_declared(plan, known.plan.destination_names, run_id)
        return tuple(one.name for one in known.plan.destinations)
    names = to_onboard(records, plan, asked)
    take, into = take_of(records, run_id), plan.into(names)
    records.start_run(run_id=take, sync=plan.sync, kind=RunKind.ONBOARD, plan_json=plan_to_json(into))
    # Behind the plan: where this is missing, the plan is not one that an attempt has fixed.
    records.put_result(take, INTO, part_of(plan, names))
    return names


def require_declared(plan: SyncPlan, names: Collection[str], run_id: str) -> None:
    """Refused where a destination that a run was begun for is not in the plan."""
    if gone := sorted(set(names) - plan.destination_names):
        raise Refused(
            f"{', '.join(gone)}: not declared any more as a destination of {plan.sync}, and {run_id} was begun for it",
            hint=f"add it to the sync again and clear the task, or leave this run and run {plan.sync}__onboard again",
            sync=plan.sync,
        )


def part_of(plan: SyncPlan, names: Collection[str]) -> list[str]:
    """As `INTO` keeps it: nothing where they are all of the plan's."""
    return sorted(names) if plan.destination_names - set(names) else []


def open_onboarding(
    records: Records,
    plan: SyncPlan,
    run_id: str,
    *,
    beside: SyncPlan | None = None,
    cuts: SyncPlan | None = None,
) -> None:
    """Write the onboarding down. A sync that was onboarded before stays what it is until this run publishes: when it
    fails before that, the live tables, their stream and the nights go on as if it had never been tried. One that fails
    while it publishes leaves it unknown which tables are in place: nights wait until `publish` is cleared and done.

    `beside`: what is declared for the sync's destinations that are not the plan's. They, and the nights, do not notice.
    Refused unless the sync's tables are those that it carries there; what one that was taken out has carried does not
    count. `cuts`: the plan for its destinations of cuts only, as preflight has found it.
    """
    published = records.published_into(plan.sync)
    _refuse_another_schema(published, plan)
    others = beside or plan.into(())
    known = {one.name: published[one.name].plan for one in others.destinations if one.name in published}
    _require_same_tables(known, plan, beside=others)
    records.start_run(run_id=run_id, sync=plan.sync, kind=RunKind.ONBOARD, plan_json=plan_to_json(plan))
    records.put_result(run_id, INTO, sorted(plan.destination_names) if others.destinations else [])
    records.put_result(run_id, CUT_TRANSFORMS, _cut_transforms(cuts or plan.into(())))
    if records.sync_state(plan.sync) is None:
        records.set_sync_state(plan.sync, SyncState.ONBOARDING)


def _require_same_tables(known: Mapping[str, SyncPlan], plan: SyncPlan, *, beside: SyncPlan) -> None:
    """A destination that comes later begins with the tables that the others have. `known`: by destination `beside` the
    plan's the one by which it was loaded."""
    if differing := set[str]().union(*(one.table_names ^ plan.table_names for one in known.values())):
        raise Refused(
            f"the tables of sync {plan.sync} differ from those that were onboarded: {', '.join(sorted(differing))}",
            hint=f"run {plan.sync}__tables first, or take the change back",
            sync=plan.sync,
        )
    loaded = {name: one.held_by(name) for name, one in known.items()}
    now = {name: _declared_beside(name, one, plan, beside) for name, one in loaded.items()}
    _refuse_altered(loaded, now, ListChange(), sync=plan.sync)


def _declared_beside(destination: str, loaded: SyncPlan, plan: SyncPlan, beside: SyncPlan) -> SyncPlan:
    """The plan with the transforms that are declared for a destination which it does not go into. Preflight has not
    analysed those, but where one of the plan's destinations has the same file; else the text says whether it is the one
    that was loaded."""
    declared = {table.name: table.transform for table in beside.held_by(destination).tables}
    before = {table.name: table.transform for table in loaded.tables}
    analysed = {
        (table.name, table.transform.file): table.transform
        for one in plan.destinations
        for table in plan.held_by(one.name).tables
        if table.transform is not None
    }

    def meant(table: str) -> RowTransform | None:
        wanted, known = declared.get(table), before.get(table)
        if wanted is None or (table, wanted.file) in analysed:
            return wanted and analysed[table, wanted.file]
        return known if known is not None and known.text == wanted.text else wanted

    return replace(plan, tables=tuple(replace(table, transform=meant(table.name)) for table in plan.tables))


def _refuse_altered(
    loaded: Mapping[str, SyncPlan], now: Mapping[str, SyncPlan], change: ListChange, *, sync: str
) -> None:
    """Both by destination."""
    names = _altered_anywhere(loaded, now, change)
    if not names:
        return
    in_columns = _altered_anywhere(loaded, now, replace(change, again=tuple(names)))
    cures = []
    if by_query := sorted(names - in_columns):
        cures.append(f"{', '.join(by_query)}: run `{sync}__tables` and name it under `again`")
    if in_columns:
        cures.append(f"{', '.join(sorted(in_columns))}: {PARK_IT}")
    raise Refused(
        f"{', '.join(sorted(names))} of {sync} had another schema, or another transform, when they were loaded",
        hint="; ".join(cures),
        sync=sync,
    )


def _altered_anywhere(loaded: Mapping[str, SyncPlan], now: Mapping[str, SyncPlan], change: ListChange) -> set[str]:
    return {name for at, one in loaded.items() for name in altered(one, now[at], change)}


def _cut_transforms(plan: SyncPlan) -> Mapping[str, Any]:
    """As `CUT_TRANSFORMS` keeps it."""
    return {
        one.name: {
            table.name: table.transform and transform_to_json(table.transform)
            for table in plan.held_by(one.name).tables
        }
        for one in plan.cuts_only
    }


def _cut_transforms_of(run: Run) -> Mapping[str, Mapping[str, RowTransform | None]]:
    """How destinations of cuts only hold the tables of this run. Runs of before had none that differ."""
    found = {
        name: {table: one and transform_from_json(one) for table, one in tables.items()}
        for name, tables in (run.result.get(CUT_TRANSFORMS) or {}).items()
    }
    # Where a sync has no others, it is onboarded into these.
    mine = {one.name: run.plan.held_by(one.name).tables for one in run.plan.cuts_only}
    return found | {name: {table.name: table.transform for table in tables} for name, tables in mine.items()}


def into_onboarded(records: Records, plan: SyncPlan) -> SyncPlan:
    """The plan without the destinations that are declared and not onboarded yet. Those of cuts only need not be, but
    for one with transforms of its own that no preflight has analysed yet."""
    published = records.published_into(plan.sync)
    there = plan.streamed.destination_names & published.keys()
    if not there and not (plan.cuts_only and published):
        return plan
    analysed = {name for run in published.values() for name in _cut_transforms_of(run)}
    return plan.into(there | {one.name for one in plan.cuts_only if not one.transforms or one.name in analysed})


def way_in(plan: SyncPlan, destination: str) -> str:
    """The DAG that brings a declared destination in that `into_onboarded` leaves out."""
    is_beside = plan.destination(destination).cuts_only and plan.streamed.destinations
    return f"{plan.sync}__{'tables' if is_beside else 'onboard'}"


def watched(records: Records, sync: str, declared: Sequence[str]) -> tuple[str, ...]:
    """The destinations whose streams stand for a date: those that are not onboarded yet have none."""
    there = records.published_into(sync)
    return tuple(name for name in declared if name in there) or tuple(declared)


def open_tables(
    records: Records,
    plan: SyncPlan,
    run_id: str,
    again: Collection[str],
    ledgers: Ledgers,
    *,
    cuts: SyncPlan | None = None,
) -> None:
    """Write a run down that brings the running streams to the declared tables, with what it has to do. `cuts`: the plan
    for the sync's destinations of cuts only, as preflight has found it; nights go by their transforms afterwards.

    Refused where there is nothing to do. A run that changed the destination and died before it said so finds nothing
    to change there, and says so now.
    """
    require_enabled(records, plan.sync)
    change = list_change(plan, ledgers, again=again)
    carried = _carried(records, plan)
    is_whole = all(one.table_names == plan.table_names for one in carried.values())
    now = {name: plan.held_by(name) if name in plan.destination_names else plan for name in carried}
    _refuse_altered(carried, now, change, sync=plan.sync)
    if not change and is_whole and not _cuts_differ(records, cuts):
        raise Refused(
            f"the streams of {plan.sync} carry exactly the declared tables",
            hint="edit the sync's list of tables, or name tables in `again` to load them once more",
            sync=plan.sync,
        )
    plan = with_origins_of(carried, plan, change)
    records.start_run(run_id=run_id, sync=plan.sync, kind=RunKind.TABLES, plan_json=plan_to_json(plan))
    records.put_result(run_id, TABLES, change.as_json())
    records.put_result(run_id, CUT_TRANSFORMS, _cut_transforms(cuts or plan.into(())))


def _cuts_differ(records: Records, cuts: SyncPlan | None) -> bool:
    """Whether nights hold a table by another transform than is declared for a destination of cuts only."""
    if cuts is None:
        return False
    nights = _held_by_nights(records.published_into(cuts.sync), cuts)
    return any(
        _is_held_otherwise(table, nights.get(one.name, {}), is_own=table.name in dict(one.transforms))
        for one in cuts.cuts_only
        for table in cuts.held_by(one.name).tables
    )


def _is_held_otherwise(table: TablePlan, known: Mapping[str, RowTransform | None], *, is_own: bool) -> bool:
    """A transform that is for all destinations changes with the loads of the others."""
    before = known.get(table.name)
    if not is_own:
        return table.name in known and (before and before.file) != (table.transform and table.transform.file)
    return table.name not in known or replace(table, transform=before).fingerprint != table.fingerprint


def _held_by_nights(published: Mapping[str, Run], plan: SyncPlan) -> dict[str, Mapping[str, RowTransform | None]]:
    """By destination of cuts only and by table the transform of the newest run."""
    found: dict[str, Mapping[str, RowTransform | None]] = {}
    for run in published.values():
        found |= _cut_transforms_of(run)
    return {one.name: found[one.name] for one in plan.cuts_only if one.name in found}


def open_nightly(context: Mapping[str, Any], records: Records, plan: SyncPlan, run_id: str) -> None:
    """Write the nightly run down, with what was asked of it. Refused for a sync that is not enabled, and for a date
    that has not ended. DateTaken while another run of the date goes on.

    What the schedule starts by itself is skipped where there is nothing to do: before the sync is onboarded, and for a
    date whose newest version is a MATCH that a person or a backfill has made. So is a date of a backfill that keeps
    what is done. What a person asks for is done again, as the next version; a task that was cleared is asked for too.
    """
    day, what = business_date(context), asked(context, plan)
    ended_day(plan, day, at=datetime.now(UTC), clock="the clock here")
    is_scheduled = _is_scheduled(context)
    if is_scheduled and _waits_for_its_first_onboarding(records, plan.sync):
        raise AirflowSkipException(f"sync {plan.sync} is not onboarded yet: there is no cut to make for {day}")
    require_enabled(records, plan.sync)
    if (is_scheduled or what.keep_done) and not _is_cleared(context):
        newest: dict[str, Cut] = {}
        for cut in records.cuts(plan.sync, day):
            newest.setdefault(cut.destination, cut)
        done = [cut for cut in newest.values() if cut.verdict is Verdict.MATCH and _base(cut.run_id) != _base(run_id)]
        if into_onboarded(records, plan).cut.destination_names <= {cut.destination for cut in done}:
            raise AirflowSkipException(f"the cut of {day} is published already, by run {done[0].run_id}")
    plan = onboarded_plan(records, plan).cut
    plan_json = plan_to_json(plan.only(what.tables) if what.tables else plan)
    kind, results = RunKind.NIGHTLY, {**what.results(), **_asked_again(context, records, run_id)}
    taken_by = records.start_alone(run_id=run_id, sync=plan.sync, kind=kind, plan_json=plan_json, business_date=day)
    if taken_by:
        raise DateTaken(day, by=taken_by, sync=plan.sync)
    for key, value in results.items():
        records.put_result(run_id, key, value)


def _asked_again(context: Mapping[str, Any], records: Records, run_id: str) -> Mapping[str, Any]:
    """What a run keeps that is opened because a task of it was cleared after it had ended well. Nothing of one that
    goes on, or is tried again: it was written down when it was opened."""
    before, known = newest_take(records, _base(run_id)), _known(records, run_id)
    is_begun = known is None or known.state is RunState.SUCCEEDED
    has_ended_well = before is not None and before.state is RunState.SUCCEEDED
    # What it has found in force before counts no more. Of one that goes on only its driver knows.
    return {AGAIN: _is_cleared(context) and has_ended_well, KEPT: None, TOOK_NOTHING: None} if is_begun else {}


def _waits_for_its_first_onboarding(records: Records, sync: str) -> bool:
    """A sync that has cuts and is onboarded again is another matter: its missing night must be red, not skipped."""
    state = records.sync_state(sync)
    return state is None or (state is SyncState.ONBOARDING and not records.cuts(sync))


def _base(run_id: str) -> str:
    """The run's name without its take: what a cleared run did itself is no reason to skip it."""
    return run_id.partition("~")[0]


def open_reconcile(context: Mapping[str, Any], records: Records, plan: SyncPlan, run_id: str) -> None:
    """Write the reconcile run down. The date is a label here: what is compared are the live tables of now. A sync that
    only compares is never onboarded: `plan` has its catalogue."""
    day = optional_business_date(context)
    if plan.reconcile_only is not None:
        _start(records, plan, run_id, RunKind.RECONCILE, day)
        return
    require_enabled(records, plan.sync)
    _start(records, onboarded_plan(records, plan).streamed, run_id, RunKind.RECONCILE, day)
    if (context.get("params") or {}).get(WHOLE):
        records.put_result(run_id, WHOLE, value=True)


def require_enabled(records: Records, sync: str) -> None:
    state = records.sync_state(sync)
    if state is SyncState.ENABLED:
        return
    reason = {
        None: "it was never onboarded",
        SyncState.ONBOARDING: "its onboarding has not ended",
    }[state]
    raise Refused(
        f"sync {sync} is not enabled: {reason}",
        hint=f"run {sync}__onboard to its end; its last task enables the sync",
        sync=sync,
    )


def onboarded_plan(records: Records, plan: SyncPlan) -> SyncPlan:
    """The declared plan of now with the tables as they were onboarded.

    A changed setting counts at once; a changed list of tables does not: tables enter and leave by a run of their own.
    Until that run's tables have joined in every destination of the plan, everything goes on by the plan of before, as a
    whole, but for tables that have left one of them. A destination that is declared and not onboarded yet is not in it.
    A table that the destinations were loaded with by different transforms has each one's own (`SyncPlan.held_by`).
    """
    carried = _carried(records, plan)
    plan, published = into_onboarded(records, plan), records.published_into(plan.sync)
    known = {table.name: table for one in carried.values() for table in one.tables}
    # What destinations hold that have no transform of their own, as the newest load of any has it.
    loaded = [run.plan for name, run in published.items() if name in carried]
    shared = {table.name: table.transform for one in loaded for table in one.tables}
    own: dict[str, Mapping[str, RowTransform | None]] = {
        name: {table.name: table.transform for table in one.tables} for name, one in carried.items()
    }
    own |= _held_by_nights(published, plan)
    everywhere = frozenset[str].intersection(*(one.table_names for one in carried.values()))
    if plan.table_names == everywhere:
        # A destination that was declared since, or taken out, gives no column another name.
        limits = dict.fromkeys(limit for one in carried.values() for limit in one.source.name_limits)
        found = replace(
            plan,
            source=replace(plan.source, name_limits=tuple(limits)),
            tables=tuple(
                replace(table, table=known[table.name].table, transform=shared[table.name]) for table in plan.tables
            ),
        )
        return _with_transforms(found, own)
    # One that was refused before it knew what to change has asked for nothing.
    opened = records.latest_run(plan.sync, RunKind.TABLES, with_result=TABLES)
    if opened is not None and opened.state is not RunState.SUCCEEDED and not opened.is_published_everywhere:
        before = next(iter(carried.values()))
        if before.table_names != everywhere:
            before = replace(before.only(everywhere), parked=before.parked)
        tables = tuple(replace(table, transform=shared[table.name]) for table in before.tables)
        return _with_transforms(replace(before, destinations=plan.destinations, tables=tables), own)
    differing = ", ".join(sorted(plan.table_names ^ everywhere))
    how = "tables" if plan.streamed.destinations else "onboard"
    raise Refused(
        f"the tables of sync {plan.sync} differ from those that were onboarded: {differing}",
        hint=f"run {plan.sync}__{how}, or take the change back",
        sync=plan.sync,
    )


def _with_transforms(plan: SyncPlan, own: Mapping[str, Mapping[str, RowTransform | None]]) -> SyncPlan:
    """Each destination with the transforms by which it holds tables, where they are not the plan's. `own`: by
    destination and table."""
    shown = {table.name: table.transform for table in plan.tables}
    differing = {
        name: tuple((table, one) for table, one in tables.items() if table in shown and one != shown[table])
        for name, tables in own.items()
    }
    destinations = (replace(one, transforms=differing.get(one.name, ())) for one in plan.destinations)
    return replace(plan, destinations=tuple(destinations))


def stream_plan(records: Records, plan: SyncPlan, destination: str) -> SyncPlan:
    """What the stream into an onboarded destination runs by: the tables as they were published there. What another
    destination has loaded since, and when, is nothing to it."""
    return onboarded_plan(records, plan.into((destination,))).of_stream(destination)


def _carried(records: Records, plan: SyncPlan) -> dict[str, SyncPlan]:
    """By destination of the plan the one by which its tables were published, the oldest first. Where none of them is
    onboarded, it is known of others what tables the sync has. One of cuts only goes by those that have streams, where
    there are such: its own onboarding is from before them, and no later run changes its list of tables."""
    published = records.published_into(plan.sync)
    if not published:
        raise Refused(f"sync {plan.sync} was never onboarded", hint=f"run {plan.sync}__onboard", sync=plan.sync)
    _refuse_another_schema(published, plan)
    plans = {name: _carried_into(run, name) for name, run in published.items()}
    for wanted in (plan.streamed.destination_names, plan.destination_names):
        if found := {name: one for name, one in plans.items() if name in wanted}:
            return found
    return plans


def _carried_into(run: Run, destination: str) -> SyncPlan:
    return replace(run.plan.of_stream(destination), config_hash=run.plan.config_hash)


def _refuse_another_schema(published: Mapping[str, Run], plan: SyncPlan) -> None:
    """The ledger knows its tables by destination and name: those of that name in another schema are somebody else's."""
    before = {name: run.plan.destination(name).namespace for name, run in published.items()}
    for one in plan.destinations:
        if one.name in before and before[one.name] != one.namespace:
            raise Refused(
                f"destination {one.name} was onboarded with schema {before[one.name]}, and is declared with"
                f" {one.namespace}",
                hint=f"take the change back, or declare a destination of another name with schema {one.namespace} and"
                f" run {plan.sync}__onboard",
                sync=plan.sync,
            )


def _start(records: Records, plan: SyncPlan, run_id: str, kind: RunKind, day: Any) -> None:
    records.start_run(
        run_id=run_id,
        sync=plan.sync,
        kind=kind,
        plan_json=plan_to_json(plan),
        business_date=day,
    )


def _is_scheduled(context: Mapping[str, Any]) -> bool:
    # An enum in the scheduler's process, a text in the task's.
    run_type = getattr(context["dag_run"], "run_type", "")
    return str(getattr(run_type, "value", run_type)) == _SCHEDULED


def _is_cleared(context: Mapping[str, Any]) -> bool:
    """Whether a person has cleared this task: Airflow then allows it as many tries again."""
    ti, task = context.get("ti"), context.get("task")
    return int(getattr(ti, "max_tries", 0)) > int(getattr(task, "retries", 0) or 0)
