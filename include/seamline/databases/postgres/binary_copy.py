"""Rows in the typed form as PostgreSQL's binary COPY: each value in the form of its destination column, NULL as NULL.

The encoder (pgpq 0.12.0) writes what Arrow and PostgreSQL have both. What it has no type for comes to it as bytes,
which it leaves as they are: decimals of over 38 digits, intervals, jsonb, and a column in whose rows of the moment a
special value stands (`values.special`), as an infinite date.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from struct import Struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pgpq import ArrowToPostgresBinaryEncoder

from seamline.domain.catalogue import Column, Kind, Table
from seamline.values.arrow import is_exact_text, schema_of
from seamline.values.build import values_of
from seamline.values.special import INFINITE_DAY, INFINITE_MOMENT, has_special, moment_of

# Arrow and binary form of a slice are held at the same time; only a single row may be larger.
_SLICE_BYTES = 8 << 20
# `numeric` on the wire (numeric_send in PostgreSQL's numeric.c): number of digits to the base 10,000, exponent of the
# first one, sign, decimal places to show; then the digits.
_NUMERIC_HEAD = Struct(">HhHh")
_DIGIT = Struct(">h")
_NEGATIVE = 0x4000
_NOT_FINITE = {"NaN": 0xC000, "Infinity": 0xD000, "-Infinity": 0xF000}
_INTERVAL = np.dtype([("microseconds", ">i8"), ("days", ">i4"), ("months", ">i4")])
_DAY, _MOMENT = Struct(">i"), Struct(">q")
_DAYS_TO_2000 = 10_957
_MICROSECONDS_TO_2000 = _DAYS_TO_2000 * 86_400_000_000
_VERSION_OF_JSONB, _NOTHING = pa.scalar(b"\1", pa.large_binary()), pa.scalar(b"", pa.large_binary())
_HEAD_BYTES, _END = 19, b"\xff\xff"
_LENGTH = Struct(">i")
_LARGEST_BITS = 63


def binary_copy(batches: Iterable[pa.RecordBatch], table: Table) -> Iterator[bytes]:
    """The chunks of one `COPY … FROM STDIN (FORMAT binary)` of all columns, whole also without a batch."""
    schema = _sent(table, pa.RecordBatch.from_pylist([], schema_of(table))).schema
    encoder, head = _encoder(schema)
    yield head
    for batch in batches:
        for part in _slices(batch):
            sent = _sent(table, part)
            if sent.schema != schema:
                # Rows of several encoders follow each other; the first has written the head.
                yield encoder.finish().removesuffix(_END)
                schema = sent.schema
                encoder, _ = _encoder(schema)
            yield encoder.write_batch(sent)
    yield encoder.finish()


def document_of(columns: Sequence[Column], rows: pa.RecordBatch, *, control: Sequence[pa.Array] = ()) -> bytes:
    """The same in one piece, of these columns alone, which `rows` has in this order. `control`: arrays of integers,
    truths and bytes that stand before them."""
    arrays = [*control, *(_column(column, values) for column, values in zip(columns, rows.columns, strict=True))]
    batch = pa.RecordBatch.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])
    encoder, head = _encoder(batch.schema)
    return b"".join([head, *(encoder.write_batch(part) for part in _slices(batch)), encoder.finish()])


def fields_in(document: bytes, count: int) -> list[list[bytes]]:
    """The rows of a document by column: each value with its length in front, as it stands in an array too."""
    found: list[bytes] = []
    place, length_at = _HEAD_BYTES, _LENGTH.unpack_from
    while document[place : place + 2] != _END:
        place += 2
        for _ in range(count):
            (length,) = length_at(document, place)
            end = place + 4 + length if length > 0 else place + 4
            found.append(document[place:end])
            place = end
    return [found[field::count] for field in range(count)]


def _encoder(schema: pa.Schema) -> tuple[ArrowToPostgresBinaryEncoder, bytes]:
    encoder = ArrowToPostgresBinaryEncoder(schema)
    return encoder, encoder.write_header()


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= _SLICE_BYTES or batch.num_rows <= 1:
        yield batch
    else:
        half = batch.num_rows // 2
        yield from _slices(batch.slice(0, half))
        yield from _slices(batch.slice(half))


def _sent(table: Table, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns in types that the encoder writes as the destination's."""
    arrays = [_column(column, values) for column, values in zip(table.columns, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in table.columns])


