"""A batch of changes → the document that a session stages."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from seamline.sinks.relational.encode import document_of, escaped, fields_of, hashes_of, joined, lines_of
from seamline.sinks.relational.statements import TableStatements
from seamline.values.arrow import BYTES, TEXT
from seamline.values.changes import ChangeBatch


@dataclass(frozen=True, slots=True)
class Encoded:
    """`document`: its rows, in the fields of `TableStatements`; empty where they are spilled. `is_partial`: some lack
    values; `is_moved`: of some of those the old key is known."""

    document: bytes
    rows: int
    has_deletes: bool = False
    is_partial: bool = False
    is_moved: bool = False
    truncate_first: bool = False
    chunk: int = 0


def encoded(on: TableStatements, batch: ChangeBatch) -> Encoded:
    if not on.table.is_keyed:
        return _encoded_multiset(on, batch)
    control = [_number(batch.offset), _flag(batch.deleted), _flag(batch.met)]
    if on.unavailable:
        control += _partial_fields(on, batch)
    document = document_of(joined([*control, *fields_of(on.table, on.table.columns, batch.rows)]))
    return Encoded(
        document,
        batch.rows.num_rows,
        has_deletes=bool(pc.any(batch.deleted).as_py()),
        is_partial=batch.missing is not None,
        is_moved=batch.old_key is not None,
        truncate_first=batch.truncate_first,
        chunk=batch.chunk,
    )


def _encoded_multiset(on: TableStatements, batch: ChangeBatch) -> Encoded:
    """Rows that were written differently and are equal meet here: each comes once, with the sum of its copies."""
    lines = lines_of(on.table, batch.rows)
    net: dict[bytes, list[int]] = {}
    for place, (row, copies) in enumerate(
        zip(hashes_of(lines), batch.copies.to_pylist() if batch.copies else (), strict=True)
    ):
        net.setdefault(row, [place, 0])[1] += copies
    kept = {row: (place, copies) for row, (place, copies) in net.items() if copies}
    places, sums = zip(*kept.values(), strict=True) if kept else ((), ())
    taken = lines.take(pa.array(places, pa.int64()))
    fields = [escaped(pa.array(list(kept), BYTES)), _number(pa.array(sums, pa.int64())), taken]
    document = document_of(joined(fields))
    return Encoded(document, len(kept), truncate_first=batch.truncate_first, chunk=batch.chunk)


def _partial_fields(on: TableStatements, batch: ChangeBatch) -> list[pa.Array]:
    """A sign per column that may lack its value, and the old key, NULL where there is none."""
    flags = [_flag(batch.is_missing(column.name)) for column in on.unavailable]
    mask = pc.binary_join_element_wise(*flags, pa.scalar("", TEXT))
    columns = on.table.key_columns
    if batch.old_key is None:
        return [mask, *(pa.nulls(batch.rows.num_rows, TEXT) for _ in columns)]
    return [mask, *fields_of(on.table, columns, batch.old_key)]


def _number(values: pa.Array) -> pa.Array:
    return values.cast(TEXT)


def _flag(values: pa.Array) -> pa.Array:
    return values.cast(pa.int8()).cast(TEXT)
