"""A batch of changes → what is staged: a binary COPY, by the encoder that writes whole tables too."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.databases.postgres.binary_copy import document_of
from seamline.sinks.postgres.nul import require_no_nul
from seamline.sinks.postgres.statements import TableStatements
from seamline.values.changes import ChangeBatch

# Up to this a batch travels as parameters of the statement that applies it: no staging table, one round trip.
_SENT_ROWS_MAX = 250
_SENT_BYTES_MAX = 4 << 20
# Each column is a parameter and a scan of its own.
_SENT_COLUMNS_MAX = 100


@dataclass(frozen=True, slots=True)
class Encoded:
    """`document`: its rows as a binary COPY of `TableStatements.fields`; empty where they are spilled. `is_sent`: they
    are few, and travel with the statements. `lacking`: the places in `TableStatements.unavailable` of which some lack
    the value; `moved`: new and old keys of those of them whose key changed, a binary COPY too. `chunk` as in
    ChangeBatch; its number then stands before the other fields.
    """

    table: str
    rows: int
    document: bytes
    is_sent: bool
    truncate_first: bool
    expects_deletes: bool
    chunk: int
    lacking: tuple[int, ...] = ()
    moved: bytes = b""


def encoded(on: TableStatements, batch: ChangeBatch) -> Encoded:
    """SchemaConflict: a text that PostgreSQL cannot hold."""
    table, rows = on.table, batch.rows.num_rows
    require_no_nul(table, batch.rows)
    control = [batch.offset, batch.deleted, batch.met, _missing(on, batch)] if table.is_keyed else [batch.copies]
    if batch.chunk:
        control.insert(0, pa.array(np.full(rows, batch.chunk, np.int32)))
    document = document_of(table.columns, batch.rows, control=control) if rows else b""
    moved = _moved(batch)
    is_small = rows <= _SENT_ROWS_MAX and len(document) <= _SENT_BYTES_MAX and len(on.fields) <= _SENT_COLUMNS_MAX
    return Encoded(
        table.name,
        rows,
        document,
        is_sent=is_small and not batch.chunk and not moved,
        truncate_first=batch.truncate_first,
        expects_deletes=batch.expects_deletes,
        chunk=batch.chunk,
        lacking=_lacking(on, batch),
        moved=moved,
    )


def _missing(on: TableStatements, batch: ChangeBatch) -> pa.Array:
    """A byte per column of `TableStatements.unavailable`; NULL where the row lacks nothing."""
    size = len(on.unavailable)
    if batch.missing is None:
        return pa.nulls(batch.rows.num_rows, pa.binary(max(size, 1)))
    flags = np.zeros((batch.rows.num_rows, size), np.uint8)
    for place, column in enumerate(on.unavailable.values()):
        flags[:, place] = batch.is_missing(column.name).to_numpy(zero_copy_only=False)
    held = pa.Array.from_buffers(pa.binary(size), len(flags), [None, pa.py_buffer(flags.tobytes())])
    return pc.if_else(pa.array(flags.any(axis=1)), held, pa.scalar(None, held.type))


def _lacking(on: TableStatements, batch: ChangeBatch) -> tuple[int, ...]:
    names = batch.missing.schema.names if batch.missing is not None else ()
    return tuple(place for place, column in enumerate(on.unavailable.values()) if column.name in names)


def _moved(batch: ChangeBatch) -> bytes:
    if batch.old_key is None:
        return b""
    is_moved = batch.old_key.column(0).is_valid()
    key = batch.table.key_columns
    new = batch.rows.select([column.name for column in key]).filter(is_moved)
    old = batch.old_key.filter(is_moved)
    both = pa.RecordBatch.from_arrays([*new.columns, *old.columns], names=[str(n) for n in range(2 * len(key))])
    return document_of([*key, *key], both)
