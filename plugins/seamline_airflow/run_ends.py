"""Why a run failed, kept with the run: what Airflow alone would know is then shown by the page and the status too.

Airflow calls `failed` also for a task whose process was killed or whose worker was lost; then in the DAG processor,
where nothing is rendered and no operator has run. So all that is asked here is the run's own name.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Protocol

from seamline.domain.alarms import AlarmKind
from seamline.domain.cut_state import CutState
from seamline.domain.decision import DECISION, DecisionState, decision_from_json, moment_text
from seamline.domain.errors import ConfigError, Refused, SeamlineError
from seamline.domain.runs import FAILURE, LOADED, MODE, STAGE, Cut, NightlyMode, RunKind, RunState
from seamline.plan.document import plan_from_json
from seamline.plan.model import Run
from seamline.sync.cut import ended_day, published_by
from seamline_airflow import deadline, parts, runs
from seamline_airflow.run_context import optional_business_date, run_id

APPROVE = "approve"
# What stages, opens or compares: of a run that is closed, it begins the next take.
_OPENS_ANOTHER_TAKE = {
    RunKind.ONBOARD: ("preflight",),
    RunKind.TABLES: ("preflight",),
    RunKind.NIGHTLY: ("open", "cut"),
    RunKind.RECONCILE: ("compare",),
}
# Of a night, before its gate, which says by itself what has no cut: where one fails, nobody has judged the date. What
# `open` refuses is a mistake in what was asked, and says nothing about the date.
_BEFORE_GATE = ("ready", "cut", "verdicts", "expectations")
_KILLED = "the process of the task ended without a word: it was killed, or its worker was lost"
_ENDED = "the run was ended in Airflow from outside"
_CLEAR = "see the task's log; clear the task with those after it, and the run goes on"
_ERROR_LETTERS_MAX = 2000

log = logging.getLogger(__name__)


class Records(Protocol):
    """What these callbacks ask of the platform database."""

    def run(self, run_id: str) -> Run: ...

    def start_run(self, *, run_id: str, sync: str, kind: str, plan_json: str, business_date: Any = None) -> None: ...

    def put_result(self, run_id: str, key: str, value: Any) -> None: ...

    def finish_run(self, run_id: str, *, state: str) -> None: ...

    def resume_run(self, run_id: str) -> None: ...

    def takes(self, sync: str, business_date: date) -> tuple[CutState, ...]: ...

    def cuts(self, sync: str, business_date: date | None = None) -> tuple[Cut, ...]: ...

    def open_alarms(self) -> tuple[Any, ...]: ...

    def raise_alarm(self, kind: AlarmKind, subject: str, message: str) -> None: ...


@dataclass(frozen=True, slots=True)
class RunOf:
    """Which runs of the platform database belong to the runs of a DAG."""

    sync: str
    kind: RunKind

    def failed(self, context: Mapping[str, Any]) -> None:
        """`on_failure_callback`: a task failed for good. Airflow does not call it for a retry that follows."""
        if (name := self._name(context)) is None:
            return
        with parts.platform() as store:
            if (run := runs.newest_take(store, name) or self._refused(store, name, context)) is not None:
                task = str(context["ti"].task_id)
                _end(store, run, failure(task, context.get("exception")))

    def ended(self, context: Mapping[str, Any]) -> None:
        """The DAG's own `on_failure_callback`: a person, or a time limit, ended what no task has reported."""
        if "dag_run" not in context or (name := self._name(context)) is None:
            return
        with parts.platform() as store:
            run = runs.newest_take(store, name)
            if run is not None and run.state is RunState.RUNNING:
                task = str(getattr(context.get("ti"), "task_id", ""))
                _end(store, run, ended_outside(str(context.get("reason") or "no reason given"), task))

    def goes_on(self, context: Mapping[str, Any]) -> None:
        """`on_execute_callback`: a task begins. In a run that had failed it was cleared, so the run goes on."""
        if (name := self._name(context)) is None:
            return
        with parts.platform() as store:
            run = runs.newest_take(store, name)
            if run is None or (context["ti"].task_id in _OPENS_ANOTHER_TAKE[self.kind] and runs.is_closed(run)):
                return
            if run.state is RunState.FAILED or FAILURE in run.result:
                store.resume_run(run.run_id)
            _note_stage(store, run, str(context["ti"].task_id))

    def _refused(self, store: Records, name: str, context: Mapping[str, Any]) -> Run | None:
        """A run whose first task has refused it, written down by its declared plan, so that it can say why.

        A night only where its date has ended and nothing is known of it: what was found before stands.
        """
        plan_json, day = getattr(context.get("task"), "plan_json", ""), optional_business_date(context)
        if not plan_json or (self.kind is RunKind.NIGHTLY and not self._is_unproven(store, plan_json, day)):
            return None
        store.start_run(run_id=name, sync=self.sync, kind=self.kind, plan_json=plan_json, business_date=day)
        return store.run(name)

    def _is_unproven(self, store: Records, plan_json: str, day: date | None) -> bool:
        if day is None:
            return False
        try:
            ended_day(plan_from_json(plan_json), day, at=datetime.now(UTC), clock="the clock here")
        except Refused:
            return False
        except ConfigError as exc:
            # A calendar has run out: the night that could not be is missing, and says why.
            log.info("%s", exc)
        takes = store.takes(self.sync, day)
        return all(one.found is None and one.publication.in_force is None for one in takes)

    def _name(self, context: Mapping[str, Any]) -> str | None:
        """The name of the run; None where its date is wrong, so that it can have none."""
        try:
            return run_id(context, sync=self.sync, kind=self.kind)
        except ConfigError as exc:
            log.info("this run has no name, so nothing is kept of its end: %s", exc)
            return None


