"""Arrow record batches as PostgreSQL's binary COPY: each value in the form of its Arrow type, NULL as NULL.

The encoder (pgpq 0.12.0) knows decimals up to 38 digits; wider ones, which are rare, are written here.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from struct import Struct

import pyarrow as pa
from pgpq import ArrowToPostgresBinaryEncoder

# Arrow and binary form of a slice are held at the same time; only a single row may be larger.
_SLICE_BYTES = 8 << 20
# `numeric` on the wire (numeric_send in PostgreSQL's numeric.c): number of digits to the base 10,000, exponent of the
# first one, sign, decimal places to show; then the digits.
_NUMERIC_HEAD = Struct(">hhHh")
_DIGIT = Struct(">h")
_NEGATIVE = 0x4000


def binary_copy(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[bytes]:
    """The chunks of one `COPY … FROM STDIN (FORMAT binary)`, whole also without a batch."""
    wide = [number for number, field in enumerate(schema) if pa.types.is_decimal256(field.type)]
    encoder = ArrowToPostgresBinaryEncoder(_with_bytes(schema, wide))
    yield encoder.write_header()
    for batch in batches:
        for part in _slices(batch):
            yield encoder.write_batch(_narrowed(part, wide))
    yield encoder.finish()


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= _SLICE_BYTES or batch.num_rows <= 1:
        yield batch
    else:
        half = batch.num_rows // 2
        yield from _slices(batch.slice(0, half))
        yield from _slices(batch.slice(half))


def _with_bytes(schema: pa.Schema, columns: list[int]) -> pa.Schema:
    for number in columns:
        schema = schema.set(number, schema.field(number).with_type(pa.binary()))
    return schema


def _narrowed(batch: pa.RecordBatch, wide: list[int]) -> pa.RecordBatch:
    for number in wide:
        scale = batch.schema.field(number).type.scale
        texts = [None if value is None else numeric(value, scale) for value in batch.column(number).to_pylist()]
        batch = batch.set_column(number, batch.schema.field(number).name, pa.array(texts, pa.binary()))
    return batch


def numeric(value: Decimal, scale: int) -> bytes:
    """A finite decimal of at most `scale` places in the binary form of `numeric`."""
    sign, digits, exponent = value.as_tuple()
    places = -(-scale // 4) * 4  # whole groups of four after the point
    whole = int("".join(map(str, digits))) * 10 ** (places + int(exponent))
    groups: list[int] = []
    while whole:
        whole, group = divmod(whole, 10_000)
        groups.append(group)
    head = _NUMERIC_HEAD.pack(len(groups), len(groups) - 1 - places // 4, _NEGATIVE if sign else 0, scale)
    return head + b"".join(_DIGIT.pack(group) for group in reversed(groups))
