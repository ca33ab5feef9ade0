"""The tasks of a bulk read as a Spark job."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext

from seamline.bulk.copy import Copied, CopyGroup, CopyItem
from seamline.bulk.read import STILL_S, Copying, RunReader
from seamline.bulk.resume import Resumes
from seamline.bulk.threads import READERS_HERE, CopyingHere, is_small
from seamline.domain.errors import InvariantViolated, TransientError
from seamline.domain.load_progress import LoadSoFar
from seamline.plan.model import Run
from seamline.sync.reading_pace import Pacer
from seamline_spark.session import Application
from seamline_spark.snapshot.task import Outcome, copy_partition

_TOO_FEW_SLOTS = "SPARK-24819"


def run_reader(
    application: Application,
    run: Run,
    *,
    still_s: float = STILL_S,
    resumes: Resumes | None = None,
    on_progress: Callable[[LoadSoFar], None] = lambda _: None,
    pacer: Pacer | None = None,
) -> RunReader:
    """Reads a run's source in tasks of a Spark application, as many at once as it has slots. What is small is read by
    this process where nobody has opened a session yet: its start would take longer than the copy."""

    def is_here(items: Iterable[CopyItem]) -> bool:
        return not application.is_open and is_small(items)

    def tasks(items: Sequence[CopyItem]) -> int:
        return READERS_HERE if is_here(items) else application.session.sparkContext.defaultParallelism

    def copying_of(groups: Sequence[CopyGroup], name: str) -> Copying:
        if is_here(item for group in groups for items in group.participants for item in items):
            return CopyingHere(groups)
        return SparkCopying(application.session.sparkContext, groups, name=name)

    return RunReader(
        run,
        tasks=tasks,
        copying_of=copying_of,
        still_s=still_s,
        resumes=resumes,
        on_progress=on_progress,
        pacer=pacer,
    )


class SparkCopying:
    """The Spark job of one read, in a thread of its own, cancelled as a whole by its job group."""

    def __init__(self, context: SparkContext, groups: Sequence[CopyGroup], *, name: str) -> None:
        self._context = context
        self._groups = list(groups)
        self._name = name
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="copy")
        self._future: Future[list[Outcome]] | None = None

    def start(self) -> None:
        self._future = self._pool.submit(self._run)

    def is_running(self) -> bool:
        return self._future is not None and not self._future.done()

    def wait(self, timeout_s: float) -> None:
        if self._future is not None:
            wait([self._future], timeout=timeout_s)

    def result(self) -> list[Copied]:
        """What was copied, or the first error of any task."""
        if self._future is None:
            raise InvariantViolated("the copy was never started")
        try:
            outcomes = self._future.result()
        except Py4JError as exc:
            raise self._why_it_ended(exc) from None
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        return [one for outcome in outcomes for one in outcome.copied]

    def cancel(self) -> None:
        if self.is_running():
            with suppress(Py4JError):
                self._context.cancelJobGroup(self._name)
        self._pool.shutdown(wait=True)

    def _run(self) -> list[Outcome]:
        tables = [item.read.table.name for group in self._groups for items in group.participants for item in items]
        self._context.setJobGroup(self._name, f"copy {', '.join(dict.fromkeys(tables))}"[:200], interruptOnCancel=True)
        # Their sessions open together, so they run together: Spark starts all of them, or says that it cannot.
        tasks = self._context.parallelize(self._groups, len(self._groups)).barrier()
        return tasks.mapPartitions(copy_partition).collect()

    def _why_it_ended(self, exc: Py4JError) -> TransientError:
        if isinstance(exc, Py4JJavaError) and _TOO_FEW_SLOTS in str(exc):
            return TransientError(
                f"the read needs {len(self._groups)} slots of Spark at the same time, and it has"
                f" {exc.java_exception.maxConcurrentTasks()}",
                hint="give the application more cores (spark.cores.max, spark.executor.instances), or wait until other"
                " applications let go of theirs",
            )
        return TransientError(
            f"Spark ended the copy: {_last_words(exc)}",
            hint="nothing of it was published; the next attempt reads what is not staged yet, at a new position",
        )


def _last_words(exc: Py4JError) -> str:
    """Why a barrier task ended, else the end of the worker's own traceback. Both stand before the JVM's frames."""
    words = " ".join(str(exc).split("\n\tat ")[0].split())
    return words.rpartition("finished unsuccessfully. ")[2][-400:]
