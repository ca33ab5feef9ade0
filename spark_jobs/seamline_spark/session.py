"""The one way to a Spark session. Master and resources come from spark-submit (the Spark connection); alone: local."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

_LOCAL = "local[2]"
# Values mean the same everywhere: UTC, and an error instead of a NULL where a cast or a sum does not fit.
_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # A second copy of a task that writes would write twice.
    "spark.speculation": "false",
}
_UNLESS_SAID = {
    "spark.master": _LOCAL,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}


def open_session(name: str) -> SparkSession:
    """The session of this process; made at the first call."""
    conf = SparkConf().setIfMissing("spark.app.name", name)
    for key, value in _UNLESS_SAID.items():
        conf.setIfMissing(key, value)
    for key, value in _ALWAYS.items():
        conf.set(key, value)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    context = session.sparkContext
    if (context.master or "").startswith("local"):
        # Without it workers are whatever `python3` the PATH has; on a cluster its own settings name the interpreter.
        context.pythonExec = sys.executable
    context.setLogLevel("WARN")
    return session


@contextmanager
def as_an_application() -> Iterator[None]:
    """For a job whose work no Spark does. In cluster mode a context: YARN takes a driver that never opens one for
    failed. Else none, it costs seconds."""
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    conf = SparkConf(_jvm=gateway.jvm)
    if conf.get("spark.submit.deployMode") != "cluster":
        yield
        return
    context = SparkContext(conf=conf, gateway=gateway)
    try:
        yield
    finally:
        context.stop()
