"""Declarations, and the source's catalogue once it was read, become the plan that everything else runs by."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from seamline.domain.business_dates import BusinessDates
from seamline.domain.business_dates import Rule as OpenRule
from seamline.domain.calendar import Holds
from seamline.domain.catalogue import Kind, Table
from seamline.domain.cut_job import CutJob, named_in
from seamline.domain.day_closed import ClosedBy, DayClosed
from seamline.domain.made_from import MadeFrom
from seamline.domain.measure import MOVEMENTS, Measure, rolling
from seamline.domain.names import NameLimit
from seamline.domain.repair import RepairLimits
from seamline.domain.row_transform import Analysed, Expression, RowTransform
from seamline.domain.staged_cut import CutSource
from seamline.domain.table_places import TablePlace
from seamline.plan.checks import (
    BudgetPlan,
    ControlTotalPlan,
    ReconcileOnlyPlan,
    ReconcilePlan,
    RulePlan,
    Says,
    SourceBudgetPlan,
)
from seamline.plan.columns import measured_misfits, misfit
from seamline.plan.model import (
    ArchivePlan,
    BusinessDate,
    DerivedTablePlan,
    DestinationPlan,
    NightlyPlan,
    ParkedTable,
    SourcePlan,
    StreamPlan,
    SyncPlan,
    TablePlan,
)
from seamline.ports import Survey
from seamline.spec.checks import seconds_of
from seamline.spec.consistency import keyless_refusal
from seamline.spec.cut_storage import VERSIONS
from seamline.spec.destination import Destination
from seamline.spec.document import Path_
from seamline.spec.expectations import Check
from seamline.spec.faults import DeclarationsInvalid, Fault, guess
from seamline.spec.kinds import carries_cuts_on, holds_cuts, keeps_versions, name_limit, rows_apart, takes_streams
from seamline.spec.load import Declarations
from seamline.spec.night import SystemDate
from seamline.spec.source import Archive, DeclaredSource, UnloggedDatabase
from seamline.spec.source_budget import SourceBudget
from seamline.spec.sync import (
    MIDNIGHT,
    Budget,
    ControlTotal,
    DerivedTable,
    Nightly,
    Reconcile,
    Rule,
    SyncSpec,
    TableEntry,
)
from seamline.spec.table_names import name_in_sync
from seamline.spec.tolerances import as_declared

# Arguments of expectations that name columns of the table.
_COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list", "column_set")
_WAS_CALLED = {"read": "auto", "auto": "auto, from the log where that can be"}
_NIGHTLY_LATER = ("calendars", "business_date_if", "ready_when", "stages_by")
_KINDS_THAT_HOLD = {
    Holds.DATE: frozenset({Kind.DATE}),
    Holds.LOCAL: frozenset({Kind.DATETIME}),
    # A DATETIME may hold UTC by convention; only a person knows, so the declaration decides.
    Holds.INSTANT: frozenset({Kind.INSTANT, Kind.DATETIME}),
    Holds.DIGITS: frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.CHAR, Kind.STRING}),
}
_CURSORS = frozenset({Kind.DATE, Kind.DATETIME, Kind.INSTANT})


def destination_plan(spec: Destination) -> DestinationPlan:
    """Of a destination that is declared, whether a sync names it or not."""
    return DestinationPlan(
        spec.destination,
        spec.kind,
        spec.connection,
        spec.namespace,
        writer_connection=spec.writer_connection or "",
        options=tuple(spec.options.items()),
        commit_every_ms=spec.commit_interval_ms,
        cut_source=spec.cut_source,
        cuts_only=not takes_streams(spec.kind),
        no_cuts=not holds_cuts(spec.kind),
        rows_apart=rows_apart(spec.kind),
    )


def compile_plan(
    declarations: Declarations,
    sync_name: str,
    survey: Survey | None = None,
    *,
    transforms: Analysed = MappingProxyType({}),
) -> SyncPlan:
    """The plan of one sync. Equal declarations and survey give an equal plan.

    With `survey` every table and column that the sync names is checked against it: DeclarationsInvalid with all faults.
    Without, `TablePlan.definition` refuses; enough for DAGs and explain, not for a run.
    """
    sync = declarations.sync(sync_name)
    definitions = {table.name: table for table in survey.tables} if survey else {}
    names = _names(declarations, sync)
    if survey is not None:
        _check_survey(declarations, sync, survey, transforms)
    return SyncPlan(
        sync=sync.sync,
        source=_source(declarations.sources[sync.source], sync, names, _limits(declarations, sync)),
        destinations=tuple(_destination(declarations, sync, names, name, transforms) for name in sync.destinations),
        tables=tuple(
            TablePlan(
                name,
                BusinessDate(entry.business_date.column, entry.business_date.as_) if entry.business_date else None,
                definitions.get(name),
                _row_transform(declarations, name, entry.transform, transforms)
                if isinstance(entry.transform, str)
                else None,
            )
            for name, entry in zip(names, sync.tables, strict=True)
            if entry.parked is None
        ),
        guarantee=sync.guarantee,
        stream=StreamPlan(
            **{**sync.stream.model_dump(), "cut_off_behind_gb": tuple(sorted(sync.stream.cut_off_behind_gb.items()))}
        ),
        nightly=_nightly(sync.nightly, declarations, sync, names) if sync.nightly else None,
        reconcile=ReconcilePlan(
            (*map(_total, sync.reconcile.control_totals), *_totals_of_rules(sync.reconcile.rules)),
            sync.reconcile.expectations or "",
            sync.reconcile.on_break,
            sync.reconcile.approvers,
            sync.reconcile.wait_max_s,
            sync.reconcile.attempts,
            tuple(each for rule in sync.reconcile.rules for each in _rules(rule)),
            RepairLimits(**sync.reconcile.repair.model_dump()),
            _budget(sync.reconcile.budget) if sync.reconcile.budget else None,
            tuple(
                one.hash
                for one in as_declared(sync.reconcile.tolerances, sync=sync.sync, destinations=sync.destinations)
            ),
            tuple(name for name in sync.destinations if sync.reconcile.is_by_log(name)),
            sync.reconcile.repeated.rotate if sync.reconcile.repeated else 0,
        ),
        derived=tuple(_derived(declarations, entry, names) for entry in sync.derived),
        config_hash=config_hash(declarations, sync_name),
        parked=tuple(
            ParkedTable(name, entry.parked)
            for name, entry in zip(names, sync.tables, strict=True)
            if entry.parked is not None
        ),
        reconcile_only=_reconcile_only(sync),
    )


def _budget(declared: Budget) -> BudgetPlan:
    return BudgetPlan(declared.time.total_seconds(), declared.sessions, declared.pause_ms / 1000)


def _reconcile_only(sync: SyncSpec) -> ReconcileOnlyPlan | None:
    if (declared := sync.reconcile_only) is None:
        return None
    return ReconcileOnlyPlan(declared.in_flight_max.total_seconds(), declared.at, declared.timezone)


def _total(declared: ControlTotal) -> ControlTotalPlan:
    for key, column in declared.measured.items():
        return ControlTotalPlan(declared.table, column, declared.by, Measure(key))
    return ControlTotalPlan(declared.table, "", declared.by)


def _rules(rule: Rule) -> Iterator[RulePlan]:
    """What the declared rule demands of a cut. Numbers of a sequence are unique, whatever gaps it may have."""
    if balance := rule.balance:
        columns = tuple(filter(None, (balance.amount, balance.debit, balance.credit)))
        yield RulePlan(rule.name, rule.table, Says.BALANCE, columns, balance.by)
    if forward := rule.roll_forward:
        moved = forward.movements
        by = forward.by if moved.by is None else moved.by
        called = rolling(MOVEMENTS, rule.name, moved.amount, by)
        movements = ControlTotalPlan(moved.table, moved.amount, by, called=called)
        yield RulePlan(rule.name, rule.table, Says.ROLL_FORWARD, (forward.amount,), forward.by, movements)
    if numbers := rule.sequence:
        if numbers.gaps == "fail":
            yield RulePlan(rule.name, rule.table, Says.NO_GAP, (numbers.column,), numbers.by)
        yield RulePlan(rule.name, rule.table, Says.UNIQUE, (*numbers.by, numbers.column))
    if rule.unique:
        yield RulePlan(rule.name, rule.table, Says.UNIQUE, rule.unique)


def _totals_of_rules(rules: Sequence[Rule]) -> Iterator[ControlTotalPlan]:
    """What both sides are asked for, so that the report shows it, and the next date begins with it."""
    for rule in rules:
        for each in _rules(rule):
            if each.movements is not None:
                yield each.closing
                yield each.movements
        if numbers := rule.sequence:
            for measure in (Measure.MISSING, Measure.DUPLICATES):
                yield ControlTotalPlan(rule.table, numbers.column, numbers.by, measure)
        if rule.unique:
            first, *further = rule.unique
            yield ControlTotalPlan(rule.table, first, (), Measure.DUPLICATES, tuple(further))


def _destination(
    declarations: Declarations, sync: SyncSpec, names: Sequence[str], destination: str, transforms: Analysed
) -> DestinationPlan:
    """With what the sync declares for it; `names`: the sync's tables, in the order declared."""
    declared = declarations.destinations[destination]
    return replace(
        destination_plan(declared),
        transforms=tuple(_transforms_of(declarations, sync, names, destination, transforms)),
        versioned=tuple(_versioned(sync, names, declared.kind)),
    )


