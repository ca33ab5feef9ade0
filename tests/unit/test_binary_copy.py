"""The binary COPY of Arrow batches: what it is cut into changes no byte."""

import math
import struct
from datetime import date
from decimal import Context, Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.array import ArrayBinaryLoader

from seamline.databases.postgres import binary_copy as module
from seamline.databases.postgres.binary_copy import binary_copy, document_of, numeric
from seamline.domain.catalogue import Column, Kind, Table
from seamline.sinks.postgres.arrays import arrays_of
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of

TABLE = Table(
    "t",
    (
        Column("id", Kind.INTEGER, "bigint", length=64),
        Column("text", Kind.STRING, "text"),
        Column("wide", Kind.DECIMAL, "decimal(50,6)", precision=50, scale=6),
        Column("due", Kind.DATE, "date"),
    ),
)
SCHEMA = schema_of(TABLE)


def _batch(rows: int, *, width: int) -> pa.RecordBatch:
    texts = [None if n % 3 == 0 else chr(97 + n % 26) * width for n in range(rows)]
    wide = [None if n % 5 == 0 else Decimal(n) * 10**40 - Decimal(n).scaleb(-6) for n in range(rows)]
    return batch_of(TABLE, zip(range(rows), texts, wide, [None] * rows, strict=True))


def test_wide_rows_go_in_slices_that_add_up_to_the_same_bytes() -> None:
    """40 rows of a megabyte: no chunk holds them all, and none is lost at an edge."""
    batch = _batch(40, width=1_000_000)
    chunks = list(binary_copy([batch], TABLE))
    assert max(map(len, chunks)) < 1.3 * module._SLICE_BYTES
    row_by_row = [batch.slice(number, 1) for number in range(batch.num_rows)]
    assert b"".join(chunks) == b"".join(binary_copy(row_by_row, TABLE))


def test_wide_rows_that_lie_together_are_parted_as_well() -> None:
    """2,000 narrow rows around eight of three megabytes: no average shows where the bytes are."""
    texts = ["narrow"] * 1_000 + ["w" * 3_000_000] * 8 + ["narrow"] * 1_000
    batch = batch_of(TABLE, [(number, text, None, None) for number, text in enumerate(texts)])
    assert max(map(len, binary_copy([batch], TABLE))) < 1.3 * module._SLICE_BYTES


def test_rows_with_and_without_a_special_value_follow_each_other_in_one_copy() -> None:
    rows = [(1, "a", None, 0), (2, "b", None, math.inf), (3, "c", None, 1)]
    one_by_one = [batch_of(TABLE, [row]) for row in rows]
    written = b"".join(binary_copy(one_by_one, TABLE))
    assert written == b"".join(binary_copy([batch_of(TABLE, rows)], TABLE))
    places = [written.index(struct.pack(">ii", 4, day)) for day in (-10_957, 2**31 - 1, -10_956)]
    assert places == sorted(places)


def test_a_copy_without_rows_is_whole() -> None:
    header, trailer = binary_copy([], TABLE)
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


def test_a_decimal_of_more_digits_than_an_int_is_read_from_is_written() -> None:
    written = numeric(Decimal("-" + "12" * 4_500 + ".5"), 0)
    count, weight, sign, places = module._NUMERIC_HEAD.unpack_from(written)
    assert (count, weight, sign, places) == (2_251, 2_249, 0x4000, 1)
    assert written[8:10] + written[-4:] == struct.pack(">HHH", 1_212, 1_212, 5_000)


def test_few_rows_stand_in_arrays_as_the_client_itself_would_read_them() -> None:
    columns = (TABLE.columns[0], TABLE.columns[1], TABLE.columns[3])
    rows = [(1, "a", date(2026, 11, 27)), (None, None, None), (-(2**63), "ü" * 300, date(1999, 12, 31))]
    batch = batch_of(Table("t", columns), rows)
    document = document_of(columns, batch, control=[pa.array([True, False, True])])
    found = arrays_of(document, ["boolean", "bigint", "text", "date"])
    read = [ArrayBinaryLoader(0, None).load(one) for one in found]
    assert read == [[True, False, True], *(list(values) for values in zip(*rows, strict=True))]
