"""Why a run failed, kept with the run: what Airflow alone would know is told by the page and the status too.

Airflow calls `failed` also for a task whose process was killed or whose worker was lost; then in the DAG processor,
where nothing is rendered and no operator has run. So all that is asked here is the run's own name.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from seamline.domain.decision import DECISION, DecisionState, decision_from_json, moment_text
from seamline.domain.errors import ConfigError, SeamlineError
from seamline.domain.runs import FAILURE, RunKind, RunState
from seamline.plan.model import Run
from seamline_airflow import parts, runs
from seamline_airflow.run_context import run_id

APPROVE = "approve"
_KILLED = "the process of the task ended without a word: it was killed, or its worker was lost"
_ENDED = "the run was ended in Airflow from outside"
_CLEAR = "see the task's log; clear the task with those after it, and the run goes on"
_ERROR_LETTERS_MAX = 2000

log = logging.getLogger(__name__)


class Records(Protocol):
    """What these callbacks ask of the platform database."""

    def run(self, run_id: str) -> Run: ...

    def put_result(self, run_id: str, key: str, value: Any) -> None: ...

    def finish_run(self, run_id: str, *, state: str) -> None: ...

    def resume_run(self, run_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class RunOf:
    """Which runs of the platform database belong to the runs of a DAG."""

    sync: str
    kind: RunKind

    def failed(self, context: Mapping[str, Any]) -> None:
        """`on_failure_callback`: a task failed for good. Airflow does not call it for a retry that follows."""
        with parts.platform() as store:
            if (run := self._newest(store, context)) is not None:
                task = str(context["ti"].task_id)
                _end(store, run, failure(task, context.get("exception")))

    def ended(self, context: Mapping[str, Any]) -> None:
        """The DAG's own `on_failure_callback`: a person, or a time limit, ended what no task has told of."""
        if "dag_run" not in context:
            return
        with parts.platform() as store:
            run = self._newest(store, context)
            if run is not None and run.state is RunState.RUNNING:
                task = str(getattr(context.get("ti"), "task_id", ""))
                _end(store, run, _failure(task, f"{_ENDED} ({context.get('reason') or 'no reason given'})", _CLEAR))

    def goes_on(self, context: Mapping[str, Any]) -> None:
        """`on_execute_callback`: a task begins. In a run that had failed it was cleared, so the run goes on."""
        with parts.platform() as store:
            run = self._newest(store, context)
            if run is not None and (run.state is RunState.FAILED or FAILURE in run.result):
                store.resume_run(run.run_id)

    def _newest(self, store: Records, context: Mapping[str, Any]) -> Run | None:
        """The newest take; None where the run was refused before it was written down."""
        try:
            return runs.newest_take(store, run_id(context, sync=self.sync, kind=self.kind))
        except ConfigError as exc:
            log.info("this run has no name, so there is none to keep its end with: %s", exc)
            return None


def _end(store: Records, run: Run, why: Mapping[str, str]) -> None:
    """A refused approval is no failure: it stands in the run already. A question that ended unanswered is none now."""
    decision = decision_from_json(run.result.get(DECISION))
    if decision is not None and decision.state is DecisionState.WAITING:
        store.put_result(run.run_id, DECISION, None)
    if not (why["task"] == APPROVE and decision is not None and decision.is_refusal):
        store.put_result(run.run_id, FAILURE, dict(why))
    store.finish_run(run.run_id, state=RunState.FAILED)


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


def _failure(task: str, error: str, cure: str) -> dict[str, str]:
    return {"task": task, "error": error, "cure": cure, "at": moment_text(datetime.now(UTC))}


def _of_ours(error: Any) -> SeamlineError | None:
    """The error of ours that Airflow's came from."""
    while isinstance(error, BaseException):
        if isinstance(error, SeamlineError):
            return error
        error = error.__cause__
    return None
