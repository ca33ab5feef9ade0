"""A Spark job of a run: the provider's operator, with a local launch that survives Airflow."""

import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from seamline import settings
from seamline.cluster import spark_conf
from seamline.domain.driver_run import DriverId, DriverRun, DriverStatus
from seamline.domain.errors import HINT, SeamlineError, TransientError
from seamline_airflow import parts
from seamline_airflow.errors import EXIT_CODES_FINAL, task_errors
from seamline_airflow.launcher import DetachedLauncher, DriverJob, driver_environment, read_new, require_private
from seamline_airflow.recorded_launcher import RecordedLauncher, driver_of, to_json

_POLL_S = 1.0
# At first, so that a short job is not followed for longer than it takes.
_POLL_QUICK_S, _QUICK_FOR_S = 0.2, 15.0
_PYTHON = sys.executable
# Another one, which a connection names, may bring settings of its own.
_SUBMIT = "spark-submit"
# Redaction by key name: whatever Spark prints of its settings stays free of secrets.
_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.redaction.regex": "(?i)secret|password|passwd|token|access[.]?key|credential|connection",
}


class SparkJobOperator(SparkSubmitOperator):
    """Run `job` (a path below the checkout, such as `spark_jobs/nightly_cut.py`) for the run that `run` names.

    Masters, queues, Kerberos, OpenLineage and the cluster modes are the provider's. Only a driver that would live as
    a child of the task (local and client mode) is started otherwise: detached, known by a row of the platform database,
    shared by a retry on whatever machine, ended by `on_kill`. The argument list holds the run's id and nothing else;
    connections are read by the driver from a private file that the environment names.
    """

    template_fields = (*SparkSubmitOperator.template_fields, "run")

    def __init__(self, *, job: str, run: str, conf: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("name", f"seamline {Path(job).stem}")
        super().__init__(application_args=["--run", run], conf={**_CONF, **(conf or {})}, **kwargs)
        self.job = job
        self.run = run
        self._driver: DriverId | None = None

    def name_run(self, run: str) -> None:
        """Run the job for `run`."""
        self.run = run
        self.application_args = ["--run", run]

    def execute(self, context: Any) -> Any:
        with task_errors():
            known = settings.load()
            require_private(known.connections)
            self.application = str(known.root / self.job)
            super().execute(context)

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook()
        master = hook._connection["master"]
        if _is_detached(hook):
            if not spark_conf.is_local(master):
                # Unless it is said, the driver would take the interpreter that the cluster's machines have.
                hook._conf = {"spark.pyspark.driver.python": sys.executable, **hook._conf}
            # The one branch that differs: `execute` of the provider (6.3.4) takes the resumable way for a hook whose
            # driver is tracked, and waits for a child process otherwise.
            hook._should_track_driver_status = True
        else:
            ours = spark_conf.travelling(settings.load())
            hook._archives = ",".join(filter(None, [hook._archives, ours.archive]))
            hook._conf = {**hook._conf, **spark_conf.for_driver_on_cluster(master, ours, hook._conf)}
        return hook

    def submit_job(self, context: Any) -> Any:
        if not _is_detached(self._known_hook):
            return super().submit_job(context)
        ti = context["ti"]
        name = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}"
        argv, environment = self._command()
        with _launcher() as launcher:
            self._driver = launcher.submit(DriverJob(name, argv, environment))
        self.log.info("the driver runs detached: %s", self._driver)
        return to_json(self._driver)

    def get_job_status(self, external_id: Any, context: Any) -> str:
        if not _is_detached(self._known_hook):
            return super().get_job_status(external_id, context)
        with _launcher() as launcher:
            return str(launcher.read(driver_of(external_id)).status)

    def is_job_active(self, status: str) -> bool:
        return status == DriverStatus.RUNNING if _is_detached(self._known_hook) else super().is_job_active(status)

    def is_job_succeeded(self, status: str) -> bool:
        return status == DriverStatus.SUCCEEDED if _is_detached(self._known_hook) else super().is_job_succeeded(status)

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        if not _is_detached(self._known_hook):
            super().poll_until_complete(external_id, context)
        else:
            self._driver = driver_of(external_id)
            with _launcher() as launcher:
                self._follow(launcher, self._driver)
        # A task that is cleared after success must run again (the handle would make it a green no-op), and the
        # reconnecting path does not pass `get_job_result`.
        self._forget(context)

    def get_job_result(self, external_id: Any, context: Any) -> None:
        self._forget(context)

    def on_kill(self) -> None:
        if self._driver is not None:
            with _launcher() as launcher:
                launcher.end(self._driver, by=f"the task {self.task_id}, which was ended")
        elif self._hook is not None and not _is_detached(self._hook):
            super().on_kill()

    @property
    def _known_hook(self) -> SparkSubmitHook:
        if self._hook is None:
            self._hook = self._get_hook()
        return self._hook

    def _command(self) -> tuple[list[str], dict[str, str]]:
        """What runs, and in which environment. Of a local Spark the driver itself: a job that needs no session then
        starts no JVM, and one that does has it started by PySpark with the same arguments."""
        argv, environment = self._known_hook._build_spark_submit_command(self.application), self._environment()
        if argv[0] != _SUBMIT or not spark_conf.is_local(self._known_hook._connection["master"]):
            return argv, environment
        place = argv.index(self.application)
        arguments = shlex.join([*argv[1:place], "pyspark-shell"])
        return [_PYTHON, *argv[place:]], {**environment, "PYSPARK_SUBMIT_ARGS": arguments}

    def _environment(self) -> dict[str, str]:
        known = settings.load()
        return {
            **driver_environment(settings.process_environment()),
            **settings.as_environment(known),
            # Executors and Arrow's planner workers run `python3` from PATH unless a setting says otherwise.
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            **{name: str(value) for name, value in (self.env_vars or {}).items()},
        }

    def _follow(self, launcher: RecordedLauncher, driver: DriverId) -> None:
        """Show the driver's log until it has ended; raise unless it succeeded. The end of a log that is not on this
        machine is in the row."""
        offset, last_words = 0, _LastWords(Path(self.job).stem)
        quick_until = time.monotonic() + _QUICK_FOR_S
        while True:
            run = self._read(launcher, driver)
            lines, offset = read_new(Path(run.log), offset) if run is not None and run.log else ([], offset)
            if run is not None and run.status is not DriverStatus.RUNNING and not lines:
                break
            self._show(lines, last_words)
            if not lines:
                time.sleep(_POLL_QUICK_S if time.monotonic() < quick_until else _POLL_S)
        if not offset:
            self._show(run.last_lines, last_words)
        self._raise_unless_done(run, last_words)

    def _show(self, lines: Sequence[str], last_words: "_LastWords") -> None:
        for line in lines:
            self.log.info("%s", line)
            last_words.hear(line)

    def _read(self, launcher: RecordedLauncher, driver: DriverId) -> DriverRun | None:
        """None while the platform database is away: the driver goes on meanwhile."""
        try:
            return launcher.read(driver)
        except TransientError as exc:
            self.log.warning("what the driver does is not known: %s", exc.message)
            return None

    def _raise_unless_done(self, run: DriverRun, last_words: "_LastWords") -> None:
        if run.status is DriverStatus.SUCCEEDED:
            return
        code = run.exit_code
        how = "vanished without an exit code" if code is None else f"ended with exit code {code}"
        message = f"the driver of {self.job} {how}; its log is {run.log or 'not known'} of {run.holder or 'no machine'}"
        raise (AirflowFailException if code in EXIT_CODES_FINAL else AirflowException)(message) from last_words.error

    def _forget(self, context: Any) -> None:
        if (store := context.get("task_state_store")) is not None:
            store.delete(self.external_id_key)
            store.delete(self._K8S_DRIVER_STATUS_KEY)


@contextmanager
def _launcher() -> Iterator[RecordedLauncher]:
    with parts.driver_runs() as runs:
        yield RecordedLauncher(runs, DetachedLauncher(settings.load().data / "drivers"))


class _LastWords:
    """The error by which a driver of ours ends: `<job>: <message>` and, indented, its hint. `error` is None before."""

    def __init__(self, job: str) -> None:
        self._begins = f"{job}: "
        self.error: SeamlineError | None = None

    def hear(self, line: str) -> None:
        if line.startswith(self._begins):
            self.error = SeamlineError(line.removeprefix(self._begins))
        elif self.error is not None and line.startswith(HINT):
            self.error.hint = line.removeprefix(HINT)


def _is_detached(hook: SparkSubmitHook) -> bool:
    """Whether the driver would be a child of this task: every master in client mode, and `local`."""
    return bool(hook._connection["deploy_mode"] != "cluster")
