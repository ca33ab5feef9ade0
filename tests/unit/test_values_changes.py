"""A batch of changes holds all that a sink needs, and its parts fit each other or it is none."""

import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from seamline.adapters.debezium.row_images import RowImages
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import InvariantViolated
from seamline.values.build import batch_of
from seamline.values.changes import ChangeBatch, change_batch, old_key_schema
from tests.log_topic import ACCOUNT, sync_plan
from tests.opened_sink import decoder_of

KEYED = Table(
    "orders",
    (
        Column("id", Kind.INTEGER, "bigint", nullable=False),
        Column("part", Kind.STRING, "text", nullable=False),
        Column("amount", Kind.DECIMAL, "numeric(12,2)", nullable=False, precision=12, scale=2),
        Column("memo", Kind.STRING, "text", nullable=False, toastable=True),
    ),
    ("id", "part"),
)
KEYLESS = Table("events", (Column("at", Kind.INSTANT, "timestamptz", nullable=False), Column("n", Kind.INTEGER, "int")))


def _rows(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    """As the log has them: a delete's image may be its key alone, and a value may be left out."""
    loose = replace(KEYED, columns=tuple(replace(column, nullable=True) for column in KEYED.columns))
    return pa.RecordBatch.from_arrays(batch_of(loose, rows).columns, schema=batch_of(KEYED, []).schema)


def _flags(**columns: list[bool]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def _old_keys(*keys: tuple[int, str] | None) -> pa.RecordBatch:
    rows = [dict(zip(KEYED.key, key or (None, None), strict=True)) for key in keys]
    return pa.RecordBatch.from_pylist(rows, schema=old_key_schema(KEYED))


CHANGES = ChangeBatch(
    KEYED,
    _rows((1, "a", 5, "x"), (2, "a", None, None), (3, "b", 7, None)),
    deleted=pa.array([False, True, False]),
    offset=pa.array([10, 12, 11], pa.int64()),
    met=pa.array([False, True, True]),
    missing=_flags(memo=[False, False, True]),
    old_key=_old_keys(None, None, (4, "b")),
    changes_in=4,
)
NET = ChangeBatch(
    KEYLESS, batch_of(KEYLESS, [(0, 1), (0, None)]), copies=pa.array([2, -1], pa.int64()), truncate_first=True, chunk=3
)


def test_a_keyed_batch_says_of_each_row_what_a_sink_asks() -> None:
    assert CHANGES.is_missing("memo").to_pylist() == [False, False, True]
    assert CHANGES.is_missing("amount").to_pylist() == [False] * 3
    assert CHANGES.expects_deletes
    assert not replace(CHANGES, met=pa.array([False, False, True])).expects_deletes
    assert not NET.expects_deletes


@pytest.mark.parametrize("batch", [CHANGES, NET], ids=["keyed", "keyless"])
def test_a_batch_crosses_to_another_process_whole(batch: ChangeBatch) -> None:
    assert pickle.loads(pickle.dumps(batch)) == batch


def test_rows_that_go_do_not_make_the_reader_look_at_every_image_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their other columns are NULL, and the reader counts those that were written."""
    monkeypatch.setattr(RowImages, "check_all", lambda *_: pytest.fail("every image is looked at"))
    keyed = [
        KeyedChange(b"{}", is_delete, True, b'{"id":%d,"name":"a"}' % number, number)
        for number, is_delete in enumerate([True, False] * 100)
    ]
    found = change_batch(ACCOUNT, TableChanges("account", keyed), decoder_of(sync_plan((ACCOUNT,))))
    assert found.rows.column("name").null_count == 100


def test_a_batch_without_rows_is_empty_unless_it_empties_the_table() -> None:
    nothing = ChangeBatch(KEYLESS, batch_of(KEYLESS, []), copies=pa.array([], pa.int64()))
    assert nothing.is_empty
    assert not replace(nothing, truncate_first=True).is_empty
    assert not CHANGES.is_empty


NO_KEY = _rows((1, None, 5, "x"), (2, "a", 1, ""), (3, "b", 7, None))
FAULTS: dict[str, tuple[ChangeBatch, dict[str, Any]]] = {
    "the rows have another schema": (CHANGES, {"rows": NET.rows}),
    "number is negative": (CHANGES, {"chunk": -1}),
    "deleted is not given": (CHANGES, {"deleted": None}),
    "offset has 1 values of 3 rows": (CHANGES, {"offset": pa.array([1], pa.int64())}),
    "deleted is int64, should be bool": (CHANGES, {"deleted": pa.array([0, 1, 0], pa.int64())}),
    "met holds NULL": (CHANGES, {"met": pa.array([True, None, True])}),
    "a table with a key has no copies": (CHANGES, {"copies": pa.array([1, 1, 1], pa.int64())}),
    r"missing\.memo has 1 values of 3 rows": (CHANGES, {"missing": _flags(memo=[True])}),
    "missing has a column note": (CHANGES, {"missing": _flags(note=[True] * 3)}),
    "memo has a value in a row where": (CHANGES, {"missing": _flags(memo=[True, False, True])}),
    "memo is NOT NULL and holds NULL": (CHANGES, {"missing": None, "old_key": None}),
    "part is of the key and holds NULL": (
        CHANGES,
        {"rows": NO_KEY},
    ),
    "old_key has 1 values of 3 rows": (CHANGES, {"old_key": _old_keys(None)}),
    "old_key has another schema": (CHANGES, {"old_key": _flags(id=[True] * 3)}),
    "an old key is given in part": (CHANGES, {"old_key": _old_keys(None, None, (4, None))}),
    "a row has an old key and all its values": (CHANGES, {"old_key": _old_keys((4, "b"), None, None)}),
    "has copies alone": (NET, {"met": pa.array([True, True])}),
    "copies is not given": (NET, {"copies": None}),
    "a row of 0 copies": (NET, {"copies": pa.array([0, 1], pa.int64())}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_batch_whose_parts_do_not_fit_is_refused(fault: str) -> None:
    batch, other = FAULTS[fault]
    with pytest.raises(InvariantViolated, match=fault):
        replace(batch, **other)
