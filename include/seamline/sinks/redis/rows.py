"""Rows ↔ what stands in Redis: canonical texts, as MessagePack between us and a script."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from seamline.domain.canonical import NUMERIC_KEY_KINDS
from seamline.domain.catalogue import Column, Table
from seamline.domain.errors import Diverged
from seamline.sinks.redis.keys import key_parts
from seamline.sinks.redis.session import packed
from seamline.values.arrow import schema_of
from seamline.values.build import array_of_canonical
from seamline.values.changes import ChangeBatch
from seamline.values.digest import canonical_texts

_ROWS = msgspec.msgpack.Decoder(list[list[str | bool]])
# Stands for a value that the log left out; NULL is nil.
_LEFT_OUT = False


@dataclass(frozen=True, slots=True)
class Encoded:
    """A batch of changes as the script takes it. `chunk_key`: where it waits, if it is a part of a transaction."""

    rows: bytes
    count: int
    is_partial: bool
    truncate_first: bool
    chunk: int
    chunk_key: str = ""


def names_of(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def key_of_script(table: Table) -> list[tuple[int, bool]]:
    """Of each column of the key its place from 1 on, and whether it is a number in JSON."""
    names = names_of(table)
    return [(names.index(column.name) + 1, column.kind in NUMERIC_KEY_KINDS) for column in table.key_columns]


def staged_rows(table: Table, batch: pa.RecordBatch) -> bytes:
    """Whole rows: key parts and values."""
    columns = [_texts(column, batch.column(number)) for number, column in enumerate(table.columns)]
    return packed([[key, *row] for key, *row in zip(_keys(table, batch), *columns, strict=True)])


def encoded(batch: ChangeBatch) -> Encoded:
    """Per change: key parts, whether it goes, what it expects, its offset, key parts of the row that has what it lacks,
    and its values."""
    table, count = batch.table, batch.rows.num_rows
    columns = [_values(batch, column, number) for number, column in enumerate(table.columns)]
    origins: Sequence[str | None] = [None] * count
    if batch.old_key is not None:
        is_given = batch.old_key.column(0).is_valid().to_pylist()
        keys = _keys(table, batch.old_key)
        origins = [key if given else None for key, given in zip(keys, is_given, strict=True)]
    beside = [one.to_pylist() if one is not None else [] for one in (batch.deleted, batch.met, batch.offset)]
    rows = [list(row) for row in zip(_keys(table, batch.rows), *beside, origins, *columns, strict=True)]
    return Encoded(packed(rows), count, batch.missing is not None, batch.truncate_first, batch.chunk)


def _values(batch: ChangeBatch, column: Column, number: int) -> list[str | bool | None]:
    texts: list[str | bool | None] = _texts(column, batch.rows.column(number))
    if batch.missing is None or column.name not in batch.missing.schema.names:
        return texts
    lacking = batch.is_missing(column.name).to_pylist()
    return [_LEFT_OUT if lacks else text for text, lacks in zip(texts, lacking, strict=True)]


def _texts(column: Column, values: pa.Array) -> "list[str | bool | None]":
    found: list[str | bool | None] = canonical_texts(column, values).to_pylist()
    return found


def _keys(table: Table, rows: pa.RecordBatch) -> list[str]:
    parts = [canonical_texts(column, rows.column(column.name)).to_pylist() for column in table.key_columns]
    return [key_parts([text or "" for text in texts]) for texts in zip(*parts, strict=True)]


def batch_from(table: Table, rows: bytes) -> pa.RecordBatch:
    """Of a page as a script has read it; a row whose hash has gone is left out.

    Diverged: there is no text. SchemaConflict: a text is no value of its column.
    """
    try:
        found = _ROWS.decode(rows) if rows not in (b"\x80", b"\x90") else []
    except msgspec.MsgspecError as exc:
        raise Diverged(f"a row of {table.name} holds bytes that are no text: {exc}", table=table.name) from exc
    places = [names_of(table).index(name) for name in table.key]
    there = [row for row in found if all(row[place] is not False for place in places)]
    columns = list(zip(*there, strict=True)) or [()] * len(table.columns)
    arrays = [
        array_of_canonical(column, [None if text is False else str(text) for text in texts])
        for column, texts in zip(table.columns, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))
