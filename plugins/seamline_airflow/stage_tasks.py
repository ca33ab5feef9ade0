"""Which operator does which stage. A stage without an operator fails the build, so that the two lists cannot part."""

from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, TriggerRule
from airflow.sdk.execution_time.hitl import HITLUser

from seamline import settings
from seamline.domain.day_closed import ClosedBy
from seamline.domain.errors import InvariantViolated
from seamline.plan.document import plan_to_json
from seamline.plan.model import SyncPlan
from seamline.plan.pools import source_pool, writing_pool
from seamline.plan.stages import RunsIn, Stage
from seamline_airflow.operators.approval import CutApprovalOperator
from seamline_airflow.operators.gate import GateOperator
from seamline_airflow.operators.gx_check import GXCheckOperator
from seamline_airflow.operators.publish_cut import CompleteCutOperator, PublishCutOperator, PublishRestOperator
from seamline_airflow.operators.repair import ApplyRepairOperator, PlanRepairOperator
from seamline_airflow.operators.run_jobs import (
    CompareJobOperator,
    CutJobOperator,
    JoinJobOperator,
    OpenNightlyOperator,
    SnapshotJobOperator,
)
from seamline_airflow.operators.spark_job import SparkJobOperator
from seamline_airflow.operators.step import (
    CaptureOperator,
    DayReportOperator,
    EnableOperator,
    PreflightOperator,
    PublishOperator,
    SourceCheckOperator,
    StartStreamOperator,
    TablesPreflightOperator,
    VerdictsOperator,
    WantStreamOperator,
)
from seamline_airflow.sensors.cutover_sensor import CutoverSensor
from seamline_airflow.sensors.day_closed_sensor import DayClosedSensor
from seamline_airflow.sensors.repair_approved import RepairApprovedSensor
from seamline_airflow.sensors.stream_watch import StreamWatchSensor

# Absolute weights, so that a long chain of tasks does not outrank a short urgent one.
_WEIGHTS = {
    "want": 90,
    "watch": 90,
    "report": 80,
    "publish": 60,
    "publish_rest": 60,
    "join": 60,
    "apply": 60,
    "start_stream": 60,
    "open": 50,
    "cut": 40,
    "compare": 20,
}
_WEIGHT = 30
_CUTOVER_TIMEOUT = timedelta(hours=6)
_APPROVAL_TIMEOUT = timedelta(hours=24)
_REPAIR_TIMEOUT = timedelta(days=7)
_LOOKS_FOR_APPROVAL = timedelta(seconds=20)


def isolation(plan: SyncPlan, stage: Stage) -> dict[str, Any]:
    """Pool and weight of a stage. Reads are bounded per source, writes per destination or, where a task writes several,
    together."""
    task: dict[str, Any] = {"priority_weight": _WEIGHTS.get(stage.id, _WEIGHT), "weight_rule": "absolute"}
    pool = ""
    if stage.id in ("publish", "publish_rest", "join", "apply"):
        pool = writing_pool(plan)
    elif stage.runs_in is RunsIn.SPARK or stage.id in ("preflight", "capture", "check", "plan"):
        pool = source_pool(plan.source.name)
    # The settings last: a sync has some thirty stages, and the DAG processor many syncs.
    if pool and settings.load().has_pools:
        task["pool"] = pool
    return task


def onboard_task(plan: SyncPlan, stage: Stage, run: str, **task: Any) -> Any:
    if stage.id == "preflight":
        return PreflightOperator(run=run, plan_json=plan_to_json(plan), **task)
    run = _opened_by("preflight")
    match stage.id:
        case "snapshot":
            return SnapshotJobOperator(job=job_path(stage), run=run, **task)
        case "capture":
            return CaptureOperator(run=run, **task)
        case "publish":
            return PublishOperator(run=run, **task)
        case "start_stream":
            return StartStreamOperator(run=run, **task)
        case "cutover":
            return CutoverSensor(run=run, timeout=_CUTOVER_TIMEOUT.total_seconds(), **task)
        case "enable":
            return EnableOperator(run=run, **task)
    return _job(stage, run, **task)


def tables_task(plan: SyncPlan, stage: Stage, run: str, **task: Any) -> Any:
    match stage.id:
        case "preflight":
            return TablesPreflightOperator(run=run, plan_json=plan_to_json(plan), **task)
        case "join":
            return JoinJobOperator(job=job_path(stage), run=_opened_by("preflight"), **task)
        case "verdicts":
            return VerdictsOperator(run=_opened_by("preflight"), scope="live", **task)
    return onboard_task(plan, stage, run, **task)


def nightly_task(plan: SyncPlan, stage: Stage, run: str, cut: Asset, **task: Any) -> Any:
    if stage.id == "open":
        return OpenNightlyOperator(plan_json=plan_to_json(plan), **task)
    if stage.id == "ready":
        return _day_closed(plan, run=_opened_by("open"), **task)
    if stage.id == "cut":
        return CutJobOperator(job=job_path(stage), run=run, plan_json=plan_to_json(plan), **task)
    return _judging_task(plan, stage, _opened_by("cut"), cut, **task)


