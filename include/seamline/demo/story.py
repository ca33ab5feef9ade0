"""The demo's runs in Airflow: onboard, last night's cut, a backfill of two earlier dates. Each step may be repeated."""

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from seamline.adapters.airflow_rest import AirflowRest, DagRun, TaskState
from seamline.domain import calendar
from seamline.domain.errors import TerminalError, TransientError
from seamline.plan.model import SyncPlan
from seamline.stack.progress import Progress
from seamline.stack.waiting import wait_until

EARLIER_DATES = 2
RUN_TIMEOUT_S = 900.0
# A stack that is up looks for new declarations every 90 s.
DAGS_WITHIN_S = 240.0
QUIET_S = 15.0
# Of a task that waits for a person.
ASKS = "awaiting_input"
DECIDE = "sign in to Airflow as `approver` and decide under Required Actions"
QUIET_STATES = frozenset({"waiting", "scheduled", "queued"})
DONE_STATES = frozenset({"success", "skipped", "failed", "upstream_failed"})


@dataclass(slots=True)
class Story:
    """One run of the story. `stamp` makes its run ids unlike those of any other."""

    airflow: AirflowRest
    plan: SyncPlan
    progress: Progress
    stamp: str = field(default_factory=lambda: f"demo-{datetime.now(UTC):%Y%m%dT%H%M%S}")
    # One and the same for the whole story, also where a date ends amid it.
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def wait_for_dags(self) -> None:
        """Until Airflow has read the sync's DAGs; an import error ends the wait with its text."""
        kinds = ("onboard", "stream", "reconcile", *(["nightly"] if self.plan.nightly else []))
        wanted = {f"{self.plan.sync}__{kind}" for kind in kinds}

        def are_known() -> bool:
            errors = self.airflow.import_errors()
            if errors:
                raise TerminalError("Airflow could not read the DAGs:\n" + "\n".join(errors))
            return wanted <= self.airflow.dag_ids()

        with self.progress.saying(lambda: "Airflow is still reading the DAGs"):
            is_read = wait_until(are_known, timeout_s=DAGS_WITHIN_S)
        if not is_read:
            raise TransientError("Airflow has not read the DAGs", hint="./seamline logs airflow-dags")
        for dag_id in sorted({*wanted, "seamline__streams"} & self.airflow.dag_ids()):
            self.airflow.unpause(dag_id)

    def onboard(self) -> DagRun:
        """Onboard the sync, and let the stream's DAG watch it for the rest of the current business date."""
        onboarded = self._run(f"{self.plan.sync}__onboard")
        today = self.last_date() + timedelta(days=1)
        self.airflow.trigger(
            f"{self.plan.sync}__stream", run_id=f"{self.stamp}-{today}", partition_key=today.isoformat()
        )
        return onboarded

    def reconcile(self) -> DagRun:
        """The live tables at one position, now."""
        return self._run(f"{self.plan.sync}__reconcile")

    def nightly(self) -> DagRun:
        """The business date that has ended last."""
        return self._run(f"{self.plan.sync}__nightly", partition_key=self.last_date().isoformat())

    def backfill(self) -> list[DagRun]:
        """The dates before it, by Airflow's own backfill, oldest first."""
        dag_id = f"{self.plan.sync}__nightly"
        last = self.last_date() - timedelta(days=1)
        first = last - timedelta(days=EARLIER_DATES - 1)
        known = {run.run_id for run in self.airflow.runs(dag_id)}
        self.airflow.backfill(dag_id, first=first, last=last)
        keys = {(first + timedelta(days=n)).isoformat() for n in range(EARLIER_DATES)}

        def fresh() -> list[DagRun]:
            runs = [r for r in self.airflow.runs(dag_id) if r.run_id not in known and r.partition_key in keys]
            return sorted(runs, key=lambda r: r.partition_key or "")

        if not wait_until(lambda: len(fresh()) == len(keys), timeout_s=60):
            raise TransientError(f"Airflow did not start the backfill of {first} to {last}")
        return [self._follow(run) for run in fresh()]

    def last_date(self) -> date:
        """The newest business date that had ended when this story began."""
        timezone = self.plan.nightly.timezone if self.plan.nightly else "UTC"
        return calendar.date_at(self.began, timezone=timezone) - timedelta(days=1)

    def _run(self, dag_id: str, *, partition_key: str | None = None) -> DagRun:
        run_id = f"{self.stamp}-{partition_key}" if partition_key else self.stamp
        return self._follow(self.airflow.trigger(dag_id, run_id=run_id, partition_key=partition_key))

    def _follow(self, run: DagRun) -> DagRun:
        name = f"{run.dag_id} {run.partition_key}" if run.partition_key else run.dag_id
        newest, since = "waits for Airflow", self.progress.elapsed_s
        states: dict[tuple[str, int], str] = {}

        def changed(task: TaskState) -> None:
            nonlocal newest, since
            states[task.task_id, task.map_index] = task.state
            if task.state not in QUIET_STATES:
                since = self.progress.elapsed_s
            if task.state == ASKS:
                newest = f"the cut is not clean (the log of task `gate` says why). The demo waits: {DECIDE}"
                self.progress.say(f"{name}: {newest}")
            elif task.state not in QUIET_STATES:
                newest = f"{task.task_id} {task.state}"
                self.progress.say(f"{name}: {newest}")

        def still() -> str:
            known = list(states.values())
            done = sum(state in DONE_STATES for state in known)
            counted = f", {done} of {len(known)} tasks are done" if known else ""
            return f"{name}: {newest}, for {self.progress.elapsed_s - since:.0f} s now{counted}"

        with self.progress.saying(still, every_s=QUIET_S):
            ended = self.airflow.wait(run.dag_id, run.run_id, timeout_s=RUN_TIMEOUT_S, on_change=changed)
        if ended.state != "success":
            raise TerminalError(self._failure(ended), hint="the whole log: the task in the Airflow UI")
        return ended

    def _failure(self, run: DagRun) -> str:
        lines = [f"{run.dag_id} run {run.run_id} failed"]
        for task in self.airflow.tasks(run.dag_id, run.run_id):
            if task.state == "failed":
                lines += [f"task {task.task_id}:", self.airflow.log_tail(run.dag_id, run.run_id, task)]
        return "\n".join(lines)
