"""Digests `cdg1` of rows in the typed form. What they mean is in `seamline.domain.canonical`, which is the reference.

Column by column: a batch's texts are made and joined by Arrow, hashed one by one, and added up by numpy. Values whose
text Arrow would write otherwise, as dates before the year 1, go through the reference.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.canonical import (
    COUNTED_KINDS,
    NULL_FIELD,
    SUMMED_BELOW,
    FloatSummary,
    canonical_text,
    exact_columns,
    inexact_columns,
    is_folded_key,
)
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import InvariantViolated
from seamline.values.arrow import TEXT
from seamline.values.build import values_of
from seamline.values.content import content_of, offsets_of
from seamline.values.special import special_mask

_Numbers = np.ndarray[tuple[int], np.dtype[np.uint64]]
_HASH_BYTES = 32
_THIRTY_BITS = np.uint64(2**30 - 1)
_COMMA, _COLON, _NOTHING = (pa.scalar(text, TEXT) for text in (",", ":", ""))
# Dates whose text is their ISO form: of years with four digits.
_FIRST_DAY, _LAST_DAY = (pa.scalar(days, pa.int32()) for days in (-719_162, 2_932_896))
# Arrow prints floats in between without an exponent; so does PostgreSQL.
_LEAST_PLAIN, _PLAIN_END = 1e-4, 1e10
# Arrow writes decimals of so many digits behind the point without an exponent.
_PLAIN_SCALE_MAX = 6
# Enough for an exact sum of doubles below 1e20: their last digits are of 10^-324.
_SUM_DIGITS = 400
_SUMMED_BELOW = float(SUMMED_BELOW)
# A folded key is multiplied by 31 in 64 bits.
_FOLDED_BUCKETS_MAX = 2**57


def row_texts(table: Table, rows: pa.RecordBatch) -> pa.Array:
    """The row text of each row: of its exact columns."""
    return _joined(table, exact_columns(table), rows)


def key_texts(table: Table, rows: pa.RecordBatch) -> pa.Array:
    """The text of each row's key, by which a comparison names it."""
    return _joined(table, table.key_columns, rows)


def row_hashes(table: Table, rows: pa.RecordBatch, *, run_key: str) -> pa.Array:
    """The row hash of each row in lower hex."""
    return _hex(_hashed(row_texts(table, rows), run_key))


def bucket_numbers(table: Table, rows: pa.RecordBatch, *, buckets: int, run_key: str) -> _Numbers:
    """The bucket of each row: by its key, or by its row hash where the table has none."""
    if table.is_keyed:
        return _buckets_by_key(table, rows, buckets)
    return _first_number(_hashed(row_texts(table, rows), run_key)) % np.uint64(buckets)


def segment_digest(table: Table, rows: pa.RecordBatch, *, run_key: str) -> SegmentDigest:
    """The digest of all rows."""
    hashes = _hashed(row_texts(table, rows), run_key)
    return SegmentDigest(len(hashes), len(hashes), _total(_first_number(hashes)), _total(_second_number(hashes)))


def bucket_digests(table: Table, rows: pa.RecordBatch, *, buckets: int, run_key: str) -> dict[int, SegmentDigest]:
    """Bucket → the digest of its rows; buckets without any are absent."""
    hashes = _hashed(row_texts(table, rows), run_key)
    low, high = _first_number(hashes), _second_number(hashes)
    of_row = _buckets_by_key(table, rows, buckets) if table.is_keyed else low % np.uint64(buckets)
    found, place, counts = np.unique(of_row, return_inverse=True, return_counts=True)
    totals = zip(found, counts, _totals(low, place, len(found)), _totals(high, place, len(found)), strict=True)
    return {int(bucket): SegmentDigest(int(count), int(count), *sums) for bucket, count, *sums in totals}


def float_summaries(table: Table, batches: Iterable[pa.RecordBatch]) -> dict[str, FloatSummary]:
    """The columns that the digest leaves out, each with its summary over all batches."""
    parts: dict[str, list[FloatSummary]] = {column.name: [] for column in inexact_columns(table)}
    for batch in batches:
        for name, found in parts.items():
            found.append(_summary(batch.column(name).drop_null().to_pylist()))
    return {name: _summed(found) for name, found in parts.items()}


def canonical_texts(column: Column, values: pa.Array) -> pa.Array:
    """The canonical text of each value; NULL stays NULL."""
    if values.type == TEXT:
        return pc.utf8_rtrim(values, " ") if column.kind is Kind.CHAR else values
    return _TEXTS_OF[column.kind](column, values)


def _summary(numbers: Sequence[float]) -> FloatSummary:
    if not numbers:
        return FloatSummary(0, None, None, None)
    summed = [Decimal(repr(number)) for number in numbers if abs(number) < _SUMMED_BELOW]
    with localcontext(prec=_SUM_DIGITS):
        total = sum(summed, Decimal(0)) if summed else None
    return FloatSummary(len(numbers), min(numbers, key=_in_order), max(numbers, key=_in_order), total)


