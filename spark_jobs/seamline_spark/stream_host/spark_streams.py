"""Streams as Spark jobs: one job group and one thread of the driver each.

Most are one long-running task. A stream that writes through DataFrames runs in its thread on the driver, where the
session is, and its statements are jobs of its group. It holds a slot like any other: so its statements find a place.
"""

import logging
import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import RDD, InheritableThread, SparkConf, SparkContext
from pyspark.sql import SparkSession

from seamline import registry, settings
from seamline.cluster.spark_conf import for_executors, is_local
from seamline.domain.errors import SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.kinds.found import require_kinds
from seamline.plan.document import plan_from_json
from seamline.plan.model import SyncPlan
from seamline.sync.stream_host import Cancel, Outcome, Start, TaskEnd
from seamline_spark.frames import SparkFrames
from seamline_spark.stream_host.task import Ended, StreamTask, run_one

log = logging.getLogger(__name__)

# Of a Python worker: by which state of the installed code it was started.
CODE = "SEAMLINE_CODE"
Partition = Callable[[Iterable[str]], Iterator[Ended]]

# Spark gives a worker two seconds (`spark.python.task.killTimeout`) before it kills it.
_KILLED_WITHIN_S = 10.0

# What must be so, whatever a cluster's defaults say. The host is the one owner of retries: Spark's own count over the
# job's whole life, and a second copy of a slow task would only be fenced.
_FIXED = {
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.python.daemon.module": "seamline_spark.stream_host.daemon",
    # Each attempt is a new fork: nothing of an earlier stream stays in it.
    "spark.python.worker.reuse": "false",
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.killTimeout": "-1",
    "spark.locality.wait": "0",
}
_ALL_REGISTERED = "spark.scheduler.minRegisteredResourcesRatio"
# Spark gives up an executor that is silent before the roster gives up its streams: a stream that was started again
# there would be silent too.
_ON_A_CLUSTER = {"spark.network.timeout": "45s", "spark.network.timeoutInterval": "5s"}
# A stream's worker with spans of 64 MB: 507 MB were seen.
_STREAM_MB = 640
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "640m",
    # The driver waits almost always: one collector thread and the quick compiler keep it small.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def configured(conf: SparkConf, pool: str, *, slots: int, jars: Sequence[Path] = ()) -> SparkConf:
    """Spark's settings of the host: where `conf` says nothing, local. `jars`: what destinations need of Spark beside
    its own."""
    conf.setIfMissing("spark.master", f"local[{slots}]").setIfMissing("spark.app.name", f"streams {pool}")
    for name, value in _DEFAULTS.items():
        conf.setIfMissing(name, value)
    if is_local(str(conf.get("spark.master"))):
        conf.setIfMissing("spark.driver.host", "127.0.0.1").setIfMissing("spark.driver.bindAddress", "127.0.0.1")
        # There is one JVM, which need not get them as a copy.
        conf.setIfMissing("spark.driver.extraClassPath", ":".join(map(str, jars)))
    else:
        # A host keeps its cores for good: it takes no more than it was given, and serves once it knows how many it has.
        conf.setIfMissing("spark.cores.max", str(slots)).setIfMissing(_ALL_REGISTERED, "1.0")
        conf.setIfMissing("spark.jars", ",".join(map(str, jars)))
        for name, value in _ON_A_CLUSTER.items():
            conf.setIfMissing(name, value)
        for name, value in for_executors(dict(conf.getAll()), settings.load(), task_mb=_STREAM_MB).items():
            conf.set(name, value)
    for name, value in _FIXED.items():
        conf.set(name, value)
    return conf


def iceberg_jars() -> list[Path]:
    """Iceberg for Spark and its S3 client, as jars/jars.lock pins them; nothing before `./seamline setup`."""
    return sorted((settings.load().env / "jars" / "spark").glob("iceberg-*.jar"))


