"""Rows as pages of `Store.java`, and the way back."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import PARK_IT, Table
from seamline.domain.errors import Diverged, SchemaConflict
from seamline.sinks.hbase.gateway import Store
from seamline.sinks.hbase.places import Place
from seamline.values.arrow import schema_of
from seamline.values.build import array_of_canonical
from seamline.values.digest import canonical_texts

_INT = struct.Struct(">i")
_NULL = _INT.pack(-1)
_PAGE, _PAGE_CHARACTERS = 2_000, 4 << 20
# HBase's own limit of a cell (hbase.client.keyvalue.maxsize, 10 MB), less a key and what stands beside it.
CELL_MAX = (10 << 20) - (64 << 10)
Texts = Sequence[str | None]
Cells = Mapping[str, str]


class How(IntEnum):
    """As `Store.java` has it. FRESH: no row was ever there. OVER: one may be there, of which nothing stays."""

    FRESH = 0
    OVER = 1
    GOES = 2


Written = tuple[How, bytes, Texts]
"""How a row is written, its whole key, and a text for each column."""


def pages_of(table: Table, rows: Sequence[Written]) -> Iterator[bytes]:
    """As many pages as it takes for none to be large."""
    names = [column.name for column in table.columns]
    first, size = 0, 0
    for number, (_, _, texts) in enumerate(rows):
        size += sum(len(text) for text in texts if text is not None)
        if number - first == _PAGE or size > _PAGE_CHARACTERS:
            yield page_of(names, rows[first : number + 1])
            first, size = number + 1, 0
    if first < len(rows):
        yield page_of(names, rows[first:])


def page_of(names: Sequence[str], rows: Sequence[Written]) -> bytes:
    """`names`: of the columns of each text."""
    parts = [_INT.pack(len(names)), *[_sized(name.encode()) for name in names], _INT.pack(len(rows))]
    for how, key, texts in rows:
        parts += [bytes([how]), _sized(key)]
        if how is not How.GOES:
            parts += [_NULL if text is None else _sized(text.encode()) for text in texts]
    return b"".join(parts)


def page_of_keys(keys: Sequence[bytes]) -> bytes:
    return b"".join([_INT.pack(len(keys)), *map(_sized, keys)])


def rows_of(page: bytes, table: str) -> Iterator[tuple[bytes, Cells]]:
    """Of a page that was read: whole keys and cells. Diverged: a cell is no text."""
    at = 0

    def taken() -> bytes:
        nonlocal at
        (length,) = _INT.unpack_from(page, at)
        at += _INT.size + length
        return page[at - length : at]

    try:
        while at < len(page):
            key = taken()
            (count,) = _INT.unpack_from(page, at)
            at += _INT.size
            yield key, {taken().decode(): taken().decode() for _ in range(count)}
    except UnicodeDecodeError as exc:
        raise Diverged(f"a row of {table} holds bytes that are no text: {exc}", table=table) from exc


def scanned(store: Store, place: Place) -> Iterator[tuple[bytes, Cells]]:
    """The rows of a place in the order of their keys."""
    for page in pages(store, place):
        yield from page


def pages(store: Store, place: Place) -> Iterator[Sequence[tuple[bytes, Cells]]]:
    """The same, some thousands at a time."""
    wanted = place.prefix
    while True:
        rows = list(rows_of(bytes(store.scan(place.table, wanted, place.end, _PAGE)), place.table))
        if not rows:
            return
        yield rows
        wanted = rows[-1][0] + b"\0"


def texts_of_rows(table: Table, rows: pa.RecordBatch) -> list[Texts]:
    """SchemaConflict: HBase takes no cell of that size."""
    columns = [canonical_texts(column, rows.column(number)) for number, column in enumerate(table.columns)]
    for column, texts in zip(table.columns, columns, strict=True):
        largest = pc.max(pc.binary_length(texts)).as_py() or 0
        if largest > CELL_MAX:
            raise SchemaConflict(
                f"column {column.name} of {table.name} has a value of {largest} bytes, and HBase takes {CELL_MAX}",
                hint=f"leave the column out of the sync, or the table. {PARK_IT}",
                table=table.name,
            )
    return list(zip(*[texts.to_pylist() for texts in columns], strict=True))


def batch_from(table: Table, rows: Sequence[tuple[bytes, Cells]]) -> pa.RecordBatch:
    """SchemaConflict: a text is no value of its column. Diverged: a row has no cell of its key."""
    for key, cells in rows:
        if lacking := [name for name in table.key if name not in cells]:
            raise Diverged(
                f"row {key.decode(errors='replace')} of {table.name} has no cell of {', '.join(lacking)}: somebody else"
                " has written it, or removed a part of it",
                hint="remove the row by `deleteall` in HBase's shell, and compare again: where it was ours it is"
                " missing then, and a repair puts it back",
                table=table.name,
            )
    arrays = [array_of_canonical(column, [cells.get(column.name) for _, cells in rows]) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))


def _sized(value: bytes) -> bytes:
    return _INT.pack(len(value)) + value