def _transforms_of(
    declarations: Declarations, sync: SyncSpec, names: Sequence[str], destination: str, transforms: Analysed
) -> Iterator[tuple[str, RowTransform]]:
    """By table what is declared for this destination alone."""
    for name, entry in zip(names, sync.tables, strict=True):
        if entry.parked is None and isinstance(entry.transform, dict) and destination in entry.transform:
            yield name, _row_transform(declarations, name, entry.transform[destination], transforms)


def _versioned(sync: SyncSpec, names: Sequence[str], kind: str) -> Iterator[str]:
    """Tables whose cuts a kind of destination stores as versions."""
    for name, entry in zip(names, sync.tables, strict=True):
        if entry.parked is None and entry.cut_storage == VERSIONS and keeps_versions(kind):
            yield name


def _row_transform(declarations: Declarations, table: str, file: str, transforms: Analysed) -> RowTransform:
    return transforms.get((table, file)) or RowTransform(file, declarations.transforms[file])


def _derived(declarations: Declarations, entry: DerivedTable, tables: Sequence[str]) -> DerivedTablePlan:
    """`tables`: of the sync, by their names in it."""
    if entry.transform is None:
        summed = (entry.table or "", entry.sum or "", entry.by)
        return DerivedTablePlan(entry.name, *summed, rows_max=entry.rows_max)
    text = declarations.transforms[entry.transform]
    job = CutJob(entry.transform, text, named_in(text, tables, of=entry.transform))
    return DerivedTablePlan(entry.name, job=job, rows_max=entry.rows_max)


