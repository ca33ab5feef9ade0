"""Builds the DAGs of a sync from its plan and from the one list of stages that `explain` prints as well."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    CronPartitionTimetable,
    MultipleCronTriggerTimetable,
    Param,
    PartitionedAssetTimetable,
    chain,
    get_parsing_context,
)

from seamline import settings
from seamline.domain.errors import ConfigError, SeamlineError
from seamline.domain.runs import WHOLE, RunKind
from seamline.plan.checks import ReconcileOnlyPlan
from seamline.plan.maintenance import CHORES
from seamline.plan.model import SyncPlan
from seamline.plan.stages import Stage, all_stages, concerned
from seamline.spec.notify import somebody_is_notified
from seamline.sync.stream_state import WATCHED_EVERY_S
from seamline_airflow import stage_tasks
from seamline_airflow.deadline import verdict_deadline
from seamline_airflow.nightly_form import form
from seamline_airflow.operators.maintenance import OPERATORS
from seamline_airflow.operators.nights import NightsCheckOperator
from seamline_airflow.operators.notify import NotifyOperator
from seamline_airflow.operators.step import StreamsCheckOperator
from seamline_airflow.run_context import BUSINESS_DATE, run_id_macro
from seamline_airflow.run_ends import RunOf
from seamline_airflow.timetable import BusinessDayTimetable

# Fixed: a DAG that is parsed twice is the same DAG. Runs before this date are made by backfill only.
_START = datetime(2020, 1, 1, tzinfo=UTC)
_RETRIES = {"owner": "seamline", "retries": 2, "retry_delay": timedelta(seconds=30)}
_TITLES = {
    "onboard": "onboard",
    "tables": "change the tables",
    "nightly": "nightly cut",
    "stream": "stream of the day",
    "reconcile": "reconcile live tables",
    "repair": "repair live tables",
}
_ABOUT = {
    "onboard": "Brings the tables into the destinations at one position of the source's log and lets the stream take "
    "over exactly there. Run it by hand, once for a new sync; again when its place in the log is lost.",
    "tables": "Brings the running streams to the declared list of tables: added ones are loaded and join at one place "
    "of the log, removed ones are put aside, those named in `again` are loaded once more in place. The others go on, "
    "untouched. Run it by hand after the list was edited.",
    "nightly": "Cuts the business date that has ended: all tables at one position, compared with the source at that "
    "very position, checked, then published in one step. A backfill over dates makes their cuts too; "
    "*Trigger* asks for the date, and can compare only.",
    "stream": "Stands for the stream of one business date. The stream itself lives in its stream host and does not "
    "depend on this run; this run is red when the stream died or lagged too much.",
    "repair": "Makes rows of the live tables that differ what the source has: planned, approved by a second person, "
    "applied where the stream stands, compared again. Run it by hand; the form names a destination, or a repair that "
    "is planned already.",
    "reconcile": "Compares the live tables with the source at one position, after the nightly cut of the newest date "
    "and on demand. Red on a break, and names it.",
}
_ABOUT_CUTS_ONLY = (
    "Finds out what the nights of this sync go by: its source is checked, and its tables are read from the catalogue. "
    "Loads nothing and starts no stream: there are no live tables. Run it by hand, once for a new sync, and again when "
    "its list of tables was edited."
)
_ABOUT_SEPARATE = (
    "Compares tables that another tool carries, between a view of the source and one of the destination. Red on a "
    "break, and on what was in flight: nobody waits for a match."
)
_ABOUT_MAINTENANCE = (
    "Gives back what nobody needs any more: of the log, the cuts, the destinations and the platform database."
)
_AGAIN = Param(
    [],
    type="array",
    items={"type": "string"},
    title="Tables to load again",
    description_md="Carried tables whose rows are read from the source once more and merged in place. Usually none.",
)
_DESTINATIONS = Param(
    [],
    type="array",
    items={"type": "string"},
    title="Destinations to load",
    description_md="Empty: those that were declared since the sync was onboarded; where there are none, all.",
)
_WHOLE = Param(
    False,  # noqa: FBT003 (the default of a box to tick)
    type="boolean",
    title="All rows",
    description_md="Read all rows, also those that the log has not touched since the last MATCH.",
)
_LABEL = Param(
    None,
    type=["null", "string"],
    format="date",
    title="Business date",
    description_md="Label of the report; the live tables of now are compared in any case.",
)
_REPAIR = {
    "destination": Param("", type="string", title="Destination", description_md="Empty: the one that differs."),
    "compared": Param(
        "", type="string", title="Comparison", description_md="The run that found the breaks. Empty: the newest."
    ),
    "repair": Param(
        "", type="string", title="Repair", description_md="One that is planned already. Empty: this run plans one."
    ),
    "reason": Param("", type="string", title="Reason", description_md="Why these rows are to be changed, in words."),
}
_RUN = "{{ seamline_run(dag_run, params) }}"
_BEHIND_THE_GATE = ("publish", "approve", "publish_rest", "complete")


def declarations_folder() -> Path:
    return settings.load().declarations


@dataclass(frozen=True, slots=True)
class Declared:
    """The syncs that can have DAGs, and why the others cannot."""

    plans: tuple[SyncPlan, ...]
    faults: tuple[str, ...]


def declared_syncs(outcomes: Mapping[Path, Any], compile_plan: Callable[[Any, str], SyncPlan]) -> Declared:
    """Compile what could be read, each sync by itself: a broken one must not take the others away."""
    plans, faults = [], []
    for file, outcome in outcomes.items():
        try:
            if isinstance(outcome, Exception):
                raise outcome
            plans.append(compile_plan(outcome, file.stem))
        except SeamlineError as error:
            faults.append(str(error))
    return Declared(tuple(plans), tuple(faults))


def requested_sync() -> str | None:
    """A task's process asks for one DAG only, and so for one sync; None everywhere else."""
    dag_id = get_parsing_context().dag_id
    return None if dag_id is None else dag_id.rpartition("__")[0]


