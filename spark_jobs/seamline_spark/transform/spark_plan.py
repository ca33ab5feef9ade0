"""Spark's plans as Python sees them: what row by row transforms and jobs on a cut ask of one, and where it is in a
file."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from seamline_spark.transform.function import NoFrame, line_in

_LINE = re.compile(r"line (\d+)")
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"


@dataclass(frozen=True, slots=True)
class Mistake:
    """What keeps a query from being a transform, at a line of its file, and how to mend it."""

    line: int
    what: str
    cure: str


class MistakeFound(Exception):
    def __init__(self, line: int, what: str, cure: str) -> None:
        super().__init__(what)
        self.mistake = Mistake(line, what, cure)


def refused(file: str, error: PySparkException | NoFrame, *, cure: str) -> MistakeFound:
    """What Spark, or Python, has against the text of a file. `cure`: of what Spark says."""
    if isinstance(error, NoFrame):
        return MistakeFound(error.line, error.what, "It holds a function `transform`, which returns a DataFrame")
    message = str(error)
    line = _LINE.search(message)
    first = message.strip().splitlines()[0].partition(" SQLSTATE")[0].rstrip()
    return MistakeFound((int(line[1]) if line else line_in(file, error)) or 1, first, cure)


def analysed_plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def queried(session: SparkSession, text: str) -> DataFrame:
    """The query's frame. MistakeFound: it is none."""
    parsed = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    _require_query(session, parsed)
    return session.sql(text)


def _require_query(session: SparkSession, parsed: Any) -> None:
    """Before Spark is asked to analyse it: it carries out a command while it does."""
    classes = session._jvm.java.lang.Class  # type: ignore[union-attr]
    for name in ("Command", "ParsedStatement"):
        if classes.forName(f"{_LOGICAL}.{name}").isInstance(parsed):
            raise MistakeFound(line_of(parsed) or 1, "this is no query", "Write one SELECT")


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def each(sequence: Any) -> Iterator[Any]:
    """Of a sequence of Scala."""
    for number in range(sequence.size()):
        yield sequence.apply(number)


def class_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def line_of(node: Any) -> int:
    """In the query, or in the file of the function; 0 where Spark does not say."""
    found = node.origin().line()
    if found.isDefined():
        return int(found.get())
    called = node.origin().pysparkErrorContext()
    place = str(called.get()._2()) if called.isDefined() else ""
    line = place.rpartition(":")[2]
    return int(line) if line.isdigit() else 0


def first_line(plan: Any) -> int:
    lines = [line for one in each(plan.expressions()) if (line := line_of(one))]
    return min(lines, default=line_of(plan) or 1)
