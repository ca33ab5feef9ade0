"""Digests of the typed form are those of the reference, text by text and bucket by bucket."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.canonical import bucket_of, canonical_row, canonical_text, digest_of, inexact_columns, row_hash
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import InvariantViolated
from seamline.values.build import array_of, batch_of
from seamline.values.digest import (
    bucket_digests,
    bucket_numbers,
    canonical_texts,
    float_summaries,
    row_hashes,
    row_texts,
    segment_digest,
)
from tests.integration.kinds import CASES, INEXACT_CASES, KindCase
from tests.typed_values import COLUMNS, EDGES, VALUES, tables_and_rows

RUN_KEY = "a 'key' with \\ and %s"
Drawn = tuple[Table, list[tuple[Any, ...]]]


def _named(table: Table, row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip((column.name for column in table.columns), row, strict=True))


@given(tables_and_rows())
def test_texts_hashes_and_digest_are_those_of_the_reference(drawn: Drawn) -> None:
    table, rows = drawn
    texts = [canonical_row(table, _named(table, row)) for row in rows]
    batch = batch_of(table, rows)
    assert row_texts(table, batch).to_pylist() == texts
    assert row_hashes(table, batch, run_key=RUN_KEY).to_pylist() == [row_hash(t, run_key=RUN_KEY) for t in texts]
    assert segment_digest(table, batch, run_key=RUN_KEY) == digest_of(texts, run_key=RUN_KEY)


@given(st.integers(0, 2).flatmap(lambda keys: tables_and_rows(keys=keys)), st.sampled_from([1, 10, 1_024, 1 << 34]))
def test_buckets_are_those_of_the_reference(drawn: Drawn, buckets: int) -> None:
    table, rows = drawn
    batch = batch_of(table, rows)
    numbers = [bucket_of(table, _named(table, row), buckets=buckets, run_key=RUN_KEY) for row in rows]
    assert bucket_numbers(table, batch, buckets=buckets, run_key=RUN_KEY).tolist() == numbers
    expected: dict[int, SegmentDigest] = {}
    for number, row in zip(numbers, rows, strict=True):
        one = digest_of([canonical_row(table, _named(table, row))], run_key=RUN_KEY)
        expected[number] = expected.get(number, SegmentDigest()) + one
    assert bucket_digests(table, batch, buckets=buckets, run_key=RUN_KEY) == expected


NUMBERS = [column for column in COLUMNS if column.kind in (Kind.INTEGER, Kind.UNSIGNED, Kind.YEAR)]


@given(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3, unique=True), st.integers(1, 2**40), st.data())
def test_keys_of_whole_numbers_fold_as_in_the_reference(
    columns: list[Column], buckets: int, data: st.DataObject
) -> None:
    table = Table("t", tuple(columns), tuple(column.name for column in columns))
    rows = data.draw(st.lists(st.tuples(*(VALUES[column] for column in columns)), max_size=5))
    numbers = [bucket_of(table, _named(table, row), buckets=buckets, run_key=RUN_KEY) for row in rows]
    assert bucket_numbers(table, batch_of(table, rows), buckets=buckets, run_key=RUN_KEY).tolist() == numbers


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_edge_values_have_the_texts_of_the_reference(column: Column) -> None:
    values = [None, *EDGES.get(column.kind, []), None]
    expected = [canonical_text(column, value) for value in values]
    assert canonical_texts(column, array_of(column, values)).to_pylist() == expected
    assert canonical_texts(column, array_of(column, values).slice(1)).to_pylist() == expected[1:]
    assert canonical_texts(column, array_of(column, [])).to_pylist() == []


@pytest.mark.parametrize("case", (*CASES, *INEXACT_CASES), ids=lambda case: case.column.name)
def test_edge_values_of_mariadb_have_the_texts_of_the_reference(case: KindCase) -> None:
    values = [None, *(edge.value for edge in case.edges)]
    found = canonical_texts(case.column, array_of(case.column, values))
    assert found.to_pylist() == [canonical_text(case.column, value) for value in values]


@given(st.lists(st.one_of(st.floats(), st.floats(width=32), st.floats(1e-6, 1e25)), max_size=50))
def test_floats_are_written_as_the_reference_writes_them(values: list[float]) -> None:
    column = Column("d", Kind.DOUBLE, "double precision")
    texts = canonical_texts(column, array_of(column, values)).to_pylist()
    assert texts == [canonical_text(column, value) for value in values]


@pytest.mark.parametrize("scale", [0, 1, 6, 7, 18])
@pytest.mark.parametrize("digits", [18, 60])
def test_decimals_however_small_are_written_without_an_exponent(digits: int, scale: int) -> None:
    column = Column("d", Kind.DECIMAL, f"decimal({digits},{scale})", precision=digits, scale=scale)
    values = [None, *(Decimal(number).scaleb(-scale) for number in (0, 1, -1, 10, -99, 10**17, 1 - 10**18))]
    texts = canonical_texts(column, array_of(column, values)).to_pylist()
    assert texts == [canonical_text(column, value) for value in values]


def test_parts_of_a_batch_add_up_to_the_whole() -> None:
    table = Table("t", (Column("n", Kind.INTEGER, "bigint"), Column("s", Kind.BYTES, "blob")), ("n",))
    batch = batch_of(table, [(n, None if n % 7 == 0 else b"x" * (n % 5)) for n in range(1_000)])
    whole = segment_digest(table, batch, run_key=RUN_KEY)
    parts = [segment_digest(table, batch.slice(at, 300), run_key=RUN_KEY) for at in range(0, 1_000, 300)]
    assert sum(parts, SegmentDigest()) == whole
    assert sum(bucket_digests(table, batch, buckets=16, run_key=RUN_KEY).values(), SegmentDigest()) == whole


@given(st.data())
def test_digests_are_equal_where_all_texts_are_and_only_there(data: st.DataObject) -> None:
    column = data.draw(st.sampled_from(COLUMNS))
    one, other = data.draw(st.tuples(*[st.none() | VALUES[column]] * 2))
    table = Table("t", (Column("id", Kind.INTEGER, "int"), column), ("id",))
    digests = [segment_digest(table, batch_of(table, [(1, value)]), run_key=RUN_KEY) for value in (one, other)]
    is_same = canonical_text(column, one) == canonical_text(column, other)
    assert (digests[0] == digests[1]) == (is_same or column in inexact_columns(table))


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=20), st.integers(1, 5))
def test_floats_are_summed_up_exactly_however_they_come(values: list[float | None], size: int) -> None:
    table = Table("t", (Column("f", Kind.DOUBLE, "double"),))
    batch = batch_of(table, [(value,) for value in values])
    parts = [batch.slice(at, size) for at in range(0, len(values), size)]
    found = float_summaries(table, parts)["f"]
    there = [value for value in values if value is not None]
    summed = [Fraction(repr(value)) for value in there if abs(value) < 1e20]
    assert (found.count, found.least, found.greatest) == (
        len(there),
        min(there, default=None),
        max(there, default=None),
    )
    assert (None if found.total is None else Fraction(found.total)) == (sum(summed) if summed else None)


def test_what_is_no_number_is_the_greatest_of_a_summary() -> None:
    table = Table("t", (Column("f", Kind.FLOAT, "float"),))
    found = float_summaries(table, [batch_of(table, [(math.nan,), (math.inf,), (1.5,), (None,)])])["f"]
    assert (found.count, found.least, found.total) == (3, 1.5, Decimal("1.5"))
    assert math.isnan(found.greatest or 0.0)


def test_a_key_without_a_value_has_no_bucket() -> None:
    table = Table("t", (Column("n", Kind.INTEGER, "bigint"),), ("n",))
    with pytest.raises(InvariantViolated, match="a key column holds NULL: n"):
        bucket_numbers(table, batch_of(table, [(None,)]), buckets=4, run_key=RUN_KEY)


def test_a_table_without_exact_columns_has_empty_texts() -> None:
    table = Table("t", (Column("f", Kind.FLOAT, "float"),))
    assert row_texts(table, batch_of(table, [(1.0,), (2.0,)])).to_pylist() == ["", ""]
    assert row_texts(table, batch_of(table, [])).type == pa.large_utf8()
