"""What a sync will do, in words: the very stages that its DAGs and jobs run."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from types import MappingProxyType

from seamline.domain.business_dates import EVERY_DAY
from seamline.domain.duration import duration
from seamline.domain.row_transform import RowTransform
from seamline.domain.staged_cut import CutSource
from seamline.plan.deadlines import ONBOARDINGS, night_deadlines, onboard_limits
from seamline.plan.maintenance import CHORES
from seamline.plan.model import ArchivePlan, DerivedTablePlan, DestinationPlan, SyncPlan, TablePlan
from seamline.plan.not_picked import log_not_picked, not_picked
from seamline.plan.stages import RunsIn, Stage, all_stages

WIDTH = 118
_WHEN = {
    "onboard": "once, started by a person",
    "tables": "by a person, after the list of tables was edited",
    "stream": "one run per business date",
    "reconcile": "after each published cut, and on demand",
    "repair": "by a person, after a comparison of the live tables has found breaks",
}
_WHERE = {RunsIn.AIRFLOW: "task", RunsIn.TRIGGER: "wait without a worker", RunsIn.PERSON: "a person"}


def explain(plan: SyncPlan, *, place: str = "", onboard_within: Mapping[str, timedelta] = MappingProxyType({})) -> str:
    """Text of several lines, ending in a newline. Equal plans give equal text. `place`: where the source's tables lie,
    in the words of its declaration. `onboard_within`: how long stages of the onboarding may take, where that is
    declared."""
    parts = [_head(plan, f"{plan.source.kind}, {place}" if place else plan.source.kind)]
    for kind, stages in all_stages(plan).items():
        steps = [(stage.id, f"{stage.title}  [{_where(stage)}]", stage.does) for stage in stages]
        due = _deadlines(plan, kind, [stage.id for stage in stages], onboard_within)
        parts.append(_dag(f"{plan.sync}__{kind}  ({_when(plan, kind)})", steps) + due)
    chores = [(chore.id, chore.title, f"{chore.does}{_kept(plan, chore.id)}") for chore in CHORES]
    parts.append(_dag("seamline__maintenance  (every hour, one for all syncs)", chores))
    return "\n\n".join(parts) + "\n"


def _deadlines(plan: SyncPlan, kind: str, stages: Sequence[str], onboard_within: Mapping[str, timedelta]) -> str:
    """Of the stages that have any, with `*` where it is a default; "" of other DAGs."""
    said = []
    if kind == "nightly" and plan.nightly is not None:
        # Any night of a zone without a change of its clock.
        nightly = replace(plan.nightly, dates=EVERY_DAY)
        for one in night_deadlines(nightly, date(2026, 1, 14)):
            said.append(f"{one.stage} by {one.at:%H:%M}{'' if one.is_declared else '*'}")
    elif kind in ONBOARDINGS:
        for stage, within, is_declared in onboard_limits(onboard_within):
            if stage in stages:
                said.append(f"{stage} within {duration(within)}{'' if is_declared else '*'}")
    if not said:
        return ""
    text = f"late: {', '.join(said)}  (* default)"
    return "\n" + "\n".join(textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="        "))


def _dag(head: str, steps: Sequence[tuple[str, str, str]]) -> str:
    """Of each step its id, what stands beside it, and what it does."""
    lines, width = [head], max(len(name) for name, _, _ in steps)
    for number, (name, title, does) in enumerate(steps, 1):
        lines.append(f"  {number}. {name:<{width}}  {title}")
        indent = " " * (width + 7)
        lines += textwrap.wrap(does, WIDTH, initial_indent=indent, subsequent_indent=indent)
    return "\n".join(lines)


def _kept(plan: SyncPlan, chore: str) -> str:
    """What this sync's declarations say about it."""
    if chore == "log" and plan.source.has_log:
        return f" Source {plan.source.name}: {plan.source.log_keep_days:g} days.{_archived(plan.source.archive)}"
    if chore == "cuts" and (nightly := plan.nightly):
        return (
            f" Kept: {nightly.keep_days} dates, {nightly.keep_month_ends} ends of months, an old version for"
            f" {nightly.keep_versions_days} days."
        )
    return ""


def _archived(archive: ArchivePlan | None) -> str:
    if archive is None:
        return ""
    kept = f"kept there for {archive.keep_days:g} days" if archive.keep_days else "kept there for good"
    return (
        f" Before they are deleted, records go to the archive in {archive.location}, where they are read back; {kept}."
    )


