"""A plan as JSON text, and back: what crosses from Airflow to Spark, through the platform database."""

import dataclasses
import json
from functools import lru_cache
from typing import Any

from seamline.domain import business_dates
from seamline.domain.catalogue import table_from_json, table_to_json
from seamline.domain.cut_job import DERIVED_ROWS_MAX, job_from_json
from seamline.domain.day_closed import ClosedBy, DayClosed
from seamline.domain.errors import ConfigError
from seamline.domain.made_from import MadeFrom
from seamline.domain.measure import Measure
from seamline.domain.repair import RepairLimits
from seamline.domain.row_transform import transform_from_json, transform_to_json
from seamline.domain.staged_cut import CutSource
from seamline.plan.checks import (
    BudgetPlan,
    ControlTotalPlan,
    ReconcileOnlyPlan,
    ReconcilePlan,
    RulePlan,
    Says,
    SourceBudgetPlan,
)
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


def plan_to_json(plan: SyncPlan) -> str:
    """Canonical JSON text: sorted keys, so that equal plans have equal text."""
    document = dataclasses.asdict(_without_dates(plan))
    for table, entry in zip(plan.tables, document["tables"], strict=True):
        entry["table"] = table_to_json(table.table) if table.table else None
        # Plans are compared as texts: one without a transform has the text that it had before there were any.
        del entry["transform"], entry["ahead_of"]
        if table.transform is not None:
            entry["transform"] = transform_to_json(table.transform)
    for destination, entry in zip(plan.destinations, document["destinations"], strict=True):
        del entry["transforms"]
        _without_defaults(destination, entry, "versioned", "rows_apart")
        if destination.transforms:
            pairs = ((name, one and transform_to_json(one)) for name, one in destination.transforms)
            entry["transforms"] = [list(pair) for pair in pairs]
    for entry in document["derived"]:
        if entry["job"] is None:
            del entry["job"]
    _shorten_nightly(plan.nightly or NightlyPlan(), document["nightly"] or {})
    if plan.reconcile_only is None:
        del document["reconcile_only"]
    _without_defaults(
        plan.source, document["source"], "log_behind_max_gb", "source_backlog_max_gb", "archive", "budget"
    )
    _without_defaults(plan.stream, document["stream"], "cut_off_behind_gb")
    _shorten(plan.reconcile, document["reconcile"])
    return json.dumps(document, sort_keys=True, ensure_ascii=False)


def _without_defaults(part: SourcePlan | StreamPlan | DestinationPlan, document: dict[str, Any], *names: str) -> None:
    """As above, of keys that were added later."""
    defaults = {field.name: field.default for field in dataclasses.fields(part)}
    for name in names:
        if document[name] == defaults[name]:
            del document[name]


def _without_dates(plan: SyncPlan) -> SyncPlan:
    """Its calendars are hundreds of days, of which `asdict` would copy each."""
    if plan.nightly is None:
        return plan
    return dataclasses.replace(plan, nightly=dataclasses.replace(plan.nightly, dates=business_dates.EVERY_DAY))


def _shorten_nightly(plan: NightlyPlan, document: dict[str, Any]) -> None:
    """As above, of a sync without calendars whose nights wait for nothing and are read."""
    document["dates"] = business_dates.to_json(plan.dates)
    for name in ("dates", "closed_when", "stages_by", "made_from", "cursors", "not_by_log"):
        if getattr(plan, name) == getattr(NightlyPlan(), name):
            document.pop(name, None)


def _shorten(plan: ReconcilePlan, document: dict[str, Any]) -> None:
    """As above: without rules, and with plain sums alone, it has the text that it had before there were others."""
    plain = ReconcilePlan()
    for name in ("rules", "repair", "budget", "tolerances", "by_log", "rotate"):
        if getattr(plan, name) == getattr(plain, name):
            del document[name]
    for total, entry in zip(plan.control_totals, document["control_totals"], strict=True):
        if total == ControlTotalPlan(total.table, total.column, total.by):
            del entry["measure"], entry["further"], entry["called"]


def plan_from_json(text: str) -> SyncPlan:
    """The inverse of `plan_to_json`. ConfigError: another version of Seamline has written it, or nobody has."""
    document: Any = None
    try:
        document = json.loads(text)
        return _plan(document)
    except (ValueError, LookupError, TypeError, AttributeError) as exc:
        raise ConfigError(
            f"the stored plan cannot be read: {type(exc).__name__}: {' '.join(str(exc).split())}",
            hint="run the DAG `<sync>__onboard` or `<sync>__tables` by the installed version, which writes it again",
            sync=str(document.get("sync", "")) if isinstance(document, dict) else "",
        ) from exc


@lru_cache(maxsize=1024)
def readable_plan(text: str) -> SyncPlan | None:
    """For who looks at the plans of all streams, every few seconds. None where a plan cannot be read: its own stream
    says so as its failure, and the others go on."""
    try:
        return plan_from_json(text)
    except ConfigError:
        return None