def _column(column: Column, values: pa.Array) -> pa.Array:
    match column.kind:
        case Kind.BITS if column.length <= _LARGEST_BITS:
            return values.view(pa.int64())
        case Kind.TIME_OF_DAY:
            return values.view(pa.time64("us"))
        case Kind.INTERVAL:
            return _intervals(values)
        case Kind.JSONB:
            return pc.binary_join_element_wise(_VERSION_OF_JSONB, values.cast(pa.large_binary()), _NOTHING)
        case Kind.DECIMAL if is_exact_text(column) or pa.types.is_decimal256(values.type):
            return _one_by_one(column, values, _numeric)
        case Kind.DATE | Kind.DATETIME | Kind.INSTANT | Kind.DECIMAL if has_special(column, values):
            return _one_by_one(column, values, _SPECIAL[column.kind])
        case _:
            return values


def _intervals(values: pa.Array) -> pa.Array:
    found = np.empty(len(values), _INTERVAL)
    for number, name in enumerate(("months", "days", "microseconds")):
        found[name] = pc.fill_null(pc.struct_field(values, number), 0).to_numpy(zero_copy_only=False)
    sent = pa.Array.from_buffers(pa.binary(_INTERVAL.itemsize), len(values), [None, pa.py_buffer(found.tobytes())])
    return pc.if_else(values.is_valid(), sent, pa.scalar(None, sent.type))


def _one_by_one(column: Column, values: pa.Array, sent: Callable[[Column, pa.Array], list[bytes | None]]) -> pa.Array:
    return pa.array(sent(column, values), pa.large_binary())


def _days(_: Column, values: pa.Array) -> list[bytes | None]:
    ends = {INFINITE_DAY: 2**31 - 1, -INFINITE_DAY: -(2**31)}
    found = values.view(pa.int32()).to_pylist()
    return [None if day is None else _DAY.pack(ends.get(day, day - _DAYS_TO_2000)) for day in found]


def _moments(_: Column, values: pa.Array) -> list[bytes | None]:
    ends = {INFINITE_MOMENT: 2**63 - 1, -INFINITE_MOMENT: -(2**63)}
    found = values.view(pa.int64()).to_pylist()
    return [
        None if moment is None else _MOMENT.pack(ends.get(moment) or moment_of(moment) - _MICROSECONDS_TO_2000)
        for moment in found
    ]


def _numeric(column: Column, values: pa.Array) -> list[bytes | None]:
    return [None if value is None else numeric(value, column.scale) for value in values_of(column, values)]


_SPECIAL: Mapping[Kind, Callable[[Column, pa.Array], list[bytes | None]]] = {
    Kind.DATE: _days,
    Kind.DATETIME: _moments,
    Kind.INSTANT: _moments,
    Kind.DECIMAL: _numeric,
}


def numeric(value: Decimal, scale: int) -> bytes:
    """A decimal in the binary form of `numeric`, of `scale` places or of as many as it has itself."""
    if not value.is_finite():
        return _NUMERIC_HEAD.pack(0, 0, _NOT_FINITE[str(value)], 0)
    sign, digits, exponent = value.as_tuple()
    scale = max(scale, -int(exponent))
    places = -(-scale // 4) * 4  # whole groups of four after the point
    # Not by a string: Python makes no int of one with more than 4,300 digits, and a numeric may have 147,455.
    whole = int(Decimal((0, digits, 0))) * 10 ** (places + int(exponent))
    groups: list[int] = []
    while whole:
        whole, group = divmod(whole, 10_000)
        groups.append(group)
    head = _NUMERIC_HEAD.pack(len(groups), len(groups) - 1 - places // 4, _NEGATIVE if sign else 0, scale)
    return head + b"".join(_DIGIT.pack(group) for group in reversed(groups))
