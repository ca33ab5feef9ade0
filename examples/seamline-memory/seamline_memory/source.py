"""`ports.Source` over a bank in memory, and its snapshot for tasks."""

import difflib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from seamline.domain.catalogue import Table, alterations
from seamline.domain.errors import InvariantViolated, Refused
from seamline.kinds.bulk import ArrowRows, BulkRead, CopyTasks, OpenedSource, Wanted
from seamline.ports import Marker, Problem, Survey
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of
from seamline_memory.bank import MARKERS, Bank, Contents
from seamline_memory.read_view import MemoryView


class MemorySource:
    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    def survey(self, tables: Sequence[str]) -> Survey:
        known = self._bank.tables
        problems = tuple(_unknown(name, list(known)) for name in tables if name not in known)
        return Survey(tuple(known[name] for name in tables if name in known), problems)

    def catalogue(self, tables: Sequence[str]) -> tuple[Table, ...]:
        return self.survey(tables).whole()

    def altered(self, planned: Sequence[Table]) -> list[str]:
        now = self.catalogue([table.name for table in planned])
        return [text for old, new in zip(planned, now, strict=True) for text in alterations(old, new)]

    def preflight(self, tables: Sequence[Table]) -> tuple[Problem, ...]:  # noqa: ARG002
        return ()

    def commit_marker(self, marker: Marker) -> None:
        with self._bank.transaction() as transaction:
            if marker.id not in {row[0] for row in transaction.rows[MARKERS.name]}:
                at = int(time.time() * 1000)
                transaction.insert(MARKERS.name, (marker.id, marker.kind, json.dumps(dict(marker.payload)), at))

    def prune_markers(self, *, older_than_s: float, rows_max: int) -> int:
        before_ms = (time.time() - older_than_s) * 1000
        with self._bank.transaction() as transaction:
            old = [row for row in transaction.rows[MARKERS.name] if row[3] < before_ms][:rows_max]
            for row in old:
                transaction.delete(MARKERS.name, row)
        return len(old)

    def open_views(self, count: int) -> Sequence[MemoryView]:
        return [view_of(self._bank.tables.values(), self._bank.contents)] * count


def view_of(tables: Iterable[Table], contents: Contents) -> MemoryView:
    return MemoryView(contents.position, {table: batch_of(table, contents.rows[table.name]) for table in tables})


@contextmanager
def open_for_tasks(bank: Bank, wanted: Wanted, tasks: CopyTasks) -> Iterator[OpenedSource]:
    """What is committed now is held under the attempt's name, where the tasks find it."""
    held = HELD[wanted.attempt] = bank.contents
    try:
        tasks.start(wanted.attempt)
        views = [view_of(wanted.tables, held)] * wanted.views
        yield OpenedSource(views, held.position, datetime.now(UTC), str(held.position))
    finally:
        del HELD[wanted.attempt]


HELD: dict[str, Contents] = {}


class MemoryReaders:
    """`TableReaders` of one task."""

    def __init__(self, reads: Sequence[BulkRead], barrier: str) -> None:
        self._reads = reads
        self._barrier = barrier
        self._held: Contents | None = None

    def open_at_barrier(self) -> None:
        if self._barrier not in HELD:
            raise Refused(f"snapshot {self._barrier} is over, or was opened in another process")
        self._held = HELD[self._barrier]

    def rows(self, number: int, *, proven: Callable[[str], None]) -> ArrowRows:
        if self._held is None:
            raise InvariantViolated("the readers have not met yet")
        proven(str(self._held.position))
        table = self._reads[number].table
        return ArrowRows(schema_of(table), iter([batch_of(table, self._held.rows[table.name])]))

    def close(self) -> None:
        return


def _unknown(name: str, known: Sequence[str]) -> Problem:
    near = difflib.get_close_matches(name, known, n=1)
    guess = f"Did you mean `{near[0]}`?" if near else f"The bank has: {', '.join(sorted(known))}"
    return Problem(f"there is no table {name}", guess, table=name)