def _head(plan: SyncPlan, place: str) -> str:
    if plan.reconcile_only is not None:
        return _head_of_reconcile_only(plan, place)
    lines = [
        f"sync {plan.sync}: {plan.guarantee.replace('_', ' ')}, declarations {plan.config_hash[:12]}",
        f"  from {plan.source.name} ({place}): {_read_as(plan)}",
    ]
    if plan.streamed.destinations:
        lines.append(
            f"  log  {plan.source.log_topic}, filled by connector {plan.source.connector}; "
            f"the capture stops at {plan.source.log_max_gb:g} GB"
        )
    lines += [f"  read {line}" for line in _budget(plan)]
    for destination in plan.destinations:
        lines.append(f"  to   {destination.name} ({destination.kind}): {_into(plan, destination)}")
    for table in plan.tables:
        lines.append(f"  table {table.name}{_from(plan, table.name)}: {_table(plan, table.name)}")
        lines += [f"    {why}" for why in [not_picked(plan, table)] if why]
    lines += [f"  nights {why}" for why in [log_not_picked(plan)] if why]
    lines += [f"  table {table.name}: not carried, {table.verdict.reason}" for table in plan.parked]
    for derived in plan.derived:
        how = "not computed while its table is parked" if derived in plan.derived_of_parked else "from the staged cut"
        lines.append(f"  derived {derived.name}: {_computed(derived)}, {how}")
    return "\n".join(lines)


def _read_as(plan: SyncPlan) -> str:
    source = plan.source
    if plan.nightly and plan.nightly.is_delivered:
        who = source.reader or "the account of its tasks"
        return f"reads as {who}; each night is the delivery of its date, proven for that delivery"
    if source.has_log:
        return f"reads as {source.reader}, log as {source.capture}, markers as {source.marker}"
    return f"reads as {source.reader}; no log, so no stream: each night is one read, proven for that read"


def _head_of_reconcile_only(plan: SyncPlan, place: str) -> str:
    lines = [
        f"sync {plan.sync}: compared only, another tool carries the tables; declarations {plan.config_hash[:12]}",
        f"  source      {plan.source.name} ({place}): read as {plan.source.reader}",
    ]
    lines += [f"  read        {line}" for line in _budget(plan)]
    for one in plan.destinations:
        lines.append(f"  destination {one.name} ({one.kind}, {one.namespace}): read as {one.connection}")
    lines += [f"  table {table.name}{_from(plan, table.name)}" for table in plan.tables]
    return "\n".join([*lines, *(f"  table {table.name}: {table.verdict.reason}" for table in plan.parked)])


def _budget(plan: SyncPlan) -> list[str]:
    """What loads, nights and comparisons wait for."""
    budget = plan.source.budget
    if budget is None:
        return []
    said = []
    if budget.running_max:
        said.append(f"while it works on fewer than {budget.running_max} statements")
    if budget.replica_lag_max_s:
        said.append(f"while replicas are less than {duration(timedelta(seconds=budget.replica_lag_max_s))} behind")
    if budget.quiet:
        times = ", ".join(f"{begins}-{ends}" for begins, ends in budget.quiet)
        said.append(f"but not at {times} ({budget.timezone})")
    waits = duration(timedelta(seconds=budget.wait_max_s))
    return [f"{', '.join(said)}; slower from 80 % of a limit on, waits for up to {waits}"]


def _computed(derived: DerivedTablePlan) -> str:
    if derived.job is not None:
        return f"rows as {derived.job.file} makes them of {', '.join(derived.bases)}"
    return f"sum of {derived.table}.{derived.column} by {', '.join(derived.by)}"


def _into(plan: SyncPlan, destination: DestinationPlan) -> str:
    if destination in plan.cuts_only:
        who = destination.connection or "the account of its tasks"
        cuts = f"cuts in {destination.namespace}" if destination.cuts_only else _beside(plan, destination)
        return f"publishes as {who}; {cuts}, no live tables and no stream"
    return f"{_logins(destination)}; live tables in {destination.namespace}, {_beside(plan, destination)}"


def _logins(destination: DestinationPlan) -> str:
    if not destination.writer:
        return "publishes and streams as the account of its tasks"
    return f"publishes as {destination.connection}, streams as {destination.writer}"


