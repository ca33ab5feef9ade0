"""What becomes of a staged cut: it is published, a person is asked, or the run stops."""

from collections.abc import Iterator
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseBranchOperator
from airflow.sdk.exceptions import AirflowFailException

from seamline.domain.errors import GateFailed
from seamline.domain.runs import Scope
from seamline.domain.verdict import Verdict
from seamline.plan.model import Run
from seamline_airflow import parts
from seamline_airflow.errors import task_errors


class GateOperator(BaseBranchOperator):
    """All clean: on to `publish`. Otherwise `on_break` decides: ask, fail, or publish_and_flag.

    Fails closed: without a saved reconciliation of this run's cut, or with no table compared, nobody is even asked.
    """

    template_fields = ("run",)

    def __init__(self, *, run: str, on_break: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.on_break = on_break

    def choose_branch(self, context: Any) -> str:
        with task_errors(), parts.platform() as store:
            run = store.run(self.run)
            lines = list(_blemishes(run, store))
            for line in lines:
                self.log.warning("%s", line)
            context["ti"].xcom_push(key="lines", value=lines)
            if not lines or self.on_break == "publish_and_flag":
                return "publish"
            if self.on_break == "ask":
                return "approve"
            raise GateFailed(
                f"the cut of {run.business_date} is not published: {'; '.join(lines)}",
                hint="on_break is `fail`: mend the cause, then run this date again",
                sync=run.sync,
            )


class CutApprovalOperator(ApprovalOperator):
    """A person decides about a cut that is not clean. Rejected, or not answered in time: the run is red, for good.

    Retries are only for an answer that Airflow lost: one given in the very second of the question meets a scheduler
    that still takes the end of the asking process for a lost task (seen with Airflow 3.3.2). It asks again then.
    """

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        if "error" in event:
            raise AirflowFailException(f"nobody decided about this cut: {event['error']}")
        if self.REJECT in event["chosen_options"]:
            who = (event.get("responded_by_user") or {}).get("name") or "somebody"
            reason = (event.get("params_input") or {}).get("reason") or "no reason given"
            raise AirflowFailException(f"{who} rejected this cut: {reason}")
        return super().execute_complete(context, event)


def _blemishes(run: Run, store: Any) -> Iterator[str]:
    """What is not clean, a line each; names and counts only. Raises GateFailed where nothing is known."""
    for destination in run.plan.destinations:
        found = store.reconciliation(run.run_id, Scope.CUT, destination.name)
        compared = [table for table in found.tables if table.verdict is not Verdict.NOT_RUN] if found else []
        if not compared:
            raise GateFailed(
                f"the cut of {run.business_date} for {destination.name} was not reconciled",
                hint="run the task `cut` again",
                sync=run.sync,
            )
        for table in compared:
            if table.verdict is not Verdict.MATCH:
                what = f"{table.breaks_total} breaks {table.reason}".strip()
                yield f"{destination.name}: {table.table} {table.verdict}, {what}"
    yield from _unmet(run)


def _unmet(run: Run) -> Iterator[str]:
    checked = run.result.get("expectations")
    if checked is None:
        if run.plan.reconcile.expectations:
            raise GateFailed("the expectations left no result", hint="run the task `expectations` again", sync=run.sync)
        return
    if checked["verdict"] == Verdict.NOT_RUN:
        raise GateFailed("the expectations were not evaluated", hint="run the task `expectations` again", sync=run.sync)
    for failed in checked["failed"]:
        yield f"{failed['on']}: not met: {failed['why']} ({failed['detail']})"