def _note_stage(store: Records, run: Run, task: str) -> None:
    """Since when a stage is under way, for its deadline. A wait that goes on, and another attempt, began before."""
    known = run.result.get(STAGE) or {}
    if run.state is RunState.SUCCEEDED or known.get("task") == task:
        return
    store.put_result(run.run_id, STAGE, {"task": task, "since": moment_text(datetime.now(UTC))})
    if run.result.get(LOADED):
        # Airflow knows that the task which loads has succeeded: if it begins again, a person has cleared it.
        store.put_result(run.run_id, LOADED, None)


def _end(store: Records, run: Run, why: Mapping[str, str]) -> None:
    """A refused approval is no failure: the run has it already. An unanswered question is closed."""
    decision = decision_from_json(run.result.get(DECISION))
    if decision is not None and decision.state is DecisionState.WAITING:
        store.put_result(run.run_id, DECISION, None)
    if not (why["task"] == APPROVE and decision is not None and decision.is_refusal):
        store.put_result(run.run_id, FAILURE, dict(why))
    store.finish_run(run.run_id, state=RunState.FAILED)
    stage = why["task"] or str((run.result.get(STAGE) or {}).get("task"))
    if run.kind is RunKind.NIGHTLY and stage in _BEFORE_GATE and run.result.get(MODE) != NightlyMode.COMPARE_ONLY:
        _say_without_cut(store, run, stage, f"{why['error']}; {why['cure']}")


def _say_without_cut(store: Records, run: Run, stage: str, why: str) -> None:
    """The date has no cut, and no gate is reached that would say so. What the gate of a later take finds ends it. Where
    the source has not closed the date the alarm about that says why."""
    about = deadline.subject(run.sync, run.business_date)
    if any((one.kind, one.subject) == (AlarmKind.LATE_INPUT, about) for one in store.open_alarms()):
        return
    cuts = store.cuts(run.sync, run.business_date)
    # Only a take that has begun to read takes the place of one that is published.
    there = {one.destination for one in cuts} if stage == "ready" else published_by(run, cuts)
    if without := [one.name for one in run.taking.plan.destinations if one.name not in there]:
        has = "has" if len(without) == 1 else "have"
        message = f"{', '.join(without)} {has} no cut of {run.business_date}: {why}"
        store.raise_alarm(AlarmKind.CUT_NOT_CLEAN, about, message)


def failure(task: str, error: Any) -> dict[str, str]:
    """As it is kept: the error in one line without rows, and how to mend it."""
    known = _of_ours(error)
    if known is not None:
        what, cure = known.message, known.hint
    elif error is None:
        what, cure = _KILLED, _CLEAR
    else:
        # The first line only: the rest of a database's message may quote a row.
        what, cure = (str(error).splitlines() or [type(error).__name__])[0], _CLEAR
    return _failure(task, what[:_ERROR_LETTERS_MAX], cure)


def ended_outside(why: str, task: str = "") -> dict[str, str]:
    """As it is kept of a run that no task has reported the end of."""
    return _failure(task, f"{_ENDED} ({why})", _CLEAR)


def _failure(task: str, error: str, cure: str) -> dict[str, str]:
    return {"task": task, "error": error, "cure": cure, "at": moment_text(datetime.now(UTC))}


def _of_ours(error: Any) -> SeamlineError | None:
    """The error of ours that Airflow's came from."""
    while isinstance(error, BaseException):
        if isinstance(error, SeamlineError):
            return error
        error = error.__cause__
    return None