def sync_dags(plan: SyncPlan) -> dict[str, DAG]:
    """The DAGs of one sync by their ids; only the requested one in a task's process."""
    wanted = get_parsing_context().dag_id
    return {
        f"{plan.sync}__{kind}": _sync_dag(plan, kind, stages)
        for kind, stages in all_stages(plan).items()
        if wanted in (None, f"{plan.sync}__{kind}")
    }


def raise_faults(declared: Declared) -> None:
    """Show the faults of broken declarations as one import error. In a task's process nobody would see it."""
    if declared.faults and requested_sync() is None:
        raise ConfigError("\n".join(declared.faults))


def streams_dag() -> DAG:
    """`seamline__streams`: the one look at all streams that outlives every host."""
    with DAG(
        "seamline__streams",
        dag_display_name="All streams: alive, moving, within their lag",
        description="Looks at every wanted stream and its host, reports, escalates, starts what nobody else could.",
        schedule=f"*/{WATCHED_EVERY_S / 60:.0f} * * * *",
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        tags=["seamline", "stream"],
        doc_md=StreamsCheckOperator.__doc__,
        # The next look comes in two minutes: that is the retry.
        default_args={**_RETRIES, "retries": 0},
    ) as dag:
        StreamsCheckOperator(
            task_id="look",
            task_display_name="Look at every stream",
            priority_weight=100,
            weight_rule="absolute",
            execution_timeout=timedelta(minutes=5),
        )
        NightsCheckOperator(
            task_id="nights",
            task_display_name="Look at the nights' hours and calendars",
            doc_md=NightsCheckOperator.__doc__,
            priority_weight=80,
            weight_rule="absolute",
            execution_timeout=timedelta(minutes=5),
        )
        # Beside the look and never behind it: neither waits for the other.
        if somebody_is_notified(declarations_folder()):
            NotifyOperator(
                task_id="notify",
                task_display_name="Send mails about what waits for people",
                doc_md=NotifyOperator.__doc__,
                execution_timeout=timedelta(minutes=5),
            )
    return dag


