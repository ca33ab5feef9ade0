"""What differs between a table at two places."""

import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from seamline.domain.errors import InvariantViolated, SchemaConflict
from seamline.values.row_changes import Side, changes_between


def side(table: pa.Table, *, rows: int = 2) -> Side:
    return Side(table.schema, lambda: table.to_batches(max_chunksize=rows))


def found(since: pa.Table, until: pa.Table, key: Sequence[str] = ("id",)) -> list[tuple[Any, ...]]:
    batches = changes_between(side(since), side(until), key)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_rows_that_came_went_and_changed_are_found_by_their_key() -> None:
    since = pa.table({"id": [1, 2, 3, 4], "v": ["a", None, "c", "d"]})
    until = pa.table({"v": ["d", "b", None, "c"], "id": [5, 4, 2, 3]})
    assert found(since, until) == [
        ("added", "d", 5),
        ("changed_to", "b", 4),
        ("removed", "a", 1),
        ("changed_from", "d", 4),
    ]
    assert not found(until, until)
    assert found(since.slice(0, 0), since.slice(0, 1)) == [("added", 1, "a")]


def test_identical_rows_without_a_key_are_counted() -> None:
    since, until = pa.table({"a": ["x", "x", None, "z"]}), pa.table({"a": ["x", None, None, "y", "z"]})
    assert found(since, until, ()) == [("added", None), ("added", "y"), ("removed", "x")]


VALUES = {
    "bytes": (pa.large_binary(), b"\xff", b"\xfe"),
    "uuid": (pa.uuid(), uuid.UUID(int=1), uuid.UUID(int=2)),
    "moment": (pa.timestamp("us", tz="UTC"), datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    "day": (pa.date32(), date(2026, 3, 5), date(2026, 3, 6)),
    "time": (pa.time64("us"), time(1), time(2)),
    "span": (pa.duration("us"), timedelta(days=1), timedelta(days=1, microseconds=1)),
    "amount": (pa.decimal128(38, 18), Decimal("1e-18"), Decimal("2e-18")),
    "float": (pa.float64(), 0.1, 0.1 + 2**-56),
    "zero": (pa.float64(), 0.0, -0.0),
    "struct": (pa.struct([("a", pa.int32())]), {"a": 1}, {"a": None}),
    "empty": (pa.string(), "", None),
}


@pytest.mark.parametrize("kind", VALUES)
def test_the_least_difference_of_a_value_is_one(kind: str) -> None:
    type_, one, other = VALUES[kind]
    since, until = (pa.table({"id": [1, 2], "v": pa.array([one, value], type_)}) for value in (one, other))
    assert [row[:2] for row in found(since, until)] == [("changed_to", 2), ("changed_from", 2)]


def test_values_do_not_run_into_each_other() -> None:
    since = pa.table({"id": [1], "a": ["x,1:y"], "b": [""]})
    until = pa.table({"id": [1], "a": ["x"], "b": ["y,0:"]})
    assert len(found(since, until)) == 2


def test_a_column_that_one_side_lacks_is_null_there_and_one_of_another_type_is_refused() -> None:
    since, until = pa.table({"id": [1], "gone": ["x"]}), pa.table({"id": [1], "came": [Decimal(1)]})
    assert found(since, until) == [("changed_to", 1, Decimal(1), None), ("changed_from", 1, None, "x")]
    with pytest.raises(SchemaConflict, match="came is decimal"):
        found(until, pa.table({"id": [1], "came": ["1"]}))


def test_two_rows_of_one_key_are_an_error_and_no_answer() -> None:
    twice = pa.table({"id": [1, 1], "v": ["a", "b"]})
    with pytest.raises(InvariantViolated, match="one key"):
        found(twice, twice.slice(0, 1))
