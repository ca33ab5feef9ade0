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
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import LogCorrupted
from seamline.values.arrow import TEXT, arrow_type, is_exact_text, schema_of
from seamline.values.plain_texts import texts_of, values_of

Document = dict[str, Any]
_WHOLE = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.YEAR, Kind.BITS, Kind.BOOLEAN})
_FLOATS = frozenset({Kind.FLOAT, Kind.DOUBLE})
# What JSON writes by a backslash in a text.
_ESCAPED = r'["\\\x00-\x1f]'
_QUOTE = pa.scalar('"', TEXT)

text_of = orjson.dumps
document_of = orjson.loads


def documents(table: Table, columns: Sequence[Column], rows: pa.RecordBatch) -> list[Document]:
    """These columns of each row. SchemaConflict for a value that has no plain text."""
    names = [column.name for column in columns]
    values = [_values(table, column, rows.column(column.name)) for column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def row_texts(table: Table, columns: Sequence[Column], rows: pa.RecordBatch) -> list[bytes]:
    """`text_of` of each of the documents, to the byte, without making them: Arrow joins whole columns."""
    parts: list[pa.Array | pa.Scalar] = []
    for column in columns:
        parts += [_scalar(f"{',' if parts else '{'}{_json_of(column.name)}:"), _json(table, column, rows)]
    joined = pc.binary_join_element_wise(*parts, _scalar("}"), _scalar(""))
    found: list[bytes] = joined.cast(pa.large_binary()).to_pylist()
    return found


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


def _json(table: Table, column: Column, rows: pa.RecordBatch) -> pa.Array:
    """The values of a column as JSON has them."""
    values = rows.column(column.name)
    if column.kind in _FLOATS:
        return pa.array([_json_of(one) for one in _values(table, column, values)], TEXT)
    if column.kind in _WHOLE and not is_exact_text(column):
        return pc.fill_null(values.cast(TEXT), "null")
    texts = values.cast(TEXT) if is_exact_text(column) else texts_of(table, column, values).cast(TEXT)
    return pc.fill_null(pc.binary_join_element_wise(_QUOTE, _escaped(texts), _QUOTE, _scalar("")), "null")


def _escaped(texts: pa.Array) -> pa.Array:
    """Few texts need it, and these go one by one."""
    is_odd = pc.fill_null(pc.match_substring_regex(texts, _ESCAPED), False)  # noqa: FBT003 (an Arrow value)
    if not pc.any(is_odd).as_py():
        return texts
    odd = pa.array([_json_of(one)[1:-1] for one in texts.filter(is_odd).to_pylist()], TEXT)
    return pc.replace_with_mask(texts, is_odd, odd)


def _json_of(value: Any) -> str:
    return orjson.dumps(value).decode()


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, TEXT)


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