def maintenance_dag() -> DAG:
    """`seamline__maintenance`: what nobody needs any more goes, of all syncs."""
    steps = "\n".join(f"{number}. **{chore.title}** – {chore.does}" for number, chore in enumerate(CHORES, 1))
    with DAG(
        "seamline__maintenance",
        dag_display_name="Maintenance: the log, the cuts and the records end",
        description=_ABOUT_MAINTENANCE,
        # Not at the full hour, at which nights begin.
        schedule="23 * * * *",
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        # One after the other, for a small machine; none depends on another.
        max_active_tasks=1,
        is_paused_upon_creation=False,
        tags=["seamline", "maintenance"],
        doc_md=f"{_ABOUT_MAINTENANCE}\n\n{steps}\n\nEvery step may be cleared and run again.\n",
        default_args=_RETRIES,
    ) as dag:
        for chore in CHORES:
            OPERATORS[chore.id](
                task_id=chore.id,
                task_display_name=chore.title,
                doc_md=f"{chore.does}\n",
                priority_weight=1,
                weight_rule="absolute",
                execution_timeout=timedelta(minutes=30),
            )
    return dag


def cut_asset(plan: SyncPlan) -> Asset:
    """Published cuts of a sync; its partition is the business date."""
    return Asset(name=f"{plan.sync}.cut", uri=f"seamline://{plan.sync}/cut", group="seamline")


def _sync_dag(plan: SyncPlan, kind: str, stages: Sequence[Stage]) -> DAG:
    with DAG(
        f"{plan.sync}__{kind}",
        dag_display_name=f"{plan.sync}: {_TITLES[kind]}",
        description=_about(plan, kind).partition(". ")[0] + ".",
        start_date=_START,
        catchup=False,
        max_active_runs=_runs_at_once(plan, kind),
        tags=["seamline", plan.sync, kind],
        doc_md=_doc(plan, kind, stages),
        user_defined_macros={"seamline_run": run_id_macro(plan.sync, _run_kind(kind))},
        **_ends(plan, kind),
        **_schedule(plan, kind),
    ) as dag:
        _chain_stages(plan, kind, stages)
    return dag


def _schedule(plan: SyncPlan, kind: str) -> dict[str, Any]:
    timezone = plan.nightly.timezone if plan.nightly else "UTC"
    # What only a person starts waits for nobody else.
    if kind == "onboard":
        parameters = {"params": {"destinations": _DESTINATIONS}} if len(plan.streamed.destinations) > 1 else {}
        return {"schedule": None, "is_paused_upon_creation": False, **parameters}
    if kind == "tables":
        return {"schedule": None, "is_paused_upon_creation": False, "params": {"again": _AGAIN}}
    if kind == "repair":
        return {"schedule": None, "is_paused_upon_creation": False, "params": _REPAIR}
    if kind == "stream":
        return {"schedule": CronPartitionTimetable("0 0 * * *", timezone=timezone, key_format="%Y-%m-%d")}
    if kind == "nightly" and plan.nightly:
        delay = plan.nightly.run_at_delay_minutes
        start = BusinessDayTimetable(timezone=timezone, delay_minutes=delay, dates=plan.nightly.dates)
        return {"schedule": start, "deadline": verdict_deadline(plan), "params": form(plan)}
    if plan.reconcile_only is not None:
        return {"schedule": _daily(plan.reconcile_only), "params": {BUSINESS_DATE: _LABEL}}
    schedule = PartitionedAssetTimetable(assets=cut_asset(plan)) if plan.nightly else None
    in_part = {WHOLE: _WHOLE} if plan.reconcile.rotate > 1 else {}
    return {"schedule": schedule, "params": {BUSINESS_DATE: _LABEL, **in_part}}


def _daily(declared: ReconcileOnlyPlan) -> MultipleCronTriggerTimetable | None:
    lines = [f"{int(at[3:])} {int(at[:2])} * * *" for at in declared.at]
    return MultipleCronTriggerTimetable(*lines, timezone=declared.timezone) if lines else None


