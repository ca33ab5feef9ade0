"""Row images of a kind of source → rows in the typed form: `values.changes.ChangeDecoder`.

A kind says of each column how its JSON has it, and what makes the typed form of that. Whatever Arrow does not read in
the way that the source meant goes value by value through `values.build`, which refuses what the declared type does not
have.
"""

from binascii import a2b_base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from seamline.adapters.debezium.row_images import RowImages, whole
from seamline.domain.catalogue import Column, Table
from seamline.domain.errors import SchemaConflict
from seamline.domain.unavailable_values import STAND_INS, may_lack_values
from seamline.values.arrow import arrow_type, schema_of
from seamline.values.build import array_of
from seamline.values.special import may_be_nan

_UUID = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_SHOWN_MAX = 200
_DECIMAL128_DIGITS = 38

Typed = Callable[[Column, pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class RowDecoder:
    """`json_type`: the Arrow type that a column's JSON is read as. `typed`: its values, read so, in the typed form;
    what it raises for a value is reported by the names of table and column."""

    json_type: Callable[[Column], pa.DataType]
    typed: Typed

    def rows(self, table: Table, images: Sequence[bytes]) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        read = _images_of(table, self.json_type).read(images)
        may_lack = table.is_keyed and any(column.toastable for column in table.columns)
        is_lacking = may_lack and any(map(may_lack_values, images))
        missing: dict[str, pa.Array] = {}
        arrays: list[pa.Array] = []
        for column, chunks in zip(table.columns, read.columns, strict=True):
            values = whole(chunks)
            if is_lacking and column.toastable:
                flags = pc.is_in(values, pa.array(STAND_INS, values.type))
                if pc.any(flags).as_py():
                    missing[column.name] = flags
                    values = pc.if_else(flags, pa.scalar(None, values.type), values)
            arrays.append(self._typed(table, column, values))
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))
        return batch, pa.RecordBatch.from_pydict(missing) if missing else None

    def _typed(self, table: Table, column: Column, values: pa.Array) -> pa.Array:
        try:
            return self.typed(column, values)
        except SchemaConflict as error:
            error.table = table.name
            raise
        except (pa.ArrowException, ValueError, OverflowError) as exc:
            raise SchemaConflict(
                f"a row image of {table.name} holds a value in column {column.name} that is no {column.source_type}:"
                f" {str(exc)[:_SHOWN_MAX]}",
                hint="read the catalogue again: the column was changed",
                table=table.name,
            ) from exc


# A stream has few tables, and many batches of few rows.
@lru_cache(maxsize=1_000)
def _images_of(table: Table, json_type: Callable[[Column], pa.DataType]) -> RowImages:
    return RowImages(table, [json_type(column) for column in table.columns])


# ---- what kinds of sources share ------------------------------------------------------------------------------------


def as_read(_: Column, values: pa.Array) -> pa.Array:
    return values


def decimals(column: Column, values: pa.Array) -> pa.Array:
    """Texts of finite numbers of declared digits: none is rounded, and none is taken for NaN."""
    make = pa.decimal128 if column.precision <= _DECIMAL128_DIGITS else pa.decimal256
    found = pc.cast(values, make(column.precision, column.scale))
    return pc.cast(found, arrow_type(column)) if may_be_nan(column) else found


def bytes_of(_: Column, values: pa.Array) -> pa.Array:
    return pa.array([None if text is None else from_base64(text) for text in values.to_pylist()], pa.large_binary())


def uuids(column: Column, values: pa.Array) -> pa.Array:
    if not pc.all(pc.match_substring_regex(values, _UUID)).as_py():
        return array_of(column, values.to_pylist())
    digits = pc.replace_substring(pc.fill_null(values, "0" * 32), "-", "")
    content = bytes.fromhex("".join(digits.to_pylist()))
    found = pa.Array.from_buffers(pa.binary(16), len(values), [None, pa.py_buffer(content)])
    return pc.if_else(values.is_valid(), found, pa.scalar(None, pa.binary(16)))


def from_base64(text: str) -> bytes:
    return a2b_base64(text, strict_mode=True)


def each(column: Column, values: pa.Array, value_of: Callable[[Any], Any]) -> pa.Array:
    """Value by value, each different one once: what `value_of` makes of it is what `values.build` takes."""
    encoded = values.dictionary_encode()
    found = array_of(column, [value_of(value) for value in encoded.dictionary.to_pylist()])
    return found.take(encoded.indices)


def with_odd(
    column: Column,
    values: pa.Array,
    is_odd: pa.Array,
    *,
    plain: Callable[[pa.Array], pa.Array],
    odd: Callable[[Any], Any],
) -> pa.Array:
    """`plain` of all values but the odd ones, which go by `each`."""
    if not pc.any(is_odd).as_py():
        return plain(values)
    is_odd = pc.fill_null(is_odd, False)  # noqa: FBT003 (an Arrow value)
    found = each(column, values.filter(is_odd), odd)
    others = plain(pc.if_else(is_odd, pa.scalar(None, values.type), values))
    return pc.replace_with_mask(others, is_odd, found)
