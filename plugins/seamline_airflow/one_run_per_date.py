"""Two runs of one business date never work side by side: the second waits, and its log names the run it waits for."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from airflow.sdk.exceptions import AirflowRescheduleException

from seamline.domain.runs import FAILURE, RunState
from seamline.sync.dates_asked import DateTaken
from seamline_airflow.run_ends import ended_outside

LOOK_AGAIN = timedelta(seconds=20)
_GO_ON = ["queued", "running"]


class Records(Protocol):
    """What this asks of the platform database."""

    def put_result(self, run_id: str, key: str, value: Any) -> None: ...

    def finish_run(self, run_id: str, *, state: str) -> None: ...


def alone(context: Mapping[str, Any], records: Records, log: Any, start: Callable[[], None]) -> None:
    """Call `start` once no other run of the date goes on. Until then the task gives its worker back.

    Whether the other one lives is asked of Airflow, by its name: one that was killed without a word is ended here.
    """
    try:
        start()
    except DateTaken as taken:
        if _goes_on(context, taken.by):
            log.info("%s; looks again in %d s", taken, LOOK_AGAIN.total_seconds())
            raise AirflowRescheduleException(datetime.now(UTC) + LOOK_AGAIN) from None
        log.warning("run %s is not known to Airflow as running: it is over", taken.by)
        records.put_result(taken.by, FAILURE, ended_outside("its run is over in Airflow"))
        records.finish_run(taken.by, state=RunState.FAILED)
        alone(context, records, log, start)


def airflow_run(run_id: str) -> str:
    """The name in Airflow of one of our runs, `<sync>/<kind>/<date>/<name>`, whichever of its takes it is."""
    return run_id.split("/", 3)[3].partition("~")[0]


def _goes_on(context: Mapping[str, Any], run_id: str) -> bool:
    dag_id = context["dag_run"].dag_id
    return bool(context["ti"].get_dr_count(dag_id, run_ids=[airflow_run(run_id)], states=_GO_ON))
