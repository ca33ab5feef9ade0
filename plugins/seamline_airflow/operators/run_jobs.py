"""Spark jobs that begin a run: they write it down before the driver starts."""

from datetime import date
from logging import INFO, WARNING
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from seamline.domain.decision import DECISION
from seamline.domain.errors import Refused
from seamline.domain.runs import (
    ASKED_BY,
    EXPECTATIONS,
    MODE,
    PUBLISH,
    REASON,
    RunKind,
    RunState,
)
from seamline.plan.document import plan_from_json
from seamline.plan.model import SyncPlan
from seamline.sync.delivered import TAKE_IT_AGAIN, in_words, kept_in
from seamline.sync.fatal_problems import refuse_fatal
from seamline_airflow import onboarding, parts, runs
from seamline_airflow.errors import task_errors
from seamline_airflow.one_run_per_date import alone
from seamline_airflow.operators.spark_job import SparkJobOperator
from seamline_airflow.operators.step import log_problems
from seamline_airflow.others_go_on import others_go_on
from seamline_airflow.run_context import business_date, follows_a_cut, run_id


class OpenNightlyOperator(BaseOperator):
    """Refuse, before anything is read, what cannot be cut or was asked wrongly; write the run down with what was asked.

    Its name is made here and not in a template: what is wrong with a date would fail there, and be tried again.
    """

    def __init__(self, *, plan_json: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_json = plan_json

    def execute(self, context: Any) -> str:
        plan = plan_from_json(self.plan_json)
        with task_errors(), parts.platform() as store:
            run = runs.take_of(store, run_id(context, sync=plan.sync, kind=RunKind.NIGHTLY))
            alone(context, store, self.log, lambda: runs.open_nightly(context, store, plan, run))
            opened = store.run(run)
            for name in sorted(plan.cut.destination_names - opened.plan.destination_names):
                self.log.warning("%s gets no cut: run %s first", name, runs.way_in(plan, name))
            result = opened.result
            self.log.info(
                "%s of %s, asked by %s: %s", result[MODE], run, result[ASKED_BY] or "-", result[REASON] or "-"
            )
        return run


class CutJobOperator(SparkJobOperator):
    """The nightly job: all tables of the date at one position, staged and compared. Refused until onboarded. Skipped,
    with all that follow, where a cut of the very delivery is in force and is well."""

    def __init__(self, *, plan_json: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_json = plan_json

    def execute(self, context: Any) -> Any:
        with task_errors(), parts.platform() as store:
            self.name_run(runs.take_of(store, self.run))
            plan = plan_from_json(self.plan_json)
            alone(context, store, self.log, lambda: runs.open_nightly(context, store, plan, self.run))
            # What was checked and decided is about what is staged now, and that goes.
            store.put_result(self.run, EXPECTATIONS, None)
            store.put_result(self.run, DECISION, None)
            parts.reach("dag.state_written")
        super().execute(context)
        self._skip_what_is_in_force()
        return self.run

    def _skip_what_is_in_force(self) -> None:
        """Ends the run well, with all that would come behind it, where its job has found nothing to take."""
        with task_errors(), parts.platform() as store:
            run = store.run(self.run)
            kept = kept_in(run)
            for one in kept.values():
                self.log.log(WARNING if one.changed else INFO, "%s", one.why)
            if kept and not run.taking.plan.destinations:
                store.finish_run(self.run, state=RunState.SUCCEEDED)
                raise AirflowSkipException(f"{in_words(kept)}; {TAKE_IT_AGAIN}")


class SnapshotJobOperator(SparkJobOperator):
    """Onboarding's job: all tables at one position, staged and proven. Refused once its run has published."""

    def execute(self, context: Any) -> Any:
        with task_errors(), parts.platform() as store:
            if PUBLISH in store.run(self.run).result:
                raise Refused(
                    f"run {self.run} has published its tables: a new snapshot of it would never be published",
                    hint="clear the task `preflight` with all that follow, or trigger a new run",
                )
        super().execute(context)


class JoinJobOperator(SparkJobOperator):
    """The job that lets tables enter and leave the streams, in every destination."""

    def execute(self, context: Any) -> Any:
        with others_go_on(self.run, context):
            return super().execute(context)


class CompareJobOperator(SparkJobOperator):
    """The comparison of the live tables with the source at one position. Refused until onboarded.

    Of tables that another tool carries nothing is onboarded: the catalogues are read each time, and what cannot be
    compared is refused here.
    """

    def __init__(self, *, plan_json: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_json = plan_json

    def execute(self, context: Any) -> Any:
        plan = plan_from_json(self.plan_json)
        with task_errors(), parts.platform() as store:
            if (newer := _newer_cut(context, plan, store)) is not None:
                raise AirflowSkipException(
                    f"the live tables are the same whatever date was cut, and the cut of {newer} is published: they "
                    "are compared after that one, and whenever a person starts this DAG"
                )
            self.name_run(runs.take_of(store, self.run))
            if plan.reconcile_only is not None:
                plan, problems = onboarding.preflight_of_reconcile_only(plan)
                log_problems(self.log, problems)
                refuse_fatal(problems, sync=plan.sync)
            runs.open_reconcile(context, store, plan, self.run)
            parts.reach("dag.state_written")
        super().execute(context)
        return self.run


def _newer_cut(context: Any, plan: SyncPlan, store: Any) -> date | None:
    """The newest published date, where this run follows the cut of an older one: each date of a backfill would compare
    the same tables again."""
    if not follows_a_cut(context["dag_run"].run_id):
        return None
    newest = max((day for days in store.published_dates(plan.sync).values() for day in days), default=None)
    mine = business_date(context)
    return newest if newest is not None and mine < newest else None
