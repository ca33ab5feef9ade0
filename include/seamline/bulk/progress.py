"""How far the copy of a table is: rows, bytes and percent, with an estimate, in the log of the task that copies it."""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

from seamline.domain.duration import duration
from seamline.kinds.bulk import BulkRead, PostgresCopy, TableRows

SAY_EVERY_S = 15.0
_MB = 1_000_000

PartT = TypeVar("PartT")


def to_log(line: str) -> None:
    """Of a process that reads: a line in the log of its task."""
    # A worker of Spark has no logging of its own: what it writes here comes into the log of the driver.
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@dataclass(slots=True)
class Progress:
    """Of one table. `expected`: about so many rows; 0 where that is not known."""

    table: str
    expected: int = 0
    say: Callable[[str], None] = to_log
    clock: Callable[[], float] = time.monotonic
    rows: int = 0
    size: int = 0
    began: float = field(init=False)
    said: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.said = self.clock()

    def passed(self, *, rows: int, size: int) -> None:
        """So many more; says how far it is where it has not for a while. A table that is copied soon says nothing."""
        self.rows, self.size = self.rows + rows, self.size + size
        now = self.clock()
        if now - self.said >= SAY_EVERY_S:
            self.said = now
            self.say(self.in_words(now - self.began))

    def in_words(self, elapsed_s: float) -> str:
        size = f"{self.size / _MB:,.1f} MB, {self.size / _MB / elapsed_s:,.1f} MB/s"
        if not self.rows:
            return f"copying {self.table}: {size}"
        if self.rows >= self.expected:
            return f"copying {self.table}: {self.rows:,} rows, {size}"
        left = timedelta(seconds=elapsed_s * (self.expected - self.rows) / self.rows)
        return (
            f"copying {self.table}: {self.rows:,} of about {self.expected:,} rows"
            f" ({100 * self.rows / self.expected:.0f} %), {size}, about {duration(left)} left"
        )


def progress_of(read: BulkRead) -> Progress:
    """How many rows a part of a table has, nobody has estimated."""
    is_whole = not read.segment.date_column
    return Progress(read.table.name, max(read.table.rows_estimate, 0) if is_whole else 0)


def counted(rows: TableRows, progress: Progress) -> TableRows:
    """The same rows, reported to `progress` as they pass. Of a native form only bytes are known."""
    if isinstance(rows, PostgresCopy):
        return PostgresCopy(_each(rows.blocks, lambda block: progress.passed(rows=0, size=len(block))))
    return replace(rows, batches=_each(rows.batches, lambda one: progress.passed(rows=one.num_rows, size=one.nbytes)))


def _each(parts: Iterator[PartT], report: Callable[[PartT], None]) -> Iterator[PartT]:
    for part in parts:
        report(part)
        yield part
