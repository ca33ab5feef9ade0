"""Rows of a PostgreSQL table in the typed form, by COPY in CSV: exact, and NULL and '' kept apart.

Arrow reads numbers and texts; floats come as the shortest digits that are exact, which the reading session is set to.
Other values come as the server's own binary form in hex: no setting of a session changes that, and an infinite or far
one has it like any other.
"""

from binascii import unhexlify
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.decimals import decimal_of
from seamline.databases.postgres.types import destination_type
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import InvariantViolated, SchemaConflict
from seamline.values.arrow import INTERVAL, TEXT, arrow_type, schema_of
from seamline.values.content import content_of
from seamline.values.special import INFINITE_DAY, INFINITE_MOMENT, LAST_PLAIN_MOMENT, stored_moment

# What is parsed at once.
_PART_BYTES = 4 << 20
_QUOTE = ord('"')
_DAYS_TO_2000 = 10_957
_MICROSECONDS_TO_2000 = _DAYS_TO_2000 * 86_400_000_000
_INTERVAL = np.dtype([("microseconds", ">i8"), ("days", ">i4"), ("months", ">i4")])
_LAST_DAY, _FIRST_DAY = 2**31 - 1, -(2**31)
_LAST_MOMENT, _FIRST_MOMENT = 2**63 - 1, -(2**63)
# Microseconds since 2000 of the last moment whose microseconds since 1970 stand for themselves, and what stands for the
# next one, less one.
_LAST_PLAIN = LAST_PLAIN_MOMENT - _MICROSECONDS_TO_2000
_BEHIND = stored_moment(LAST_PLAIN_MOMENT + 1) - 1


def expression_of(column: Column) -> str:
    """How a column is selected for `typed_batches`."""
    name = quoted(column.name)
    if column.native and column.kind is not Kind.NATIVE:
        return f"{name}::{destination_type(column)}"
    match column.kind:
        case Kind.CHAR:
            # The padding is the source's way to store it.
            return f"rtrim({name})"
        case Kind.BYTES:
            return f"encode({name},'hex')"
        case _:
            return f"encode({_SENT[column.kind]}({name}),'hex')" if column.kind in _SENT else name


_SENT = {
    Kind.DATE: "date_send",
    # Both are microseconds since 2000, in UTC.
    Kind.DATETIME: "timestamp_send",
    Kind.INSTANT: "timestamptz_send",
    Kind.TIME_OF_DAY: "time_send",
    Kind.INTERVAL: "interval_send",
    Kind.UUID: "uuid_send",
}


