"""The rows of a table as its change files make them: of each key the newest, of rows without a key what is left.

Two passes over the files: the first reads keys and what happened to them, the second the rows that stand. Memory holds
the keys, not the rows.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Table
from seamline.domain.errors import Diverged
from seamline.sinks.files.changes import columns
from seamline.sinks.files.changes.change_files import Read
from seamline.sinks.files.changes.columns import rows_in
from seamline.sinks.files.changes.state import ChangeFile
from seamline.values.digest import key_texts, row_hashes

_GONE = pa.array([columns.GOES, columns.TRUNCATED])


def standing(table: Table, files: Sequence[ChangeFile], read: Read) -> Iterator[pa.RecordBatch]:
    """Those changes whose rows stand behind all of them, as `ChangeForm` has them. Of a table without a key `_copies`
    is how many of a row there are.

    Diverged: of a row without a key more copies went than had come.
    """
    left = _left(table, files, read)
    start = 0
    for file in files:
        for batch in read(file):
            copies = left[start : start + batch.num_rows]
            start += batch.num_rows
            stand = batch.filter(pa.array(copies > 0))
            if stand.num_rows:
                yield stand if table.is_keyed else _with_copies(stand, copies[copies > 0])


def folded(table: Table, files: Sequence[ChangeFile], read: Read) -> Iterator[pa.RecordBatch]:
    """The rows of the table, each as often as it is there."""
    for stand in standing(table, files, read):
        rows = rows_in(table, stand)
        if not table.is_keyed:
            copies = stand.column(columns.COPIES).to_numpy()
            rows = rows.take(pa.array(np.repeat(np.arange(len(copies)), copies)))
        yield rows


def _left(table: Table, files: Sequence[ChangeFile], read: Read) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Per change how many rows of it stand: the number of a row without a key is with its first change."""
    names, weights, start, emptied = list[pa.Array](), list[pa.Array](), 0, 0
    for file in files:
        for batch in read(file):
            op = batch.column(columns.OP)
            is_emptied = pc.equal(op, columns.TRUNCATED).to_numpy(zero_copy_only=False)
            if is_emptied.any():
                emptied = start + int(np.flatnonzero(is_emptied)[-1]) + 1
            rows = rows_in(table, batch)
            names.append(key_texts(table, rows) if table.is_keyed else row_hashes(table, rows, run_key=""))
            weights.append(_weights(table, batch))
            start += batch.num_rows
    found = np.zeros(start, np.int64)
    if start == emptied:
        return found
    changes = pa.table(
        {
            "name": pa.chunked_array(names),
            "place": pa.array(np.arange(start, dtype=np.int64)),
            "weight": pa.chunked_array(weights),
        }
    ).slice(emptied)
    if table.is_keyed:
        newest = changes.group_by("name").aggregate([("place", "max")]).column("place_max").to_numpy()
        found[newest] = changes.column("weight").to_numpy()[newest - emptied]
        return found
    counted = changes.group_by("name").aggregate([("place", "min"), ("weight", "sum")])
    sums = counted.column("weight_sum").to_numpy()
    if (least := int(sums.min())) < 0:
        raise Diverged(f"{-least} copies too many of a row of {table.name} went", table=table.name)
    found[counted.column("place_min").to_numpy()] = sums
    return found


def _weights(table: Table, batch: pa.RecordBatch) -> pa.Array:
    if not table.is_keyed:
        return batch.column(columns.COPIES)
    return pc.invert(pc.is_in(batch.column(columns.OP), _GONE)).cast(pa.int64())


def _with_copies(stand: pa.RecordBatch, copies: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.RecordBatch:
    place = stand.schema.get_field_index(columns.COPIES)
    return stand.set_column(place, stand.schema.field(place), pa.array(copies))
