"""The one way to a Spark session. Master and resources come from spark-submit (the Spark connection); alone: local."""

import argparse
import os
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from seamline import settings
from seamline.cluster.spark_conf import for_executors, is_local

_LOCAL = "local[2]"
# Spark says by it where the JVM listens that has started a driver.
_JVM_ABOVE = "PYSPARK_GATEWAY_PORT"
# Values mean the same everywhere: UTC, and an error instead of a NULL where a cast or a sum does not fit.
_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # A second copy of a task that writes would write twice.
    "spark.speculation": "false",
    # What a lost executor has read is gone with its sessions: only another attempt of the whole job can read it again.
    "spark.stage.maxConsecutiveAttempts": "1",
    # The tasks of a read run all at once, or not at all.
    "spark.dynamicAllocation.enabled": "false",
}
_UNLESS_SAID = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    # So often Spark looks for the slots of a read's tasks before it gives up; ten minutes by its own default.
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "30",
}
# A job has as many tasks as on one machine. It begins when it knows its cores, after 30 s with those that it has.
_ON_A_CLUSTER = {
    "spark.cores.max": "4",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}
# A Python worker, and the process that reads a table: 90 and 214 MB were seen for small tables, 300 for wide ones.
_TASK_MB = 512


def submitted_conf(name: str) -> SparkConf:
    """What spark-submit was given; alone, a local Spark under this name.

    Made before there is a JVM, a SparkConf is empty (4.1.3), and what is set in it then overrules the Spark connection.
    """
    # Only a JVM that is started here takes notice of these.
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setMaster(_LOCAL).setAppName(name))
    return SparkConf()


def open_session(name: str) -> SparkSession:
    """The session of this process; made at the first call."""
    conf = submitted_conf(name)
    unless_said = _UNLESS_SAID if is_local(conf.get("spark.master", "")) else {**_UNLESS_SAID, **_ON_A_CLUSTER}
    for key, value in unless_said.items():
        conf.setIfMissing(key, value)
    for_tasks = for_executors(dict(conf.getAll()), settings.load(), task_mb=_TASK_MB)
    for key, value in {**_ALWAYS, **for_tasks}.items():
        conf.set(key, value)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    context = session.sparkContext
    if is_local(str(context.master)):
        # Without it workers are whatever `python3` the PATH has; on a cluster its own settings name the interpreter.
        context.pythonExec = sys.executable
    context.setLogLevel("WARN")
    return session


class Application:
    """The Spark application of this process. On one machine its session costs seconds, so it is opened by what needs
    it first; on a cluster, whose executors carry the data, at once. Safe for threads."""

    def __init__(self, name: str, session: SparkSession | None = None) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._session = session
        if session is None and not is_local(_master()):
            self._session = open_session(name)

    @classmethod
    def of(cls, session: SparkSession) -> "Application":
        """The one whose session somebody has opened."""
        return cls("", session)

    @property
    def is_open(self) -> bool:
        return self._session is not None

    @property
    def session(self) -> SparkSession:
        with self._lock:
            if self._session is None:
                self._session = open_session(self._name)
            return self._session

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()


def _master() -> str:
    """As it was submitted. Where no JVM has started this process, none is started to be asked."""
    environment = settings.process_environment()
    if _JVM_ABOVE in environment:
        return submitted_conf("seamline").get("spark.master", "")
    said = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    said.add_argument("--master")
    said.add_argument("--conf", action="append", default=[])
    known, _ = said.parse_known_args(shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", "")))
    by_conf = dict(one.partition("=")[::2] for one in known.conf)
    return str(known.master or by_conf.get("spark.master", _LOCAL))


@contextmanager
def as_an_application() -> Iterator[None]:
    """For a job that works without Spark. In cluster mode it opens a context: YARN counts a driver without one as
    failed. Elsewhere it opens none, which would cost seconds."""
    conf = submitted_conf("seamline") if _JVM_ABOVE in settings.process_environment() else None
    if conf is None or conf.get("spark.submit.deployMode") != "cluster":
        yield
        return
    context = SparkContext(conf=conf)
    try:
        yield
    finally:
        context.stop()
