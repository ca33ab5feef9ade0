"""Where the rows of a lake's table stand: the identity of each row by file, and which rows are deleted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Table
from seamline.sinks.lake.identity import HASH_BYTES, ROW_HASH, identities
from seamline.sinks.lake.storage import RowStorage, read_columns
from seamline.sinks.lake.stores import FilePath

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


def identities_in(table: Table, path: str | FilePath, storage: RowStorage) -> pa.Array:
    """The identities of the rows of a data file, in its order."""
    if not table.is_keyed:
        # Not every format has bytes of one length.
        return read_columns(path, [ROW_HASH]).column(ROW_HASH).combine_chunks().cast(pa.binary(HASH_BYTES))
    alone = replace(table, columns=table.key_columns)
    return identities(alone, storage.typed(alone, read_columns(path, list(table.key))))