def config_hash(declarations: Declarations, sync_name: str) -> str:
    """SHA-256 over all that was declared for a sync, defaults written out; comments and key order do not count."""
    sync = declarations.sync(sync_name)
    suite = declarations.expectations.get(sync.reconcile.expectations or "")
    specs = [
        sync,
        declarations.sources[sync.source],
        *(declarations.destinations[name] for name in sync.destinations),
        *([suite] if suite else []),
        *(declarations.calendars[name] for name in (sync.nightly.calendars if sync.nightly else ())),
    ]
    canonical: list[Any] = [spec.model_dump(mode="json", by_alias=True) for spec in specs]
    for entry in canonical[0]["tables"]:
        _leave_out(entry, {"cut_storage": "copies", "cursor": None}, ("cut_storage", "cursor"))
        # One without has the hash that it had before there were any.
        if isinstance(named := entry.pop("transform"), str):
            entry["transform"] = declarations.transforms[named]
        elif named is not None:
            entry["transform"] = {name: declarations.transforms[file] for name, file in named.items()}
    for entry in canonical[0]["derived"]:
        if (file := entry.pop("transform")) is not None:
            entry["transform"] = declarations.transforms[file]
    _shorten(canonical[0])
    _leave_out(canonical[0]["stream"], {"cut_off_behind_gb": {}}, ("cut_off_behind_gb",))
    if isinstance(log := canonical[1].get("log"), dict):
        _leave_out(log, dict.fromkeys(_LOG_LATER), _LOG_LATER)
    _leave_out(canonical[1], {"budget": None}, ("budget",))
    if sync.reconcile_only is None:
        del canonical[0]["reconcile_only"]
    # By when a stage is to be through changes nothing that is read, written or compared.
    del canonical[0]["onboard"]
    text = json.dumps(canonical, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


_LOG_LATER = ("behind_max_gb", "source_backlog_max_gb", "archive")


def _shorten(sync: dict[str, Any]) -> None:
    """As above: what is declared as it was before it could be declared is left out."""
    for entry in (*sync["tables"], *sync["derived"]):
        if not entry["sensitive"]:
            del entry["sensitive"]
    later = ("rules", "work", "repair", "sign", "budget", "notify", "tolerances", "mode", "repeated")
    reconcile = sync["reconcile"]
    _leave_out(reconcile, Reconcile().model_dump(mode="json", by_alias=True), later)
    nightly = sync["nightly"] or {}
    _leave_out(nightly, Nightly(timezone="UTC").model_dump(mode="json"), _NIGHTLY_LATER)
    if "from" in nightly:
        # `auto` was the default, and meant `read`, before a cut could be made from the log.
        nightly["from"] = _WAS_CALLED.get(nightly["from"], nightly["from"])
    for total in reconcile["control_totals"]:
        for key in ("hash", "min", "max"):
            if total[key] is None:
                del total[key]


def _leave_out(declared: dict[str, Any], plain: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in keys:
        if key in declared and declared[key] == plain[key]:
            del declared[key]


def _names(declarations: Declarations, sync: SyncSpec) -> tuple[str, ...]:
    """What the sync calls its tables, in the order declared."""
    limits = _limits(declarations, sync)
    return tuple(name_in_sync(entry.name, entry.as_, limits) for entry in sync.tables)


def _limits(declarations: Declarations, sync: SyncSpec) -> tuple[NameLimit, ...]:
    """Each once, so that a second destination of a kind changes nothing."""
    return tuple(dict.fromkeys(name_limit(declarations.destinations[name].kind) for name in sync.destinations))


def _source(spec: DeclaredSource, sync: SyncSpec, names: Sequence[str], limits: Sequence[NameLimit]) -> SourcePlan:
    places = {
        name: TablePlace.declared(entry.name, spec.namespace) for name, entry in zip(names, sync.tables, strict=True)
    }
    return SourcePlan(
        name=spec.source,
        kind=spec.kind,
        database=spec.database if isinstance(spec, UnloggedDatabase) else spec.namespace,
        reader=spec.connection,
        budget=_source_budget(spec.reading_budget) if spec.reading_budget else None,
        **_log_of(spec),
        name_limits=tuple((limit.length, limit.unit.value) for limit in limits),
        elsewhere=tuple(
            (name, place.text) for name, place in places.items() if place != TablePlace(spec.namespace, name)
        ),
        **spec.plan_fields(),
    )


_WITHOUT_LOG: Mapping[str, Any] = MappingProxyType(dict.fromkeys(("capture", "marker", "log_topic", "connector"), ""))


def _log_of(spec: DeclaredSource) -> Mapping[str, Any]:
    """What a plan says of a source's log."""
    if (log := spec.kept_log) is None:
        return _WITHOUT_LOG
    capture, marker = spec.logins_of_log
    return {
        "capture": capture,
        "marker": marker,
        "log_topic": f"seamline.{spec.source}.log",
        "connector": f"seamline-{spec.source}",
        "log_max_gb": log.max_gb,
        "log_keep_days": log.keep_days,
        "log_behind_max_gb": log.behind_max_gb or 0.0,
        "source_backlog_max_gb": log.source_backlog_max_gb or 0.0,
        "archive": _archive(log.archive) if log.archive else None,
    }


def _source_budget(spec: SourceBudget) -> SourceBudgetPlan:
    lag = spec.replica_lag_max
    return SourceBudgetPlan(
        spec.running_max or 0,
        lag.total_seconds() if lag else 0.0,
        spec.quiet_times,
        spec.timezone,
        spec.wait_max.total_seconds(),
    )


def _archive(spec: Archive) -> ArchivePlan:
    return ArchivePlan(spec.location, spec.connection, spec.keep_days or 0.0)


def _nightly(spec: Nightly, declarations: Declarations, sync: SyncSpec, names: Sequence[str]) -> NightlyPlan:
    entries = zip(names, sync.tables, strict=True)
    made_from, why_not = MadeFrom(spec.from_), spec.no_end_in_the_log(sync.tables)
    return NightlyPlan(
        timezone=spec.timezone,
        cut_off=spec.cut_off if isinstance(spec.cut_off, str) else MIDNIGHT,
        run_at_delay_minutes=seconds_of(spec.run_at) // 60,
        as_of_max_s=spec.as_of_max.total_seconds(),
        keep_days=spec.keep.days,
        keep_month_ends=spec.keep.month_ends,
        keep_versions_days=spec.keep.versions_days,
        verdict_by=spec.verdict_by or "",
        dates=BusinessDates(
            tuple(declarations.calendars[name].calendar_of() for name in spec.calendars),
            OpenRule(spec.business_date_if),
        ),
        closed_when=tuple(_closed_when(spec, declarations.sources[sync.source])),
        stages_by=tuple((stage, by) for stage, by in spec.stages_by.model_dump().items() if by is not None),
        # A day that the source closes itself ends when it says so, which the log need not show.
        made_from=MadeFrom.READ if made_from.uses_log and why_not else made_from,
        not_by_log=_not_by_log(declarations, sync, why_not) if made_from is MadeFrom.AUTO else (),
        cursors=tuple((name, entry.cursor) for name, entry in entries if entry.cursor and entry.parked is None),
    )


def _not_by_log(declarations: Declarations, sync: SyncSpec, why: str) -> tuple[str, ...]:
    """What keeps `from: auto` from the log whatever the log holds. `why`: where the end of a date is not there."""
    if why:
        return (why,)
    unfit = [
        f"{one.destination} ({one.kind}) cannot make a cut from the one before it"
        for one in (declarations.destinations[name] for name in sync.destinations)
        if holds_cuts(one.kind) and one.cut_source is CutSource.ROWS and not carries_cuts_on(one.kind)
    ]
    dated = [one.name for one in sync.tables if one.business_date and one.transform and not one.parked]
    if dated:
        unfit.append(f"{', '.join(dated)} has a `business_date` and a transform, so no rows of later dates are kept")
    return tuple(unfit)


def _closed_when(spec: Nightly, source: DeclaredSource) -> Iterator[DayClosed]:
    if flag := source.announced_by:
        yield DayClosed(ClosedBy.DELIVERY, flag)
    if isinstance(spec.cut_off, SystemDate):
        yield DayClosed(ClosedBy.SYSTEM_DATE, spec.cut_off.table, spec.cut_off.column)
    if (ready := spec.ready_when) is not None:
        said = {ClosedBy.SQL: ready.sql, ClosedBy.FILE: ready.file, ClosedBy.ASSET: ready.asset}
        every_s = ready.every.total_seconds()
        yield from (DayClosed(by, what, every_s=every_s) for by, what in said.items() if what is not None)


def _check_survey(declarations: Declarations, sync: SyncSpec, survey: Survey, transforms: Analysed) -> None:
    kinds = {name: declarations.destinations[name].kind for name in sync.destinations}
    carried = [
        (number, name) for number, name in enumerate(_names(declarations, sync)) if sync.tables[number].parked is None
    ]
    held: dict[str, Mapping[str, Table]] = {}
    found: dict[str, Sequence[tuple[Path_, str, str]]] = {}
    for destination in sync.destinations:
        made = _made_for(destination, sync, carried, transforms)
        held[destination] = _held(destination, sync, survey, carried, made)
        found[destination] = list(_misfits(sync, survey, carried, held[destination], made))
    misfits = (*_by_destination(found), *_keyless_misfits(survey, kinds, carried))
    faults = [declarations.fault(sync.sync, path, cause, cure) for path, cause, cure in misfits]
    faults += _faults_of_checks(declarations, sync.reconcile.expectations, held)
    for name in sync.destinations:
        unfit = declarations.destinations[name].misfits(held[name])
        faults += [declarations.destination_fault(name, path, cause, cure) for path, cause, cure in unfit]
    if faults:
        raise DeclarationsInvalid(faults)


def _faults_of_checks(
    declarations: Declarations, suite: str | None, held: Mapping[str, Mapping[str, Table]]
) -> Iterator[Fault]:
    """Checks of the suite that name a column which a table of a destination lacks. `held`: the tables by destination.
    What a query names is not known here, and neither are the columns of derived tables."""
    if suite is None:
        return
    checks = declarations.expectations[suite].checks
    found = {name: list(_misfits_of_checks(checks, tables)) for name, tables in held.items()}
    for (_, number, argument), cause, cure in _by_destination(found):
        yield declarations.check_fault(suite, int(number), str(argument), cause, cure)


def _misfits_of_checks(checks: Sequence[Check], held: Mapping[str, Table]) -> Iterator[tuple[Path_, str, str]]:
    for number, check in enumerate(checks):
        if check.table not in held:
            continue
        names = [column.name for column in held[check.table].columns]
        known = {name.casefold() for name in names}
        for argument in _COLUMN_ARGUMENTS:
            value = check.kwargs.get(argument)
            for column in value if isinstance(value, list) else [value]:
                # Great Expectations looks for it without regard to case and to quotes.
                if isinstance(column, str) and column.strip('"`[]').casefold() not in known:
                    what = f"table {check.table} has no column `{column}`"
                    yield ("checks", number, argument), what, guess(column, names)


def _made_for(
    destination: str, sync: SyncSpec, carried: Sequence[tuple[int, str]], transforms: Analysed
) -> dict[str, RowTransform]:
    """By table the analysed transform by which this destination holds it."""
    files = ((name, sync.tables[number].transform_at(destination)) for number, name in carried)
    found = ((name, transforms.get((name, file or ""))) for name, file in files)
    return {name: one for name, one in found if one is not None}


def _by_destination(found: Mapping[str, Sequence[tuple[Path_, str, str]]]) -> Iterator[tuple[Path_, str, str]]:
    """Each misfit once. `found`: those of each destination. One that is not met in all names those where it is."""
    for one in dict.fromkeys(one for each in found.values() for one in each):
        where = [f"`{name}`" for name, each in found.items() if one in each]
        path, cause, cure = one
        yield path, cause if len(where) == len(found) else f"in destination {', '.join(where)}: {cause}", cure


def _held(
    destination: str,
    sync: SyncSpec,
    survey: Survey,
    carried: Sequence[tuple[int, str]],
    transforms: Mapping[str, RowTransform],
) -> dict[str, Table]:
    """The tables as this destination holds them, without those whose transform could not be analysed."""
    definitions = {table.name: table for table in survey.tables}
    found = {name: one.planned for name, one in transforms.items()}
    declared = {name for number, name in carried if sync.tables[number].transform_at(destination)}
    unknown = declared - transforms.keys()
    return {name: found.get(name, table) for name, table in definitions.items() if name not in unknown}


def _misfits(
    sync: SyncSpec,
    survey: Survey,
    carried: Sequence[tuple[int, str]],
    held: Mapping[str, Table],
    transforms: Mapping[str, RowTransform],
) -> Iterator[tuple[Path_, str, str]]:
    """Place, cause and cure of everything that the sync says of tables and the source denies. `carried`: number and
    name of each table that is not parked: such a one may have any schema, or be gone."""
    definitions = {table.name: table for table in survey.tables}
    for number, name in carried:
        date = sync.tables[number].business_date
        problems = [problem for problem in survey.problems if problem.table == name]
        for problem in problems:
            yield ("tables", number), problem.what, problem.cure
        if name not in definitions and not problems:
            cure = "Was the file edited just now? Run again"
            yield ("tables", number), f"the source was not asked for `{name}`", cure
        elif name in held and date:
            wanted = _KINDS_THAT_HOLD[Holds(date.as_)]
            place = ("tables", number, "business_date", "column")
            yield from misfit(held[name], date.column, wanted, place, f"as: {date.as_}")
            yield from _computed_date(transforms.get(name), date.column, place)
        if name in held and (cursor := sync.tables[number].cursor):
            yield from misfit(held[name], cursor, _CURSORS, ("tables", number, "cursor"), "a cursor")
        yield from _unknown_sensitive(sync.tables[number], number, [held.get(name), definitions.get(name)])
    yield from measured_misfits(sync, held)
    for number, derived in enumerate(sync.derived):
        if derived.table is not None and derived.sum is not None:
            yield from _boundless(held.get(derived.table), derived.sum, ("derived", number, "sum"))


def _unknown_sensitive(
    entry: TableEntry, number: int, tables: Sequence[Table | None]
) -> Iterator[tuple[Path_, str, str]]:
    """A slip of the pen would show what it was to hide. Where a destination's transform drops the column, the source's
    table has it."""
    known = [column.name for table in tables if table for column in table.columns]
    for place, column in enumerate(entry.sensitive):
        if known and column not in known:
            where = ("tables", number, "sensitive", place)
            yield where, f"table {entry.name} has no column `{column}`", guess(column, known)


def _computed_date(transform: RowTransform | None, column: str, place: Path_) -> Iterator[tuple[Path_, str, str]]:
    """By its business date a row is read at the source, which has only its own columns."""
    if transform is None:
        return
    for made, one in zip(transform.planned.columns, transform.columns, strict=True):
        if made.name == column and one != Expression("column", one.type, value=column):
            what = f"column `{column}` is computed by {transform.file}: the source has no such dates"
            yield place, what, "Pass the source's column on under its name"


def _keyless_misfits(
    survey: Survey, kinds: Mapping[str, str], carried: Sequence[tuple[int, str]]
) -> Iterator[tuple[Path_, str, str]]:
    """Tables without a key, and destinations (by their kinds) that cannot keep such."""
    keyless = {table.name for table in survey.tables if not table.is_keyed}
    found = {name: keyless_refusal(kind) for name, kind in kinds.items()}
    for number, table in carried:
        for name, refused in found.items() if table in keyless else ():
            if refused is not None:
                what = f"table {table}: destination `{name}` ({kinds[name]}) {refused.what}"
                yield ("tables", number), what, refused.cure


def _boundless(table: Table | None, column: str, place: Path_) -> Iterator[tuple[Path_, str, str]]:
    """A sum that is stored needs a type that holds it, and so a column that says how large its values may be."""
    for found in table.columns if table else ():
        if found.name == column and found.kind is Kind.DECIMAL and not found.precision:
            yield place, f"column `{column}` is {found.source_type} without a precision", "Name another column"
