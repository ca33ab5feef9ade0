"""Where the rows of an Iceberg table stand, by the position deletes of its files."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.sinks.iceberg import types
from seamline.sinks.iceberg.io import WarehouseIO
from seamline.sinks.iceberg.manifests import Head
from seamline.sinks.lake.rows import FileRows, Numbers, identities_in
from seamline.sinks.lake.storage import read_parquet


class RowIndex:
    """The rows of a table's live files, kept from commit to commit: to find them means to read their keys."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._files: dict[str, FileRows] = {}
        self._deletes: frozenset[str] = frozenset()

    def of(self, head: Head) -> dict[str, FileRows]:
        """By path, in the order of the table's files."""
        deletes = frozenset(entry.data_file.file_path for entry in head.deletes)
        if not self._deletes <= deletes:
            self._files, self._deletes = {}, frozenset()
        paths = [entry.data_file.file_path for entry in head.data]
        new = [path for path in paths if path not in self._files]
        files = {path: self._files[path] if path in self._files else self._read(path, head.io) for path in paths}
        # A file that is new here may have deletes that are known.
        unread = deletes if new else deletes - self._deletes
        for path, positions in _deleted(unread, head.io).items():
            if path in files:
                files[path] = files[path].without(positions)
        self._files, self._deletes = files, deletes
        return dict(files)

    def keep(self, head: Head, files: Mapping[str, FileRows]) -> None:
        """The rows as a commit of our own has left them: nothing is read again."""
        self._files = {entry.data_file.file_path: files[entry.data_file.file_path] for entry in head.data}
        self._deletes = frozenset(entry.data_file.file_path for entry in head.deletes)

    def _read(self, path: str, io: WarehouseIO) -> FileRows:
        found = identities_in(self._table, io.path_of(path), types)
        return FileRows(found, np.zeros(len(found), np.bool_))


def _deleted(paths: Iterable[str], io: WarehouseIO) -> dict[str, Numbers]:
    """By data file, the positions that these files of position deletes name."""
    found: dict[str, list[Numbers]] = {}
    for path in paths:
        rows = read_parquet(io.path_of(path), ["file_path", "pos"], read_dictionary=["file_path"])
        column = rows.column("file_path").unify_dictionaries().combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        codes, positions = column.indices.to_numpy(), rows.column("pos").to_numpy()
        for code, name in enumerate(column.dictionary.to_pylist()):
            found.setdefault(name, []).append(positions[codes == code])
    return {name: np.concatenate(parts) for name, parts in found.items()}