class SparkStreams:
    """Starts and cancels tasks. The end of each is put into `ends` by its thread."""

    def __init__(
        self,
        context: SparkContext,
        *,
        host: str,
        ends: "SimpleQueue[Any]",
        partition: Partition,
        idle_after_s: float = math.inf,
    ) -> None:
        self._context = context
        self._host = host
        self._idle_after_s = idle_after_s
        self._ends = ends
        self._partition = partition
        self._session: SparkSession | None = None
        self._opening = threading.Lock()
        if is_local(str(context.master)):
            # Workers are started as `python3` of PATH otherwise, which need not be this environment.
            context.pythonExec = sys.executable

    def start(self, action: Start) -> None:
        thread = InheritableThread(target=self._run, args=(action,), name=f"stream {action.wanted.stream}", daemon=True)
        thread.start()

    def cancel(self, action: Cancel) -> None:
        """Spark interrupts the task and kills its worker after two seconds. Its thread reports when it is gone."""
        self._context.cancelJobGroup(_group(action.stream, action.attempt))

    @property
    def slots(self) -> int:
        """Of the executors that have come until now. TransientError: the JVM is gone."""
        try:
            return int(self._context.defaultParallelism)
        except (Py4JError, OSError) as exc:
            raise _is_gone() from exc

    def require_alive(self) -> None:
        """Raise TransientError when the JVM or its scheduler is gone: this host is of no use any more."""
        try:
            is_stopped = bool(self._context._jsc.sc().isStopped())  # noqa: SLF001 (PySpark offers no other way)
        except (Py4JError, OSError) as exc:
            raise _is_gone() from exc
        if is_stopped:
            raise TransientError("Spark has stopped under the stream host", hint="its log has the reason")

    def _run(self, action: Start) -> None:
        wanted, attempt = action.wanted, action.attempt
        outcome, error, next_offset = Outcome.LOST, "it ended without a word: the host's log may have the reason", 0
        try:
            outcome, error, next_offset = self._run_job(action)
        except TransientError as exc:
            error = f"{type(exc).__name__}: {exc}"
        except SeamlineError as exc:
            # Of its plan, before a task has begun: only another plan, or another kind that is installed, changes that.
            outcome, error = Outcome.FINAL, f"{type(exc).__name__}: {exc}"
        except Py4JJavaError as exc:
            error = _reason(str(exc.java_exception.getMessage() or exc), wanted.stream)
            self._wait_for_worker(_group(wanted.stream, attempt))
        except (Py4JNetworkError, OSError) as exc:
            error = f"the JVM of the stream host is gone: {exc}"
        finally:
            self._ends.put(TaskEnd(wanted.stream, attempt, outcome, error, next_offset))

    def _wait_for_worker(self, group: str) -> None:
        """A cancelled job has ended before its task: until Spark has killed the worker, that may still write."""
        tracker = self._context.statusTracker()
        deadline = time.monotonic() + _KILLED_WITHIN_S
        while time.monotonic() < deadline:
            jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
            stages = [tracker.getStageInfo(number) for job in jobs if job for number in job.stageIds]
            if not any(stage.numActiveTasks for stage in stages if stage):
                return
            time.sleep(0.1)

    def _run_job(self, action: Start) -> tuple[Outcome, str, int]:
        wanted = action.wanted
        plan = plan_from_json(wanted.plan_json)
        require_kinds(plan, wanted.stream.destination)
        self._context.setJobGroup(
            _group(wanted.stream, action.attempt), f"stream {wanted.stream}", interruptOnCancel=True
        )
        task = StreamTask(
            wanted.stream.sync,
            wanted.stream.destination,
            wanted.plan_json,
            self._host,
            is_paused=wanted.paused,
            idle_after_s=self._idle_after_s,
        )
        if registry.needs_frames(plan, wanted.stream.destination):
            outcome, error, next_offset = run_one(task, frames=SparkFrames(self._opened()))
        else:
            [(outcome, error, next_offset)] = self._job(task, action.code).collect()
        return Outcome(outcome), error, next_offset

    def _job(self, task: StreamTask, code: str) -> RDD[Ended]:
        """Spark has one daemon of Python workers for each environment that it is asked for, and a daemon loads the code
        when it starts. So another value means workers of the code that is installed by then."""
        with self._opening:
            if code:
                self._context.environment[CODE] = code
            made = self._context.parallelize([task.to_json()], 1).mapPartitions(self._partition)
            # This makes the job's own copy of the environment.
            made.id()
            return made

    def is_bound(self, stream: StreamId, plan: SyncPlan) -> bool:
        """Whether it runs in this very process, or on executors that have the code of this application's start: only
        another application changes that."""
        if not is_local(str(self._context.master)):
            return True
        return registry.needs_frames(plan, stream.destination)

    def _opened(self) -> SparkSession:
        """The application's session, from which each stream has its own."""
        with self._opening:
            if self._session is None:
                self._session = SparkSession(self._context)
            return self._session


def _is_gone() -> TransientError:
    return TransientError("the JVM of the stream host is gone", hint="start the host again")


def _group(stream: StreamId, attempt: int) -> str:
    return f"stream {stream} attempt {attempt}"


def _reason(text: str, stream: StreamId) -> str:
    """One line of a Java exception's text. A Python traceback in it is a bug of ours: that is logged whole."""
    if "cancelled" in text:
        return "cancelled"
    traceback = re.search(r"Traceback \(most recent call last\):\n.*?(?=\n\n|\Z)", text, re.DOTALL)
    if traceback:
        log.error("stream task failed: stream=%s\n%s", stream, traceback[0])
        return traceback[0].splitlines()[-1].strip()
    if "Python worker exited unexpectedly" in text or "crashed" in text:
        return "the worker process died"
    return text.splitlines()[0][:300]