def _runs_at_once(plan: SyncPlan, kind: str) -> int:
    """A night that waits for a person's decision about one destination is not to delay the next one of the others."""
    waits_for_a_person = kind == "nightly" and len(plan.destinations) > 1 and plan.reconcile.on_break == "ask"
    return 2 if waits_for_a_person else 1


def _ends(plan: SyncPlan, kind: str) -> dict[str, Any]:
    """What is done when a task begins and when it, or the run as a whole, fails."""
    if kind in ("stream", "repair"):
        # What became of a repair is kept with it.
        return {"default_args": _RETRIES}
    mine = RunOf(plan.sync, _run_kind(kind))
    tasks = {**_RETRIES, "on_execute_callback": mine.goes_on, "on_failure_callback": mine.failed}
    return {"default_args": tasks, "on_failure_callback": mine.ended}


def _about(plan: SyncPlan, kind: str) -> str:
    if plan.reconcile_only is not None:
        return _ABOUT_SEPARATE
    return _ABOUT_CUTS_ONLY if kind == "onboard" and not plan.streamed.destinations else _ABOUT[kind]


def _run_kind(kind: str) -> RunKind:
    """A stream's DAG has no run of its own in the platform database; its macro is never rendered."""
    return RunKind.RECONCILE if kind == "stream" else RunKind(kind)


def _chain_stages(plan: SyncPlan, kind: str, stages: Sequence[Stage]) -> None:
    build = _BUILDERS[kind]
    about = concerned(plan, kind)
    tasks = {stage.id: build(plan, stage, **_task_arguments(about, stage)) for stage in stages}
    if "check" in tasks:
        # Beside the watch: what it finds must not end it.
        chain(tasks["want"], [tasks["check"], tasks["watch"]], tasks["report"])
        return
    if "publish_rest" in tasks:
        # What is clean is published while a person is asked about the rest.
        asked = [tasks["approve"]] if "approve" in tasks else []
        chain(*(task for name, task in tasks.items() if name not in _BEHIND_THE_GATE))
        chain(tasks["gate"], [tasks["publish"], *asked], tasks["publish_rest"], tasks["complete"])
        tasks["publish"] >> tasks["complete"]
        return
    chain(*tasks.values())
    if "gate" in tasks and "approve" in tasks:
        # Without breaks nobody is asked, and `publish` follows the decision itself.
        tasks["gate"] >> tasks["publish"]


def _task_arguments(plan: SyncPlan, stage: Stage) -> dict[str, Any]:
    return {
        "task_id": stage.id,
        "task_display_name": stage.title,
        "doc_md": f"{stage.does}\n",
        **stage_tasks.isolation(plan, stage),
    }


def _doc(plan: SyncPlan, kind: str, stages: Sequence[Stage]) -> str:
    steps = "\n".join(f"{number}. **{stage.title}** – {stage.does}" for number, stage in enumerate(stages, 1))
    destinations = ", ".join(f"`{destination.name}`" for destination in concerned(plan, kind).destinations)
    tables = ", ".join(f"`{table.name}`" for table in plan.tables)
    tables += "".join(f"; `{table.name}` is parked" for table in plan.parked)
    return f"""{_about(plan, kind)}

Source `{plan.source.name}` → {destinations}; tables {tables}.

{steps}

Every step may be cleared and run again. `./seamline explain {plan.sync}` prints these steps.
"""


_BUILDERS: dict[str, Callable[..., Any]] = {
    "onboard": lambda plan, stage, **task: stage_tasks.onboard_task(plan, stage, _RUN, **task),
    "tables": lambda plan, stage, **task: stage_tasks.tables_task(plan, stage, _RUN, **task),
    "nightly": lambda plan, stage, **task: stage_tasks.nightly_task(plan, stage, _RUN, cut_asset(plan), **task),
    "stream": lambda plan, stage, **task: stage_tasks.stream_task(plan, stage, **task),
    "reconcile": lambda plan, stage, **task: stage_tasks.reconcile_task(plan, stage, _RUN, **task),
    "repair": lambda plan, stage, **task: stage_tasks.repair_task(plan, stage, _RUN, **task),
}