def _summed(parts: Sequence[FloatSummary]) -> FloatSummary:
    least = [part.least for part in parts if part.least is not None]
    greatest = [part.greatest for part in parts if part.greatest is not None]
    totals = [part.total for part in parts if part.total is not None]
    with localcontext(prec=_SUM_DIGITS):
        total = sum(totals, Decimal(0)) if totals else None
    return FloatSummary(
        sum(part.count for part in parts),
        min(least, key=_in_order, default=None),
        max(greatest, key=_in_order, default=None),
        total,
    )


def _in_order(number: float) -> tuple[bool, float]:
    """NaN is above all others, as in PostgreSQL."""
    return math.isnan(number), number


def _joined(table: Table, columns: Sequence[Column], rows: pa.RecordBatch) -> pa.Array:
    fields = [_fields(column, rows.column(table.columns.index(column))) for column in columns]
    if not fields:
        return pa.array([""] * rows.num_rows, TEXT)
    # A NULL's field is its mark.
    return pc.binary_join_element_wise(*fields, _COMMA, null_handling="replace", null_replacement=NULL_FIELD)


def _fields(column: Column, values: pa.Array) -> pa.Array:
    texts = canonical_texts(column, values)
    if column.kind not in COUNTED_KINDS:
        return texts
    return _concatenated(pc.binary_length(texts).cast(TEXT), _COLON, texts)


def _concatenated(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _NOTHING)


# ---- texts per kind -------------------------------------------------------------------------------------------------


def _whole_texts(_: Column, values: pa.Array) -> pa.Array:
    return values.cast(TEXT)


def _truth_texts(_: Column, values: pa.Array) -> pa.Array:
    return values.cast(pa.int8()).cast(TEXT)


def _decimal_texts(column: Column, values: pa.Array) -> pa.Array:
    texts = values.cast(TEXT) if 0 <= values.type.scale <= _PLAIN_SCALE_MAX else _unscaled_texts(values)
    return pc.if_else(special_mask(column, values), pa.scalar("NaN", TEXT), texts)


def _unscaled_texts(values: pa.Array) -> pa.Array:
    """By way of the unscaled number: Arrow writes small ones of many digits, zero too, with an exponent."""
    scale = values.type.scale
    make = pa.decimal128 if pa.types.is_decimal128(values.type) else pa.decimal256
    unscaled = pa.Array.from_buffers(
        make(values.type.precision, 0), len(values), values.buffers(), offset=values.offset
    )
    texts = unscaled.cast(TEXT)
    digits = pc.ascii_lpad(pc.utf8_ltrim(texts, "-"), scale + 1, "0")
    sign = pc.if_else(pc.starts_with(texts, "-"), pa.scalar("-", TEXT), _NOTHING)
    whole, fraction = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    return _concatenated(sign, whole, pa.scalar(".", TEXT), fraction)


def _float_texts(column: Column, values: pa.Array) -> pa.Array:
    doubles = values.cast(pa.float64())
    sizes = pc.abs(doubles)
    is_plain = pc.and_(pc.greater_equal(sizes, _LEAST_PLAIN), pc.less(sizes, _PLAIN_END))
    return _through_reference(column, values, doubles.cast(TEXT), pc.invert(pc.or_(is_plain, pc.equal(sizes, 0.0))))


def _hex_texts(_: Column, values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), _hex(values), pa.scalar(None, TEXT))


def _day_texts(column: Column, values: pa.Array) -> pa.Array:
    days = values.view(pa.int32())
    is_odd = pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))
    plain = pc.if_else(is_odd, pa.scalar(None, pa.date32()), values)
    return _through_reference(column, values, plain.cast(TEXT), is_odd)


def _moment_texts(column: Column, values: pa.Array) -> pa.Array:
    return _through_reference(column, values, values.view(pa.int64()).cast(TEXT), special_mask(column, values))


def _span_texts(_: Column, values: pa.Array) -> pa.Array:
    return values.view(pa.int64()).cast(TEXT)


def _interval_texts(column: Column, values: pa.Array) -> pa.Array:
    parts = zip(values.flatten(), ("m", "d", ""), strict=True)
    texts = _concatenated(*(part for one, unit in parts for part in (one.cast(TEXT), pa.scalar(unit, TEXT))))
    return _through_reference(column, values, texts, special_mask(column, values))


def _uuid_texts(_: Column, values: pa.Array) -> pa.Array:
    digits = np.frombuffer(content_of(values).hex().encode(), np.uint8).reshape(len(values), 32)
    texts = np.full((len(values), 36), ord("-"), np.uint8)
    for start, end, dashes in ((0, 8, 0), (8, 12, 1), (12, 16, 2), (16, 20, 3), (20, 32, 4)):
        texts[:, start + dashes : end + dashes] = digits[:, start:end]
    return pc.if_else(values.is_valid(), _texts_of(texts.tobytes(), len(values), 36), pa.scalar(None, TEXT))


