"""What the changes of one commit do to one table: new data files, and position deletes of the rows that go."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.typedef import Record

from seamline.domain.catalogue import Table
from seamline.sinks.iceberg import types
from seamline.sinks.iceberg.data_files import write_deletes, written_file
from seamline.sinks.iceberg.manifests import Head
from seamline.sinks.iceberg.partitions import Division
from seamline.sinks.iceberg.rows import RowIndex
from seamline.sinks.iceberg.snapshot import FileChanges, staged_head
from seamline.sinks.lake.edit import RowEdit
from seamline.sinks.lake.files import NewFiles
from seamline.sinks.lake.rows import FileRows, Numbers
from seamline.sinks.lake.storage import write_parquet
from seamline.sinks.lake.stores import FilePath

# So many files of deletes of one partition become one. So do fewer ones of all partitions, where they name more rows of
# files that are gone than live.
DELETES_JOINED = 20
Partition = tuple[object, ...]


class TableEdit(RowEdit):
    """Over one head of the table, and it changes nothing of the index. `division`: how the head is divided, its rows in
    no order."""

    def __init__(self, table: Table, head: Head, index: RowIndex, files: NewFiles, division: Division) -> None:
        sizes = {entry.data_file.file_path: entry.data_file.file_size_in_bytes for entry in head.data}
        super().__init__(table, types, index.of(head), sizes)
        self._head = head
        self._files = files
        self._division = division
        self._partitions = {entry.data_file.file_path: entry.data_file.partition for entry in head.data}
        self._added: dict[str, DataFile] = {}

    def staged(self) -> tuple[Head, dict[str, FileRows]] | None:
        """The table after it, and its rows by file; None where nothing has changed."""
        if not (self._added or self._gone or self._out):
            return None
        self._join_small_files()
        deletes = self._written_deletes()
        changes = FileChanges(tuple(self._added.values()), deletes, self._out)
        return staged_head(self._head, changes, self._files), self._rows

    def _file_at(self, path: str) -> FilePath:
        return self._head.io.path_of(path)

    def _write(self, rows: pa.Table, *, ending: str) -> str:
        path = self._files.data(ending)
        write_parquet(rows, path)
        file = written_file(path, partition=self._division.partition_of_first(rows))
        self._added[file.file_path], self._partitions[file.file_path] = file, file.partition
        return file.file_path

    def _divided(self, rows: pa.Table) -> Iterable[Numbers | None]:
        return (None,) if self._division.is_whole else self._division.places(rows)

    def _part_of(self, path: str) -> Partition:
        return _values(self._partitions[path])

    def _drop_added(self) -> None:
        self._files.drop(map(self._file_at, self._added))
        self._added = {}

    def _empty(self) -> None:
        super()._empty()
        self._out = self._head.paths

    def _written_deletes(self) -> tuple[DataFile, ...]:
        """Those of this commit, a file for each partition; where a partition has some already, all of its as one."""
        positions = {path: np.concatenate(parts) for path, parts in self._gone.items()}
        files = [entry.data_file for entry in self._head.deletes if entry.data_file.file_path not in self._out]
        named = sum(file.record_count for file in files) + sum(map(len, positions.values()))
        living, dead = self._counts()
        before = Counter(_values(file.partition) for file in files)
        least = 1 if named - dead > living else DELETES_JOINED
        joined = {part for part, count in before.items() if count >= least}
        if joined:
            all_dead = {path: np.flatnonzero(rows.dead) for path, rows in self._rows.items() if rows.dead.any()}
            positions |= {path: found for path, found in all_dead.items() if self._part_of(path) in joined}
            self._out |= {file.file_path for file in files if _values(file.partition) in joined}
        return tuple(
            write_deletes(of, self._files.data("-deletes.parquet"), partition=self._partitions[min(of)])
            for of in self._by_partition(positions)
        )

    def _by_partition(self, positions: Mapping[str, Numbers]) -> Iterator[dict[str, Numbers]]:
        found: dict[Partition, dict[str, Numbers]] = {}
        for path, of in positions.items():
            found.setdefault(self._part_of(path), {})[path] = of
        yield from found.values()


def _values(partition: Record) -> Partition:
    return tuple(partition[number] for number in range(len(partition)))


def replaced(head: Head, data: Iterable[DataFile], deletes: Iterable[DataFile], files: NewFiles) -> Head:
    """The table with other rows: those of files that lie somewhere else."""
    return staged_head(head, FileChanges(tuple(data), tuple(deletes), head.paths), files)
