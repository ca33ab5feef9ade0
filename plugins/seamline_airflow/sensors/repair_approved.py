"""The wait for a second person, who approves a repair on the page or by the command line."""

from typing import Any

from airflow.sdk import BaseSensorOperator

from seamline.domain.repair import RepairState
from seamline_airflow import parts
from seamline_airflow.errors import task_errors


class RepairApprovedSensor(BaseSensorOperator):
    """Until the repair that `run` names is approved. Rescheduled: it takes no worker meanwhile."""

    template_fields = ("run",)

    def __init__(self, *, run: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def poke(self, context: Any) -> bool:
        with task_errors(), parts.repairs() as kept:
            repair = kept.repair(self.run)
        self.log.info("%s is %s", repair.run_id, repair.state)
        return bool(repair.state is not RepairState.PLANNED)