def _plan(d: dict[str, Any]) -> SyncPlan:
    return SyncPlan(
        sync=d["sync"],
        source=_source_plan(d["source"]),
        destinations=tuple(_destination_plan(entry) for entry in d["destinations"]),
        tables=tuple(_table_plan(entry) for entry in d["tables"]),
        guarantee=d["guarantee"],
        stream=_stream_plan(d["stream"]),
        nightly=_nightly_plan(d["nightly"]) if d["nightly"] else None,
        reconcile=ReconcilePlan(
            tuple(map(_total_plan, d["reconcile"]["control_totals"])),
            d["reconcile"]["expectations"],
            d["reconcile"]["on_break"],
            tuple(d["reconcile"].get("approvers", ())),
            # Plans that were written before these could be declared have no such keys.
            **{name: d["reconcile"][name] for name in ("wait_max_s", "attempts", "rotate") if name in d["reconcile"]},
            rules=tuple(map(_rule_plan, d["reconcile"].get("rules", ()))),
            repair=RepairLimits(**d["reconcile"].get("repair", {})),
            budget=BudgetPlan(**budget) if (budget := d["reconcile"].get("budget")) else None,
            tolerances=tuple(d["reconcile"].get("tolerances", ())),
            by_log=tuple(d["reconcile"].get("by_log", ())),
        ),
        derived=tuple(map(_derived_plan, d["derived"])),
        config_hash=d["config_hash"],
        # Plans that were written before tables could be parked have no such key.
        parked=tuple(ParkedTable(t["name"], t["reason"]) for t in d.get("parked", ())),
        reconcile_only=_reconcile_only_plan(d.get("reconcile_only")),
    )


def _stream_plan(entry: dict[str, Any]) -> StreamPlan:
    pairs = tuple((name, size) for name, size in entry.get("cut_off_behind_gb", ()))
    return StreamPlan(**{**entry, "cut_off_behind_gb": pairs})


def _nightly_plan(entry: dict[str, Any]) -> NightlyPlan:
    # Plans that were written before these could be declared have no such keys.
    more: dict[str, Any] = {"dates": business_dates.from_json(entry["dates"])} if "dates" in entry else {}
    closed = tuple(DayClosed(**{**one, "by": ClosedBy(one["by"])}) for one in entry.get("closed_when", ()))
    stages = tuple((stage, by) for stage, by in entry.get("stages_by", ()))
    more["made_from"] = MadeFrom(entry.get("made_from", MadeFrom.READ))
    more["cursors"] = tuple((table, column) for table, column in entry.get("cursors", ()))
    more["not_by_log"] = tuple(entry.get("not_by_log", ()))
    return NightlyPlan(**{**entry, **more, "closed_when": closed, "stages_by": stages})


def _reconcile_only_plan(entry: dict[str, Any] | None) -> ReconcileOnlyPlan | None:
    return ReconcileOnlyPlan(**{**entry, "at": tuple(entry["at"])}) if entry else None


def _total_plan(entry: dict[str, Any]) -> ControlTotalPlan:
    more = {key: entry[key] for key in ("called",) if key in entry}
    if "measure" in entry:
        more |= {"measure": Measure(entry["measure"]), "further": tuple(entry["further"])}
    return ControlTotalPlan(entry["table"], entry["column"], tuple(entry["by"]), **more)


def _rule_plan(entry: dict[str, Any]) -> RulePlan:
    lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
    movements = _total_plan(entry["movements"]) if entry["movements"] else None
    return RulePlan(**{**entry, **lists, "says": Says(entry["says"]), "movements": movements})


def _source_plan(entry: dict[str, Any]) -> SourcePlan:
    # Plans that were written before tables could lie elsewhere have no such keys.
    names = ("elsewhere", "name_limits", "options")
    pairs = {key: tuple((one, other) for one, other in entry.get(key, ())) for key in names}
    archive = ArchivePlan(**entry["archive"]) if entry.get("archive") else None
    known = {"databases": tuple(entry.get("databases", ())), "archive": archive, "budget": _source_budget(entry)}
    return SourcePlan(**{**entry, **pairs, **known})


def _source_budget(entry: dict[str, Any]) -> SourceBudgetPlan | None:
    if not (budget := entry.get("budget")):
        return None
    return SourceBudgetPlan(**{**budget, "quiet": tuple((begins, ends) for begins, ends in budget["quiet"])})


def _destination_plan(entry: dict[str, Any]) -> DestinationPlan:
    # Plans of before 0.2.0 have PostgreSQL's word for it, and say nothing of loads of one table that differ.
    named = {"namespace" if key == "schema" else key: value for key, value in entry.items()}
    pairs = {key: tuple((one, other) for one, other in entry.get(key, ())) for key in ("origins", "options")}
    source = CutSource(entry.get("cut_source", CutSource.ROWS))
    transforms = tuple((name, one and transform_from_json(one)) for name, one in entry.get("transforms", ()))
    versioned = tuple(entry.get("versioned", ()))
    return DestinationPlan(**{**named, **pairs, "cut_source": source, "transforms": transforms, "versioned": versioned})


def _derived_plan(entry: dict[str, Any]) -> DerivedTablePlan:
    # Plans that were written before there were jobs, or a limit of rows, have no such key.
    job = job_from_json(entry["job"]) if "job" in entry else None
    rows_max = entry.get("rows_max", DERIVED_ROWS_MAX)
    return DerivedTablePlan(entry["name"], entry["table"], entry["column"], tuple(entry["by"]), job, rows_max)


def _table_plan(entry: dict[str, Any]) -> TablePlan:
    return TablePlan(
        entry["name"],
        BusinessDate(**entry["business_date"]) if entry["business_date"] else None,
        table_from_json(entry["table"]) if entry["table"] else None,
        transform_from_json(entry["transform"]) if "transform" in entry else None,
    )
