"""Tasks of `<sync>__repair`: they call what the command line calls too."""

from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from seamline.domain.audit import FROM_AIRFLOW
from seamline.domain.person import one_line
from seamline.domain.repair import Repair, counted
from seamline_airflow import parts
from seamline_airflow.operators.step import StepOperator


class PlanRepairOperator(StepOperator):
    """Plan a repair as the run's form asks, or take the one that it names. The run's name goes to the tasks behind it.

    Skipped, with them, where the plan leaves every row alone.
    """

    def __init__(self, *, sync: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sync = sync

    def step(self, context: Any, store: Any) -> str:
        asked = {name: str(value or "") for name, value in dict(context["params"]).items()}
        by = str(getattr(context["dag_run"], "triggering_user_name", None) or "")
        repair = parts.planned_repair(
            self.sync,
            by=by,
            origin=FROM_AIRFLOW,
            run_id=self.run,
            named=asked.get("repair", ""),
            destination=asked.get("destination", ""),
            compared=asked.get("compared", ""),
            why=one_line(asked.get("reason", "")),
        )
        self._show(repair)
        if not repair.planned:
            raise AirflowSkipException(f"{repair.run_id} changes no row: all are equal by now, or left to the stream")
        return repair.run_id

    def _show(self, repair: Repair) -> None:
        """Without values: they are on the page and by `./seamline repair show`."""
        self.log.info("%s, planned by %s at %s", repair.run_id, repair.planned_by, repair.position)
        for table, why in sorted(repair.refused.items()):
            self.log.warning("not repaired: %s: %s", table, why)
        for table, states in counted(repair.rows).items():
            for state, rows in sorted(states.items()):
                self.log.info("%s: %d %s", table, rows, state)


class ApplyRepairOperator(StepOperator):
    """Apply the approved repair that `run` names, and compare again. Its verdict is judged by the task behind it."""

    def step(self, context: Any, store: Any) -> str:
        repair = parts.applied_repair(self.run)
        for table, states in counted(repair.planned).items():
            for state, rows in sorted(states.items()):
                self.log.info("%s: %d %s", table, rows, state)
        self.log.info("applied at %s, compared again: %s", repair.applied_position, repair.verdict)
        return str(repair.verdict)