def _beside(plan: SyncPlan, destination: DestinationPlan) -> str:
    if destination.no_cuts:
        return "no cuts: nights leave it out"
    if plan.nightly is None:
        return "no cuts"
    if destination.cut_source is CutSource.LIVE:
        return "cuts hold these very tables, whole, as they stand at one position"
    return f"cuts in {destination.cut_namespace}, staging in {destination.stage_namespace}"


def _from(plan: SyncPlan, name: str) -> str:
    """Where a table lies that does not lie under this name in the source's own schema or database."""
    return f" (from {plan.source.places.of(name).text})" if name in dict(plan.source.elsewhere) else ""


def _table(plan: SyncPlan, name: str) -> str:
    entry = plan.table(name)
    own = [(one.name, dict(one.transforms)) for one in plan.destinations]
    made = [f"{_made(held[name])} in {destination}" for destination, held in own if name in held]
    if entry.transform is not None or made:
        elsewhere = [_made(entry.transform)] if len(made) < len(own) else []
        return f"{'; '.join([*made, *elsewhere])}, {_held(plan, entry)}"
    return _held(plan, entry)


def _made(transform: RowTransform | None) -> str:
    return f"rows as {transform.file} makes them" if transform is not None else "rows as the source has them"


def _held(plan: SyncPlan, entry: TablePlan) -> str:
    key = "" if entry.table is None else "keyed, " if entry.table.is_keyed else "no key: an exact multiset, "
    if plan.nightly is None:
        return f"{key}live only"
    held = f"{key}live; the cut holds" if plan.streamed.destinations else f"{key}the cut holds"
    if plan.nightly.is_delivered:
        return f"{held} it whole, as it was delivered for the date{_stored(plan, entry)}"
    if entry.business_date is None:
        read = f"as of P, and counts for the date only within {plan.nightly.as_of_max_s / 3600:g} h of its end"
        if plan.nightly.made_from.uses_log:
            read = f"as it was at the end of the date; of a cut that is read {read}"
        return f"{held} it whole, {read}{_cursor(plan, entry)}{_stored(plan, entry)}"
    by = f"by {entry.business_date.column} ({entry.business_date.holds})"
    if all(one.cut_source is CutSource.LIVE for one in plan.destinations):
        return f"{held} it whole, as of P: the rows of the date {by} among them"
    return f"{held} the rows of the date {by}"


def _cursor(plan: SyncPlan, entry: TablePlan) -> str:
    column = dict(plan.nightly.cursors).get(entry.name) if plan.nightly else None
    return f"; read from the newest {column} of the cut before on, that included" if column else ""


def _stored(plan: SyncPlan, entry: TablePlan) -> str:
    """How and why, where it was declared."""
    as_versions = [one.name for one in plan.destinations if entry.name in one.versioned]
    if not as_versions:
        return ""
    others = [one.name for one in plan.cut.destinations if one.name not in as_versions]
    said = f"; cuts in {', '.join(as_versions)} are stored as versions, for `cut_storage` says so: each writes what has"
    said += " changed since the one before"
    return f"{said}; those in {', '.join(others)} as such a destination stores all cuts" if others else said


def _when(plan: SyncPlan, kind: str) -> str:
    if (only := plan.reconcile_only) is not None:
        return f"every day at {', '.join(only.at)} {only.timezone}, and on demand" if only.at else "on demand"
    if kind == "reconcile" and plan.nightly is None:
        return "on demand"
    if plan.nightly is None or kind != "nightly":
        return _WHEN[kind]
    hours, minutes = divmod(plan.nightly.run_at_delay_minutes, 60)
    by = f", verdict by {plan.nightly.verdict_by}" if plan.nightly.verdict_by else ""
    dates = plan.nightly.dates
    named = ", ".join(one.name for one in dates.calendars)
    of = f"{dates.rule.value} of {named}" if len(dates.calendars) > 1 else named
    on = f", if it is a business day of {of}" if named else ""
    return f"every day at {hours:02}:{minutes:02} {plan.nightly.timezone} for the date that has ended{on}{by}"


def _where(stage: Stage) -> str:
    return f"Spark job {stage.job}" if stage.runs_in is RunsIn.SPARK else _WHERE[stage.runs_in]
