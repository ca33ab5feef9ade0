"""By what a lake's sink finds a row again: its key, or the hash that a table without a key stores of each row."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from seamline.domain.canonical import FLOAT_KINDS
from seamline.domain.catalogue import Kind, Table
from seamline.values.digest import row_hashes

# The column of that hash: 128 bits.
ROW_HASH = "seamline_row_hash"
HASH_BYTES = 16


def identities(table: Table, rows: pa.RecordBatch) -> pa.Array:
    """The identity of a row: the key itself where it is one whole number, else 128 bits of the hash of the key's
    canonical text; of a table without a key, of the whole row's.

    `rows` has the table's columns; of a keyed table those of the key are enough (`key_table`).
    """
    if has_whole_key(table):
        return rows.column(_place(table, table.key[0])).cast(pa.int64())
    hashed = key_table(table) if table.is_keyed else _exact(table)
    columns = [rows.column(_place(table, column.name)) for column in hashed.columns]
    batch = pa.RecordBatch.from_arrays(columns, names=[column.name for column in hashed.columns])
    return _halves(row_hashes(hashed, batch, run_key=""))


def has_whole_key(table: Table) -> bool:
    """Whether one number of 64 bits identifies a row."""
    return len(table.key) == 1 and table.column(table.key[0]).kind in (Kind.INTEGER, Kind.YEAR)


def key_table(table: Table) -> Table:
    """The key alone, in its declared order, every column of it exact."""
    return _exact(replace(table, columns=table.key_columns))


def _exact(table: Table) -> Table:
    """With every column in the row text: that of an inexact one is another server's, and still the row's own here."""
    columns = tuple(
        replace(column, source_type="double precision") if column.kind in FLOAT_KINDS else column
        for column in table.columns
    )
    return replace(table, columns=columns, key=())


def _place(table: Table, name: str) -> int:
    return next(number for number, column in enumerate(table.columns) if column.name == name)


def _halves(hashes: pa.Array) -> pa.Array:
    """The first 128 bits of hashes in lower hex."""
    digits = "".join(hashes.to_pylist())
    whole = np.frombuffer(bytes.fromhex(digits), np.uint8).reshape(-1, 2 * HASH_BYTES)
    content = np.ascontiguousarray(whole[:, :HASH_BYTES]).tobytes()
    return pa.Array.from_buffers(pa.binary(HASH_BYTES), len(hashes), [None, pa.py_buffer(content)])
