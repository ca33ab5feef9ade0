"""Rows as pages of `Store.java`, and the way back."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.errors import Diverged
from seamline.sinks.hbase.gateway import Store
from seamline.sinks.hbase.places import Place
from seamline.values.arrow import schema_of
from seamline.values.build import array_of_canonical
from seamline.values.digest import canonical_texts

_INT = struct.Struct(">i")
_NULL = _INT.pack(-1)
_PAGE, _PAGE_CHARACTERS = 2_000, 4 << 20
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
    first, size = 0, 0
    for number, (_, _, texts) in enumerate(rows):
        size += sum(len(text) for text in texts if text is not None)
        if number - first == _PAGE or size > _PAGE_CHARACTERS:
            yield page_of(table, rows[first : number + 1])
            first, size = number + 1, 0
    if first < len(rows):
        yield page_of(table, rows[first:])


def page_of(table: Table, rows: Sequence[Written]) -> bytes:
    names = [_sized(column.name.encode()) for column in table.columns]
    parts = [_INT.pack(len(names)), *names, _INT.pack(len(rows))]
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
    columns = [canonical_texts(column, rows.column(number)).to_pylist() for number, column in enumerate(table.columns)]
    return list(zip(*columns, strict=True))


def batch_from(table: Table, rows: Sequence[Cells]) -> pa.RecordBatch:
    """SchemaConflict: a text is no value of its column."""
    arrays = [array_of_canonical(column, [row.get(column.name) for row in rows]) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))


def _sized(value: bytes) -> bytes:
    return _INT.pack(len(value)) + value
