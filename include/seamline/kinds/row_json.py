"""Rows of the typed form as JSON documents, and the way back.

Equal rows are equal bytes: a key says which row it is, and a row without a key is known by all it holds.
Whole numbers, floats and booleans are JSON's own; every other value is its plain text (`values.plain_texts`), decimals
too, so that no reader rounds them. Floats that are no finite numbers are texts.
"""

import math
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import LogCorrupted
from seamline.values.arrow import TEXT, arrow_type, is_exact_text, schema_of
from seamline.values.plain_texts import texts_of, values_of

Document = dict[str, Any]
_WHOLE = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.YEAR, Kind.BITS, Kind.BOOLEAN})
_FLOATS = frozenset({Kind.FLOAT, Kind.DOUBLE})

text_of = orjson.dumps
document_of = orjson.loads


def documents(table: Table, columns: Sequence[Column], rows: pa.RecordBatch) -> list[Document]:
    """These columns of each row. SchemaConflict for a value that has no plain text."""
    names = [column.name for column in columns]
    values = [_values(table, column, rows.column(column.name)) for column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def batch_of_texts(table: Table, texts: Sequence[bytes]) -> pa.RecordBatch:
    """The rows of these documents. LogCorrupted: one is not as `documents` writes it."""
    try:
        rows = [orjson.loads(text) for text in texts]
        arrays = [_array(column, [row[column.name] for row in rows]) for column in table.columns]
    except (ValueError, KeyError, TypeError, pa.ArrowException) as exc:
        raise not_ours(exc, table.name) from exc
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))


def not_ours(cause: Exception, table: str = "") -> LogCorrupted:
    return LogCorrupted(
        f"a record is not as Seamline writes it: {cause}",
        hint="somebody else has written there, as into a topic: see who may write there, and load the table again",
        table=table,
    )


def _values(table: Table, column: Column, values: pa.Array) -> list[Any]:
    if column.kind in _FLOATS:
        return [_number(text) for text in values.cast(TEXT).to_pylist()]
    is_own = column.kind in _WHOLE or is_exact_text(column)
    found: list[Any] = (values if is_own else texts_of(table, column, values)).to_pylist()
    return found


def _number(text: str | None) -> float | str | None:
    if text is None:
        return None
    number = float(text)
    return number if math.isfinite(number) else text


def _array(column: Column, values: list[Any]) -> pa.Array:
    if column.kind in _WHOLE and not is_exact_text(column):
        return pa.array(values, arrow_type(column))
    if column.kind in _FLOATS:
        return pa.array([None if value is None else float(value) for value in values], arrow_type(column))
    return values_of(column, pa.array(values, TEXT))