def _day_closed(plan: SyncPlan, **task: Any) -> Any:
    wanted = plan.nightly.closed_when if plan.nightly else ()
    assets = [one for one in wanted if one.by is ClosedBy.ASSET]
    # For an asset every look is a task.
    every_s = min(one.every_s for one in assets or wanted)
    return DayClosedSensor(assets=[one.what for one in assets], poll_s=every_s, **task)


def _judging_task(plan: SyncPlan, stage: Stage, run: str, cut: Asset, **task: Any) -> Any:
    """Of what a nightly run has staged."""
    match stage.id:
        case "verdicts":
            return VerdictsOperator(run=run, scope="cut", **task)
        case "expectations":
            return GXCheckOperator(run=run, suite=plan.reconcile.expectations, on_mismatch="return", **task)
        case "gate":
            return GateOperator(run=run, on_break=plan.reconcile.on_break, **task)
        case "approve":
            return _approval(plan, run, **task)
        case "publish":
            rule = TriggerRule.ALL_SUCCESS if len(plan.destinations) > 1 else _unless_failed(plan)
            return PublishCutOperator(run=run, outlets=[cut], trigger_rule=rule, **task)
        case "publish_rest":
            return PublishRestOperator(run=run, outlets=[cut], trigger_rule=_unless_failed(plan), **task)
        case "complete":
            rule = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
            return CompleteCutOperator(run=run, trigger_rule=rule, **task)
    raise _unknown(stage)


def stream_task(plan: SyncPlan, stage: Stage, **task: Any) -> Any:
    destinations = [destination.name for destination in plan.streamed.destinations]
    timezone = plan.nightly.timezone if plan.nightly else "UTC"
    match stage.id:
        case "want":
            return WantStreamOperator(plan_json=plan_to_json(plan), **task)
        case "check":
            return SourceCheckOperator(plan_json=plan_to_json(plan), **task)
        case "watch":
            return StreamWatchSensor(
                sync=plan.sync,
                destinations=destinations,
                timezone=timezone,
                retries=10,
                retry_delay=timedelta(minutes=2),
                **task,
            )
        case "report":
            return DayReportOperator(
                sync=plan.sync,
                destinations=destinations,
                timezone=timezone,
                trigger_rule=TriggerRule.ALL_DONE,
                **task,
            )
    raise _unknown(stage)


def reconcile_task(plan: SyncPlan, stage: Stage, run: str, **task: Any) -> Any:
    match stage.id:
        case "compare":
            return CompareJobOperator(job=job_path(stage), run=run, plan_json=plan_to_json(plan), **task)
        case "verdicts":
            return VerdictsOperator(run=_opened_by("compare"), scope="live", **task)
    raise _unknown(stage)


def repair_task(plan: SyncPlan, stage: Stage, run: str, **task: Any) -> Any:
    match stage.id:
        case "plan":
            return PlanRepairOperator(sync=plan.sync, run=run, **task)
        case "approve":
            return RepairApprovedSensor(
                run=_opened_by("plan"),
                mode="reschedule",
                poke_interval=_LOOKS_FOR_APPROVAL.total_seconds(),
                timeout=_REPAIR_TIMEOUT.total_seconds(),
                **task,
            )
        case "apply":
            return ApplyRepairOperator(run=_opened_by("plan"), **task)
        case "verdicts":
            return VerdictsOperator(run=_opened_by("plan"), scope="live", **task)
    raise _unknown(stage)


def _opened_by(task_id: str) -> str:
    """The run's name, from the task that opened it."""
    return f"{{{{ ti.xcom_pull(task_ids='{task_id}') }}}}"


def job_path(stage: Stage) -> str:
    return f"spark_jobs/{stage.job}.py"


def _job(stage: Stage, run: str, **task: Any) -> Any:
    if stage.runs_in is not RunsIn.SPARK:
        raise _unknown(stage)
    return SparkJobOperator(job=job_path(stage), run=run, **task)


def _approval(plan: SyncPlan, run: str, **task: Any) -> Any:
    return CutApprovalOperator(
        run=run,
        approvers=plan.reconcile.approvers,
        subject=f"Publish a cut of {plan.sync} although it is not clean?",
        response_timeout=_APPROVAL_TIMEOUT,
        assigned_users=[HITLUser(id=name, name=name) for name in plan.reconcile.approvers] or None,
        **task,
    )


def _unless_failed(plan: SyncPlan) -> TriggerRule:
    """Behind a question that need not have been asked."""
    is_asked = plan.reconcile.on_break == "ask"
    return TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS if is_asked else TriggerRule.ALL_SUCCESS


def _unknown(stage: Stage) -> InvariantViolated:
    return InvariantViolated(f"no operator does the stage {stage.id}")
