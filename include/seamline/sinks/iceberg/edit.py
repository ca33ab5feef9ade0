"""What the changes of one commit do to one table: new data files, and position deletes of the rows that go."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile

from seamline.domain.catalogue import Table
from seamline.sinks.iceberg import types
from seamline.sinks.iceberg.data_files import write_deletes, written_file
from seamline.sinks.iceberg.manifests import Head
from seamline.sinks.iceberg.rows import RowIndex
from seamline.sinks.iceberg.snapshot import FileChanges, staged_head
from seamline.sinks.lake.edit import RowEdit
from seamline.sinks.lake.files import NewFiles
from seamline.sinks.lake.rows import FileRows
from seamline.sinks.lake.storage import write_parquet
from seamline.sinks.lake.stores import FilePath

# So many files of deletes become one. So do fewer ones, where they name more rows of files that are gone than live.
DELETES_JOINED = 20


class TableEdit(RowEdit):
    """Over one head of the table, and it changes nothing of the index."""

    def __init__(self, table: Table, head: Head, index: RowIndex, files: NewFiles) -> None:
        sizes = {entry.data_file.file_path: entry.data_file.file_size_in_bytes for entry in head.data}
        super().__init__(table, types, index.of(head), sizes)
        self._head = head
        self._files = files
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
        file = written_file(path)
        self._added[file.file_path] = file
        return file.file_path

    def _drop_added(self) -> None:
        self._files.drop(map(self._file_at, self._added))
        self._added = {}

    def _empty(self) -> None:
        super()._empty()
        self._out = self._head.paths

    def _written_deletes(self) -> tuple[DataFile, ...]:
        """Those of this commit; beyond some files all that there are, as one."""
        positions = {path: np.concatenate(parts) for path, parts in self._gone.items()}
        files = [entry.data_file for entry in self._head.deletes if entry.data_file.file_path not in self._out]
        named = sum(file.record_count for file in files) + sum(map(len, positions.values()))
        living, dead = self._counts()
        if len(files) >= DELETES_JOINED or (files and named - dead > living):
            positions = {path: np.flatnonzero(rows.dead) for path, rows in self._rows.items() if rows.dead.any()}
            self._out |= {file.file_path for file in files}
        return (write_deletes(positions, self._files.data("-deletes.parquet")),) if positions else ()


def replaced(head: Head, data: Iterable[DataFile], deletes: Iterable[DataFile], files: NewFiles) -> Head:
    """The table with other rows: those of files that lie somewhere else."""
    return staged_head(head, FileChanges(tuple(data), tuple(deletes), head.paths), files)
