"""The sensor of the cutover: from here on every commit of the stream is a state the source had."""

from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from seamline_airflow import cutover_state
from seamline_airflow.errors import task_errors
from seamline_airflow.triggers.cutover import CutoverTrigger


class CutoverSensor(BaseSensorOperator):
    """Wait until the ledger of every destination that has the tables has applied the high marker of the run that `run`
    names. A stream that fails meanwhile keeps no other from its comparison."""

    template_fields = ("run",)

    def __init__(self, *, run: str, poll_s: float = 3.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.poll_s = poll_s

    def execute(self, context: Any) -> dict[str, str]:
        with task_errors():
            state = cutover_state.look(self.run)
        if state.is_reached:
            return self._reached(dict(state.positions), state.error)
        if state.is_missed:
            raise AirflowFailException(state.error)
        self.log.info("waiting for %s", ", ".join((*state.waiting, *state.away)))
        # Airflow bounds a deferred wait by this argument only; a task's execution_timeout does not reach it.
        self.defer(
            trigger=CutoverTrigger(self.run, self.poll_s),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, str]:
        if event["status"] != "reached":
            raise AirflowFailException(event["message"])
        return self._reached(dict(event["positions"]), event["message"])

    def _reached(self, positions: dict[str, str], error: str) -> dict[str, str]:
        """The comparison says of the others that they are not there."""
        self.log.info("cutover reached: %s", positions)
        if error:
            self.log.error("%s", error)
        return positions