def typed_batches(table: Table, blocks: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    """`blocks`: of any size, of one COPY in CSV whose values are all quoted, and NULL is not."""
    schema, names = schema_of(table), [column.name for column in table.columns]
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict(zip(names, map(_csv_type, table.columns), strict=True)),
        null_values=[""],
        true_values=["t"],
        false_values=["f"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    for rows in _whole_rows(blocks):
        try:
            read = pyarrow.csv.read_csv(
                pa.BufferReader(rows),
                read_options=pyarrow.csv.ReadOptions(column_names=names, block_size=len(rows) + 1, use_threads=False),
                # An empty line is the NULL of a table of one column.
                parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                convert_options=convert,
            )
        except pa.ArrowInvalid as exc:
            raise _misfit(table.name, table.name, f"its column: {exc}") from exc
        (batch,) = read.combine_chunks().to_batches()
        arrays = [_typed(table, column, values) for column, values in zip(table.columns, batch.columns, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _whole_rows(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Rows in parts that are worth parsing."""
    rest, parts, size = b"", [], 0
    for block in blocks:
        parts.append(block)
        size += len(block)
        if size >= _PART_BYTES:
            rows = b"".join((rest, *parts))
            end = _end_of_last_row(rows)
            if end:
                yield rows[:end]
            rest, parts, size = rows[end:], [], 0
    if rows := b"".join((rest, *parts)):
        yield rows


def _end_of_last_row(rows: bytes) -> int:
    """Behind the last line break that stands in no value: an even number of quotes is in front of it. 0: none does."""
    quotes, end = int(np.count_nonzero(np.frombuffer(rows, np.uint8) == _QUOTE)), len(rows)
    while (at := rows.rfind(b"\n", 0, end)) >= 0:
        quotes -= rows.count(b'"', at, end)
        if quotes % 2 == 0:
            return at + 1
        end = at
    return 0


def _csv_type(column: Column) -> pa.DataType:
    match column.kind:
        case Kind.INTEGER | Kind.BOOLEAN | Kind.FLOAT | Kind.DOUBLE:
            return arrow_type(column)
        case _:
            return TEXT


def _typed(table: Table, column: Column, values: pa.Array) -> pa.Array:
    try:
        return _TYPED[column.kind](column, values) if column.kind in _TYPED else values
    except SchemaConflict as error:
        error.table = table.name
        raise
    except (pa.ArrowException, ValueError) as exc:
        raise _misfit(table.name, f"{table.name}.{column.name}", f"{column.source_type}: {exc}") from exc


def _misfit(table: str, place: str, what: str) -> SchemaConflict:
    return SchemaConflict(
        f"a value of {place} does not fit {what[:200]}", hint="was the column changed? Run preflight again", table=table
    )


def _numbers(values: pa.Array, of: "np.dtype[np.generic]") -> "np.ndarray[tuple[int], np.dtype[np.generic]]":
    """Values of one size, in hex; zeros where a NULL is."""
    return np.frombuffer(_content(pc.fill_null(values, "00" * of.itemsize), of.itemsize), of)


def _content(values: pa.Array, width: int) -> bytes:
    data = unhexlify(content_of(values))
    if len(data) != len(values) * width:
        raise InvariantViolated(f"binary values of {width} bytes were read in another size")
    return data


def _with_nulls(found: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), found, pa.scalar(None, found.type)) if values.null_count else found


def _bytes(_: Column, values: pa.Array) -> pa.Array:
    return pa.array([None if text is None else bytes.fromhex(text) for text in values.to_pylist()], pa.large_binary())


def _days(_: Column, values: pa.Array) -> pa.Array:
    sent = _numbers(values, np.dtype(">i4")).astype(np.int64)
    days = np.select([sent == _LAST_DAY, sent == _FIRST_DAY], [INFINITE_DAY, -INFINITE_DAY], sent + _DAYS_TO_2000)
    return _with_nulls(pa.array(days.astype(np.int32)).view(pa.date32()), values)


def _moments(column: Column, values: pa.Array) -> pa.Array:
    sent = _numbers(values, np.dtype(">i8")).astype(np.int64)
    moments = np.where(sent > _LAST_PLAIN, sent - _LAST_PLAIN + _BEHIND, sent + _MICROSECONDS_TO_2000)
    moments[sent == _LAST_MOMENT] = INFINITE_MOMENT
    moments[sent == _FIRST_MOMENT] = -INFINITE_MOMENT
    return _with_nulls(pa.array(moments).view(arrow_type(column)), values)


def _clocks(_: Column, values: pa.Array) -> pa.Array:
    return _with_nulls(pa.array(_numbers(values, np.dtype(">i8")).astype(np.int64)).view(pa.duration("us")), values)


def _intervals(_: Column, values: pa.Array) -> pa.Array:
    sent = _numbers(values, _INTERVAL)
    fields = [
        pa.array(sent[field.name].astype(field.type.to_pandas_dtype()))
        for field in (INTERVAL.field(n) for n in range(3))
    ]
    return _with_nulls(pa.StructArray.from_arrays(fields, fields=list(INTERVAL)), values)


def _uuids(_: Column, values: pa.Array) -> pa.Array:
    content = _content(pc.fill_null(values, "00" * 16), 16)
    return _with_nulls(pa.Array.from_buffers(pa.binary(16), len(values), [None, pa.py_buffer(content)]), values)


_TYPED: Mapping[Kind, Callable[[Column, pa.Array], pa.Array]] = {
    Kind.DECIMAL: decimal_of,
    Kind.BYTES: _bytes,
    Kind.DATE: _days,
    Kind.DATETIME: _moments,
    Kind.INSTANT: _moments,
    Kind.TIME_OF_DAY: _clocks,
    Kind.INTERVAL: _intervals,
    Kind.UUID: _uuids,
}
