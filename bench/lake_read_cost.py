"""What a scan of an Iceberg table costs during a day of commits every ten seconds: 8,640 of them, as fast as they go.

Each changes rows all over the table, 80 % updates, 10 % deletes, 10 % inserts, and is written as a stream writes it,
with what it joins and writes again by itself; there is no catalogue. Before each hour is over, when most is waiting to
be joined, the table is scanned by pyiceberg, and beside it the same rows in one file.
Goal: never more than three times the scan of one file, by rows and by bytes; the table is right at the end. The clock
is pyiceberg's own: to it a file of which a single row is deleted may cost as much as several without deletes.

No server takes part: `.seamline/env/venv/bin/python -m bench.lake_read_cost`; `--commits 864` for a tenth of a day.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyiceberg.manifest import ManifestEntry
from pyiceberg.table import StaticTable

from bench.lake_table import SCHEMA, TABLE, History, table_changes
from seamline.sinks.iceberg.data_files import written_file
from seamline.sinks.iceberg.edit import TableEdit
from seamline.sinks.iceberg.layout import TableLayout
from seamline.sinks.iceberg.manifests import Head
from seamline.sinks.iceberg.partitions import Division
from seamline.sinks.iceberg.rows import RowIndex
from seamline.sinks.iceberg.snapshot import FileChanges, new_head, obsolete, staged_head
from seamline.sinks.iceberg.types import storage_schema
from seamline.sinks.lake.files import NewFiles, make_folder, new_location, remove
from seamline.sinks.lake.storage import write_parquet
from seamline.values.changes import change_batch
from tests.checkout import day_and_commit
from tests.log_topic import sync_plan
from tests.opened_sink import decoder_of

DAY, HOURS = 8_640, 24
GOAL = 3.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Of the table, as parts of what the same rows in one file cost; `files` with those of deletes."""

    rows: float
    bytes: float
    clock: float
    files: int


class Table:
    """One table without a catalogue, each commit on top of the one before."""

    def __init__(self, folder: Path, rows: pa.Table) -> None:
        self._folder = folder
        self._decoder = decoder_of(sync_plan([TABLE]))
        self._index = RowIndex(TABLE)
        self.head = self._placed("live", rows)

    def commit(self, history: History) -> None:
        batch = change_batch(TABLE, table_changes(history.next(), offset=history.batches), self._decoder)
        files = NewFiles(self.head.metadata.location, "bench")
        edit = TableEdit(TABLE, self.head, self._index, files, Division(TABLE, TableLayout()))
        if edit.apply([batch]):
            raise RuntimeError("a change has met what it should not")
        staged = edit.staged()
        assert staged is not None
        before, (self.head, rows) = self.head, staged
        self._index.keep(self.head, rows)
        for path in obsolete(before.metadata, self.head.metadata):
            remove(path)

    def cost(self, number: int) -> Cost:
        living = scanned(self.head)
        alone = self._placed(f"alone-{number}", living)
        ours, theirs = (statistics.median(_timed(head) for _ in range(3)) for head in (self.head, alone))
        entries, one = (*self.head.data, *self.head.deletes), (*alone.data, *alone.deletes)
        rows = sum(entry.data_file.record_count for entry in self.head.data) / living.num_rows
        return Cost(rows, _bytes(entries) / _bytes(one), ours / theirs, len(entries))

    def _placed(self, name: str, rows: pa.Table) -> Head:
        """A table of its own with these rows in one file."""
        location = new_location(str(self._folder), "bench", name)
        make_folder(location)
        base = new_head(TABLE, location)
        files = NewFiles(base.metadata.location, "bench")
        path = files.data(".parquet")
        write_parquet(rows.select(SCHEMA.names).cast(storage_schema(TABLE)), path)
        return staged_head(base, FileChanges([written_file(path)]), files)


def scanned(head: Head) -> pa.Table:
    return StaticTable.from_metadata(head.location).scan().to_arrow()


def _timed(head: Head) -> float:
    began = time.perf_counter()
    scanned(head)
    return time.perf_counter() - began


def _bytes(entries: Sequence[ManifestEntry]) -> int:
    return sum(entry.data_file.file_size_in_bytes for entry in entries)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-lake-") as folder:
        yield Path(folder)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--changes", type=int, default=1_000, help="in each commit")
    parser.add_argument("--commits", type=int, default=DAY)
    asked = parser.parse_args()
    print(f"{day_and_commit()}: {asked.rows:,} rows, {asked.commits:,} commits of {asked.changes:,} changes")
    worst = Cost(0, 0, 0, 0)
    with _folder() as folder:
        history = History(asked.rows, asked.changes)
        table, took = Table(folder, history.first()), list[float]()
        every = max(1, asked.commits // HOURS)
        for number in range(1, asked.commits + 1):
            began = time.perf_counter()
            table.commit(history)
            took.append(time.perf_counter() - began)
            if number % every == every - 1:
                now = table.cost(number)
                worst = Cost(*(max(getattr(worst, name), getattr(now, name)) for name in Cost.__slots__))
                print(
                    f"after {number:,}: {now.rows:.2f} × rows, {now.bytes:.2f} × bytes, {now.clock:.2f} × clock,"
                    f" {now.files} files; commit p50 {statistics.median(took):.3f} s, at most {max(took):.2f} s",
                    flush=True,
                )
                took.clear()
        history.require(scanned(table.head))
    print(f"at most {worst.rows:.2f} × rows, {worst.bytes:.2f} × bytes, {worst.clock:.2f} × clock, {worst.files} files")
    return 0 if max(worst.rows, worst.bytes) <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
