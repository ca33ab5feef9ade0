"""`kinds.frames.Frames` over a Spark session."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from seamline.domain.errors import TransientError


class SparkFrames:
    """A session of its own beside `session`: it shares the application, not its settings, catalogues and views."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session.newSession()
        # A shuffle need not have more parts than the cluster has places for them.
        self.configure({"spark.sql.shuffle.partitions": str(session.sparkContext.defaultParallelism)})

    def has(self, class_name: str) -> bool:
        jvm = self._session._jvm  # noqa: SLF001 (PySpark offers no other way)
        try:
            jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(class_name)
        except Py4JJavaError:
            return False
        return True

    def configure(self, options: Mapping[str, str]) -> None:
        for name, value in options.items():
            self._session.conf.set(name, value)

    def show(self, view: str, rows: pa.Table) -> None:
        with _translated():
            self._session.createDataFrame(rows).createOrReplaceTempView(view)

    def run(self, statement: str) -> pa.Table:
        with _translated():
            return self._session.sql(statement).toArrow()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (AnalysisException, ParseException):
        # No statement is made of anything that a user wrote: this is a bug.
        raise
    except (PySparkException, Py4JError, OSError) as exc:
        raise TransientError(f"Spark could not do it: {reason(exc)}", hint="it is tried again") from exc


def reason(error: Exception) -> str:
    """Its first line."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    return text.strip().partition("\n")[0][:300]
