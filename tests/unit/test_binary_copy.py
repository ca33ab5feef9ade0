"""The binary COPY of Arrow batches: what it is cut into changes no byte."""

from decimal import Context, Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from seamline.sinks.postgres import binary_copy as module
from seamline.sinks.postgres.binary_copy import binary_copy, numeric

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("wide", pa.decimal256(50, 6))])


def _batch(rows: int, *, width: int) -> pa.RecordBatch:
    texts = [None if n % 3 == 0 else chr(97 + n % 26) * width for n in range(rows)]
    wide = [None if n % 5 == 0 else Decimal(n) * 10**40 - Decimal(n).scaleb(-6) for n in range(rows)]
    return pa.record_batch([pa.array(range(rows)), pa.array(texts), pa.array(wide, SCHEMA.field(2).type)], SCHEMA)


def test_wide_rows_go_in_slices_that_add_up_to_the_same_bytes() -> None:
    """40 rows of a megabyte: no chunk holds them all, and none is lost at an edge."""
    batch = _batch(40, width=1_000_000)
    chunks = list(binary_copy([batch], SCHEMA))
    assert max(map(len, chunks)) < 1.3 * module._SLICE_BYTES
    row_by_row = [batch.slice(number, 1) for number in range(batch.num_rows)]
    assert b"".join(chunks) == b"".join(binary_copy(row_by_row, SCHEMA))


def test_wide_rows_that_lie_together_are_parted_as_well() -> None:
    """2,000 narrow rows around eight of three megabytes: no average shows where the bytes are."""
    texts = ["narrow"] * 1_000 + ["w" * 3_000_000] * 8 + ["narrow"] * 1_000
    nothing = pa.nulls(len(texts), SCHEMA.field(2).type)
    batch = pa.record_batch([pa.array(range(len(texts))), pa.array(texts), nothing], SCHEMA)
    assert max(map(len, binary_copy([batch], SCHEMA))) < 1.3 * module._SLICE_BYTES


def test_a_copy_without_rows_is_whole() -> None:
    header, trailer = binary_copy([], SCHEMA)
    assert header.startswith(b"PGCOPY\n\xff\r\n\0")
    assert trailer == b"\xff\xff"


@given(st.integers(-(10**65) + 1, 10**65 - 1), st.integers(0, 38))
def test_a_wide_decimal_is_the_sum_of_its_digits(unscaled: int, scale: int) -> None:
    """As numeric_recv reads it: digits to the base 10,000, the first one times 10,000 to the power of the weight."""
    value = Context(prec=70).scaleb(Decimal(unscaled), -scale)
    written = numeric(value, scale)
    count, weight, sign, places = module._NUMERIC_HEAD.unpack_from(written)
    digits = [int.from_bytes(written[at : at + 2]) for at in range(8, len(written), 2)]
    assert (len(digits), places) == (count, scale)
    assert all(0 <= digit < 10_000 for digit in digits)
    total = sum(digit * 10_000 ** (count - 1 - number) for number, digit in enumerate(digits))
    exact = abs(unscaled) * 10_000 ** max(count - 1 - weight, 0)
    assert total * 10**scale == exact * 10_000 ** max(weight - count + 1, 0)
    assert (sign == 0x4000) == (unscaled < 0)