_TEXTS_OF: Mapping[Kind, Callable[[Column, pa.Array], pa.Array]] = {
    Kind.INTEGER: _whole_texts,
    Kind.UNSIGNED: _whole_texts,
    Kind.BITS: _whole_texts,
    Kind.YEAR: _whole_texts,
    Kind.BOOLEAN: _truth_texts,
    Kind.DECIMAL: _decimal_texts,
    Kind.FLOAT: _float_texts,
    Kind.DOUBLE: _float_texts,
    Kind.BINARY: _hex_texts,
    Kind.BYTES: _hex_texts,
    Kind.DATE: _day_texts,
    Kind.DATETIME: _moment_texts,
    Kind.INSTANT: _moment_texts,
    Kind.TIME: _span_texts,
    Kind.TIME_OF_DAY: _span_texts,
    Kind.INTERVAL: _interval_texts,
    Kind.UUID: _uuid_texts,
}


def _through_reference(column: Column, values: pa.Array, texts: pa.Array, is_odd: pa.Array) -> pa.Array:
    """The texts, with those of the odd values written by the reference."""
    is_odd = pc.fill_null(is_odd, False)  # noqa: FBT003 (an Arrow value)
    if not pc.any(is_odd).as_py():
        return texts
    found = [canonical_text(column, value) for value in values_of(column, values.filter(is_odd))]
    return pc.replace_with_mask(texts, is_odd, pa.array(found, TEXT))


# ---- bytes and sums -------------------------------------------------------------------------------------------------


def _hex(values: pa.Array) -> pa.Array:
    digits = content_of(values).hex().encode()
    if pa.types.is_fixed_size_binary(values.type):
        return _texts_of(digits, len(values), 2 * values.type.byte_width)
    offsets = offsets_of(values)
    return _texts_at(digits, (offsets - offsets[0]) * 2)


def _texts_of(content: bytes, count: int, width: int) -> pa.Array:
    return _texts_at(content, np.arange(count + 1, dtype=np.int64) * width)


def _texts_at(content: bytes, offsets: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.Array:
    return pa.Array.from_buffers(TEXT, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(content)])


def _hashed(texts: pa.Array, prefix: str) -> pa.Array:
    """SHA-256 of prefix and text, of each."""
    start, content, sha256 = prefix.encode(), content_of(texts), hashlib.sha256
    offsets = offsets_of(texts)
    ends = pairwise((offsets - offsets[0]).tolist())
    hashes = b"".join([sha256(start + content[first:end]).digest() for first, end in ends])
    return pa.Array.from_buffers(pa.binary(_HASH_BYTES), len(texts), [None, pa.py_buffer(hashes)])


def _first_number(hashes: pa.Array) -> _Numbers:
    """The first 15 hex digits of each hash as a number."""
    return _words(hashes)[:, 0] >> np.uint64(4)


def _second_number(hashes: pa.Array) -> _Numbers:
    """The 15 hex digits behind those."""
    words = _words(hashes)
    return (words[:, 0] & np.uint64(15)) << np.uint64(56) | words[:, 1] >> np.uint64(8)


def _words(hashes: pa.Array) -> "np.ndarray[tuple[int, int], np.dtype[np.uint64]]":
    return np.frombuffer(content_of(hashes), ">u8").reshape(-1, 4).astype(np.uint64)


def _total(numbers: _Numbers) -> int:
    """Python's int at the end: the sum of 17 such numbers is more than 64 bits hold."""
    low, high = (numbers & _THIRTY_BITS).sum(dtype=np.uint64), (numbers >> np.uint64(30)).sum(dtype=np.uint64)
    return int(low) + (int(high) << 30)


def _totals(numbers: _Numbers, place: "np.ndarray[tuple[int], np.dtype[np.intp]]", count: int) -> list[int]:
    """The same of each bucket; `place` is the bucket of a number among the `count` that there are."""
    low, high = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    np.add.at(low, place, numbers & _THIRTY_BITS)
    np.add.at(high, place, numbers >> np.uint64(30))
    return [int(one) + (int(other) << 30) for one, other in zip(low, high, strict=True)]


def _buckets_by_key(table: Table, rows: pa.RecordBatch, buckets: int) -> _Numbers:
    if not is_folded_key(table):
        return _first_number(_hashed(key_texts(table, rows), "")) % np.uint64(buckets)
    if buckets > _FOLDED_BUCKETS_MAX:
        raise InvariantViolated(f"{buckets} buckets are more than a folded key is spread over")
    folded = np.zeros(rows.num_rows, np.uint64)
    for column in table.key_columns:
        values = rows.column(table.columns.index(column))
        if values.null_count:
            raise InvariantViolated(f"a key column holds NULL: {column.name}", table=table.name)
        wide = pa.uint64() if column.kind is Kind.UNSIGNED else pa.int64()
        numbers = values.cast(wide).to_numpy(zero_copy_only=False)
        # The remainder of a negative number is not negative, as in Python.
        remainders = (numbers % numbers.dtype.type(buckets)).astype(np.uint64)
        folded = (folded * np.uint64(31) + remainders) % np.uint64(buckets)
    return folded
