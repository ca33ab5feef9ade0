"""What the changes of one commit do to the rows of one table of a lake: new data files, and rows that go from old ones.

How a format writes down which rows are gone is its own matter.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.sinks.lake.batches import findings_of, net_copies, require_copies, require_stored
from seamline.sinks.lake.files import path_of
from seamline.sinks.lake.identity import identities
from seamline.sinks.lake.rows import FileRows, Numbers, Places, found_in
from seamline.sinks.lake.storage import RowStorage, read_columns, read_parts
from seamline.sinks.lake.stores import FilePath
from seamline.values.changes import ChangeBatch

# Where there are so many small files, as many as are JOINED_BYTES of Parquet together become one.
FILES_JOINED = 20
SMALL_BYTES, JOINED_BYTES = 8 * 2**20, 64 * 2**20
# A scan reads the dead rows of all files too. Where there are more than the first share of the living ones, the
# emptiest files are written again until there are less than the second: so a row that is written again is paid for by
# one that goes. In one commit up to so many bytes, or one file.
DEAD_MAX, DEAD_LEFT = 1.0, 0.5
REWRITTEN_BYTES = 64 * 2**20
# So much of Arrow makes one file of them.
PART_BYTES = 192 * 2**20


class RowEdit(ABC):
    """Over one state of the table: `sizes` has the bytes of its data files, `rows` what lives in them. Nothing that it
    does is seen by anybody."""

    def __init__(self, table: Table, storage: RowStorage, rows: dict[str, FileRows], sizes: Mapping[str, int]) -> None:
        self._table = table
        self._storage = storage
        self._rows = rows
        self._sizes = sizes
        # By path, the positions that this commit deletes.
        self._gone: dict[str, list[Numbers]] = {}
        # Data files that this commit takes out of the table.
        self._out: frozenset[str] = frozenset()

    def apply(self, batches: Iterable[ChangeBatch]) -> list[Finding]:
        """The batches of a span, in their order. Diverged: a row that must be there is not."""
        findings: list[Finding] = []
        for batch in batches:
            if batch.truncate_first:
                self._empty()
            if batch.rows.num_rows and self._table.is_keyed:
                findings += self._apply_keyed(batch)
            elif batch.rows.num_rows:
                self._apply_keyless(batch)
        return findings

    @abstractmethod
    def _write(self, rows: pa.Table, *, ending: str) -> str:
        """Stored rows, at least one, as one new data file; its path. `ending`: of its name."""

    def _divided(self, rows: pa.Table) -> Iterable[Numbers | None]:  # noqa: ARG002
        """Stored rows by the files that they may lie in together; None: all of them in one."""
        return (None,)

    def _part_of(self, path: str) -> Hashable:  # noqa: ARG002
        """Equal for data files whose rows may lie in one file."""
        return None

    @abstractmethod
    def _drop_added(self) -> None:
        """The data files that were written leave again."""

    def _file_at(self, path: str) -> FilePath:
        """A data file of the table, by the name that the table has for it."""
        return path_of(path)

    def _empty(self) -> None:
        self._drop_added()
        self._gone, self._rows, self._out = {}, {}, frozenset(self._sizes)

    # ---- tables with a key ------------------------------------------------------------------------------------------

    def _apply_keyed(self, batch: ChangeBatch) -> list[Finding]:
        places = found_in(self._rows, identities(self._table, batch.rows))
        findings = findings_of(self._table, batch, places.is_there)
        rows = self._filled(batch, places)
        for path, positions in places.by_file():
            self._remove(path, positions)
        self._add(rows.filter(pc.invert(batch.deleted)))
        return findings

    def _filled(self, batch: ChangeBatch, places: Places) -> pa.RecordBatch:
        """The rows, with the stored values of what the log left out."""
        if batch.missing is None:
            return batch.rows
        places = self._origins(batch, places)
        rows = batch.rows
        for name in batch.missing.schema.names:
            lacking = np.flatnonzero(batch.is_missing(name).to_numpy(zero_copy_only=False))
            if not len(lacking):
                continue
            require_stored(self._table, lacking=int((places.file[lacking] < 0).sum()))
            rows = rows.set_column(
                rows.schema.get_field_index(name),
                rows.schema.field(name),
                self._with_stored(rows, name, places, lacking),
            )
        return rows

    def _origins(self, batch: ChangeBatch, places: Places) -> Places:
        """Where the stored values are: under the old key of a row that has one."""
        if batch.old_key is None:
            return places
        is_given = batch.old_key.column(0).is_valid()
        moved = np.flatnonzero(is_given.to_numpy(zero_copy_only=False))
        key_alone = Table(self._table.name, self._table.key_columns, self._table.key)
        found = found_in(self._rows, identities(key_alone, batch.old_key.filter(is_given)))
        file, position = places.file.copy(), places.position.copy()
        file[moved], position[moved] = found.file, found.position
        return Places(places.paths, file, position)

    def _with_stored(self, rows: pa.RecordBatch, name: str, places: Places, lacking: Numbers) -> pa.Array:
        """A column with the stored values in the rows that lack them."""
        column = self._table.column(name)
        parts, values = [np.arange(rows.num_rows)], [rows.column(name)]
        taken, start = parts[0], rows.num_rows
        for number in np.unique(places.file[lacking]):
            here = lacking[places.file[lacking] == number]
            stored = read_columns(self._file_at(places.paths[int(number)]), [name]).column(name)
            found = stored.take(pa.array(places.position[here]))
            values.append(self._storage.typed_column(column, found))
            taken[here] = start + np.arange(len(here))
            start += len(here)
        return pa.concat_arrays(values).take(pa.array(taken))

    # ---- tables without a key ---------------------------------------------------------------------------------------

    def _apply_keyless(self, batch: ChangeBatch) -> None:
        net = net_copies(self._table, batch)
        self._remove_copies(net.identities, net.removed)
        self._add(net.added)

    def _remove_copies(self, wanted: pa.Array, copies: Numbers) -> None:
        """Exactly so many of each, the first ones in the order of files and positions."""
        left = copies.copy()
        for path in list(self._rows):
            if not left.any():
                return
            positions, which = self._rows[path].places_of(wanted)
            is_chosen = _rank(which) < left[which]
            if is_chosen.any():
                left -= np.bincount(which[is_chosen], minlength=len(left))
                self._remove(path, positions[is_chosen])
        total = int(copies.sum())
        require_copies(self._table, total, found=total - int(left.sum()))

    # ---- files ------------------------------------------------------------------------------------------------------

    def _remove(self, path: str, positions: Numbers) -> None:
        self._rows[path] = self._rows[path].without(positions)
        self._gone.setdefault(path, []).append(positions)

    def _add(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._put(self._storage.stored(self._table, rows), identities(self._table, rows), ending=".parquet")

    def _put(self, rows: pa.Table, found: pa.Array, *, ending: str) -> None:
        """Stored rows with their identities, as new data files."""
        for places in self._divided(rows):
            if places is None:
                self._take(self._write(rows, ending=ending), found)
            else:
                taken = pa.array(places)
                self._take(self._write(rows.take(taken), ending=ending), found.take(taken))

    def _take(self, path: str, found: pa.Array) -> None:
        self._rows[path] = FileRows(found, np.zeros(len(found), np.bool_))

    def _join_small_files(self) -> None:
        """Each commit leaves a file, and each change a dead row: where many files are small, or many rows dead, the
        living rows of some files become one.

        In the stream's own turn, because whoever does it beside the stream meets its deletes.
        """
        if small := self._small_files():
            self._write_again(small)
        if sparse := self._sparse_files():
            self._write_again(sparse)

    def _write_again(self, chosen: Sequence[str]) -> None:
        """The living rows of these files as few ones."""
        for rows, found in _in_parts(self._living(chosen)):
            self._put(rows, found, ending="-joined.parquet")
        for path in chosen:
            del self._rows[path]
            self._gone.pop(path, None)
        self._out |= frozenset(chosen)

    def _living(self, chosen: Sequence[str]) -> Iterator[tuple[pa.Table, pa.Array]]:
        """Living rows as they are stored, with their identities; of a large file one row group at a time."""
        schema = self._storage.storage_schema(self._table)
        for path in chosen:
            known, start = self._rows[path], 0
            for rows in read_parts(self._file_at(path), schema.names):
                alive = pa.array(~known.dead[start : start + rows.num_rows])
                found = known.identities.slice(start, rows.num_rows).filter(alive)
                start += rows.num_rows
                yield rows.filter(alive).cast(schema), found

    def _counts(self) -> tuple[int, int]:
        """How many rows live in the files, and how many are dead."""
        dead = sum(int(np.count_nonzero(rows.dead)) for rows in self._rows.values())
        return sum(len(rows.dead) for rows in self._rows.values()) - dead, dead

    def _small_files(self) -> list[str]:
        """Those of before that are worth to be joined: of where there are many, the least ones first."""
        parts: dict[Hashable, list[tuple[int, str]]] = {}
        for path, size in self._sizes.items():
            if path not in self._out and size <= SMALL_BYTES:
                parts.setdefault(self._part_of(path), []).append((size, path))
        many = sorted((of for of in parts.values() if len(of) >= FILES_JOINED), key=len, reverse=True)
        sizes = [one for of in many for one in sorted(of)]
        totals = accumulate(size for size, _ in sizes)
        return [path for total, (_, path) in zip(totals, sizes, strict=True) if total <= JOINED_BYTES]

    def _sparse_files(self) -> list[str]:
        """Those of before that are worth to be written again because of their dead rows, the emptiest first."""
        living, left = self._counts()
        if left <= living * DEAD_MAX:
            return []
        dead = {path: int(np.count_nonzero(self._rows[path].dead)) for path in self._rows.keys() & self._sizes.keys()}
        chosen, total = list[str](), 0
        for path in sorted(dead, key=lambda path: (-dead[path] / len(self._rows[path].dead), path)):
            total += self._sizes[path]
            if left <= living * DEAD_LEFT or (chosen and total > REWRITTEN_BYTES):
                break
            chosen.append(path)
            left -= dead[path]
        return chosen


def _in_parts(living: Iterable[tuple[pa.Table, pa.Array]]) -> Iterator[tuple[pa.Table, pa.Array]]:
    """As many together as are PART_BYTES in memory, at least one row."""
    held, size = list[tuple[pa.Table, pa.Array]](), 0
    for rows, found in living:
        if rows.num_rows:
            held.append((rows, found))
            size += rows.nbytes
        if size >= PART_BYTES:
            yield _together(held)
            held, size = [], 0
    if held:
        yield _together(held)


def _together(held: Sequence[tuple[pa.Table, pa.Array]]) -> tuple[pa.Table, pa.Array]:
    return pa.concat_tables([rows for rows, _ in held]), pa.concat_arrays([found for _, found in held])


def _rank(which: Numbers) -> Numbers:
    """Of each the number of equal ones before it."""
    order = np.argsort(which, kind="stable")
    ordered = which[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, np.int64)
    counts = np.diff(np.r_[starts, len(ordered)])
    rank = np.empty(len(which), np.int64)
    rank[order] = np.arange(len(ordered)) - np.repeat(starts, counts)
    return rank
