"""Row images in the log of a bank in memory: JSON objects with every column, and back to the typed form.

| values | JSON |
|---|---|
| whole numbers, truth, texts | themselves |
| decimals, floats, UUIDs | their text |
| bytes | hex |
| dates | days since 1970; infinite ones as `inf`, `-inf` |
| moments and times | microseconds, moments since 1970; infinite ones as `inf`, `-inf` |
| intervals | [months, days, microseconds] |
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import LogCorrupted, SchemaConflict
from seamline.values.arrow import schema_of
from seamline.values.build import array_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def image_of(table: Table, row: Sequence[Any]) -> bytes:
    """Of a row with values as `batch_of` takes them, in the order of the columns."""
    pairs = zip(table.columns, row, strict=True)
    return json.dumps({column.name: _to_json(column, value) for column, value in pairs}).encode()


class MemoryDecoder:
    """`ChangeDecoder`. The log leaves no value out, so nothing is ever missing."""

    def rows(self, table: Table, images: Sequence[bytes]) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        rows = [_fields(table, image) for image in images]
        arrays = [_array(table, one, [row[one.name] for row in rows]) for one in table.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table)), None


def _array(table: Table, column: Column, values: Sequence[Any]) -> pa.Array:
    try:
        return array_of(column, [_from_json(column, value) for value in values])
    except SchemaConflict as error:
        error.table = table.name
        raise
    except (ValueError, TypeError) as exc:
        raise SchemaConflict(
            f"a row image of {table.name} holds an invalid value in column {column.name}: {exc}", table=table.name
        ) from exc


def _fields(table: Table, image: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(image)
    except ValueError as exc:
        raise LogCorrupted(f"a row image of {table.name} is no JSON: {exc}", table=table.name) from exc
    if not isinstance(fields, dict):
        raise LogCorrupted(f"a row image of {table.name} is no JSON object", table=table.name)
    if fields.keys() != {column.name for column in table.columns}:
        raise SchemaConflict(f"a row image of {table.name} does not have the planned columns", table=table.name)
    return fields


def _to_json(column: Column, value: Any) -> Any:
    if value is None:
        return None
    match value:
        case bytes():
            return value.hex()
        case datetime():
            return (value.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
        case date():
            return (value - _EPOCH.date()).days
        case timedelta():
            return value // _MICROSECOND
        case bool() | int() if column.kind not in (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE):
            return value
        case str() | tuple():
            return value
        case _:
            return str(value)


def _from_json(column: Column, value: Any) -> Any:
    read = _READ.get(column.kind)
    return value if value is None or read is None else read(value)


def _number_or_infinite(value: int | str) -> int | float:
    return float(value) if isinstance(value, str) else value


def _interval(value: list[int] | str) -> tuple[int, ...] | float:
    return float(value) if isinstance(value, str) else tuple(value)


_READ: Mapping[Kind, Callable[[Any], Any]] = {
    Kind.FLOAT: float,
    Kind.DOUBLE: float,
    Kind.BINARY: bytes.fromhex,
    Kind.BYTES: bytes.fromhex,
    Kind.DATE: _number_or_infinite,
    Kind.DATETIME: _number_or_infinite,
    Kind.INSTANT: _number_or_infinite,
    Kind.INTERVAL: _interval,
    Kind.UUID: UUID,
}
