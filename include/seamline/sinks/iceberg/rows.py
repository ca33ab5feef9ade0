"""Where the rows of a table stand: the identity of each row by file, and which rows are deleted."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamline.domain.catalogue import Table
from seamline.sinks.iceberg.manifests import Head
from seamline.sinks.iceberg.types import ROW_HASH, identities, typed
from seamline.sinks.lake.files import path_of

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of one data file, in its order. `dead` (never changed in place): deleted ones."""

    identities: pa.Array
    dead: Flags

    def without(self, positions: Numbers) -> "FileRows":
        dead = self.dead.copy()
        dead[positions] = True
        return replace(self, dead=dead)

    def places_of(self, wanted: pa.Array) -> tuple[Numbers, Numbers]:
        """The positions of living rows that are among the wanted, ascending, and of each which of these it is."""
        found = pc.fill_null(pc.index_in(self.identities, value_set=wanted), -1).to_numpy(zero_copy_only=False)
        positions = np.flatnonzero((found >= 0) & ~self.dead)
        return positions, found[positions].astype(np.int64)


@dataclass(frozen=True, slots=True)
class Places:
    """Of each wanted row the number of its file among `paths`, and its position there; -1 where the row is missing."""

    paths: Sequence[str]
    file: Numbers
    position: Numbers

    @property
    def is_there(self) -> Flags:
        return self.file >= 0

    def by_file(self) -> Iterator[tuple[str, Numbers]]:
        """The positions in each file."""
        for number in np.unique(self.file[self.is_there]):
            yield self.paths[int(number)], self.position[self.file == number]


def found_in(files: Mapping[str, FileRows], wanted: pa.Array) -> Places:
    """Each of the wanted rows, which all differ, as a table with a key has it: once."""
    file, position = (np.full(len(wanted), -1, np.int64) for _ in range(2))
    for number, rows in enumerate(files.values()):
        positions, which = rows.places_of(wanted)
        file[which], position[which] = number, positions
    return Places(list(files), file, position)


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
        files = {path: self._files[path] if path in self._files else self._read(path) for path in paths}
        # A file that is new here may have deletes that are known.
        unread = deletes if new else deletes - self._deletes
        for path, positions in _deleted(unread).items():
            if path in files:
                files[path] = files[path].without(positions)
        self._files, self._deletes = files, deletes
        return dict(files)

    def keep(self, head: Head, files: Mapping[str, FileRows]) -> None:
        """The rows as a commit of our own has left them: nothing is read again."""
        self._files = {entry.data_file.file_path: files[entry.data_file.file_path] for entry in head.data}
        self._deletes = frozenset(entry.data_file.file_path for entry in head.deletes)

    def _read(self, path: str) -> FileRows:
        found = identities_in(self._table, path)
        return FileRows(found, np.zeros(len(found), np.bool_))


def identities_in(table: Table, path: str) -> pa.Array:
    """The identities of the rows of a data file, in its order."""
    if not table.is_keyed:
        found = read_columns(path, [ROW_HASH]).column(ROW_HASH).combine_chunks()
        return found
    alone = replace(table, columns=table.key_columns)
    return identities(alone, typed(alone, read_columns(path, list(table.key))))


def read_columns(path: str, names: Sequence[str]) -> pa.Table:
    return pq.read_table(path_of(path), columns=list(names), partitioning=None)


def _deleted(paths: Iterable[str]) -> dict[str, Numbers]:
    """By data file, the positions that these files of position deletes name."""
    found: dict[str, list[Numbers]] = {}
    for path in paths:
        rows = pq.read_table(path_of(path), columns=["file_path", "pos"], read_dictionary=["file_path"])
        column = rows.column("file_path").unify_dictionaries().combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        codes, positions = column.indices.to_numpy(), rows.column("pos").to_numpy()
        for code, name in enumerate(column.dictionary.to_pylist()):
            found.setdefault(name, []).append(positions[codes == code])
    return {name: np.concatenate(parts) for name, parts in found.items()}
