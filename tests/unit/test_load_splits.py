"""What is kept of an interrupted load, and which changes of the log concern it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from seamline.bulk.read import RunReader
from seamline.bulk.resume import SplitLoads
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import Diverged, TransientError
from seamline.domain.load_progress import LoadSoFar, load_from_json, load_to_json
from seamline.domain.load_splits import (
    DoneSplit,
    SplitRead,
    Splitting,
    edges_of,
    made_as,
    ranges_of,
    read_from_json,
    read_to_json,
    why_not_kept,
)
from seamline.domain.made_from import LogPlace
from seamline.domain.runs import RunKind, RunState
from seamline.kinds.bulk import LoadProgress
from seamline.kinds.split_rules import of_one_attempt
from seamline.plan.model import DestinationPlan, Run, SyncPlan
from seamline.ports import TableRead
from seamline.sources.mariadb.position import BinlogPosition
from seamline.values.arrow import schema_of
from seamline.values.changes import ChangeBatch, old_key_schema
from seamline.values.key_ranges import in_key_ranges

ID = Column("id", Kind.INTEGER, "bigint", nullable=False, length=64)
MEMO = Column("memo", Kind.STRING, "text")
TABLE = Table("account", (ID, MEMO), ("id",), rows_estimate=1_000_000)
POSITION = BinlogPosition("0-1-100", "binlog.000001", 100)
READ = SplitRead("r1", "binlog.000001:100", POSITION, LogPlace("log", "t1", 50, POSITION, is_exact=False))
DONE = DoneSplit(0, "r1", READ.proof, 10)


def test_every_key_lies_in_exactly_one_range() -> None:
    edges = edges_of((1, 100), 4)
    assert edges == (26, 51, 76)
    for key in (-5, 1, 25, 26, 50, 51, 100, 10_000):
        inside = [
            1 for low, below in ranges_of(edges) if (low is None or key >= low) and (below is None or key < below)
        ]
        assert len(inside) == 1, key
    assert ranges_of(edges_of(None, 4)) == [(None, None)]


def test_a_table_is_divided_where_ranges_of_its_key_hold_about_as_many_rows() -> None:
    splitting = Splitting(rows=100_000, parts_max=32)
    assert splitting.parts(TABLE) == 10
    assert splitting.parts(replace(TABLE, rows_estimate=10**9)) == 32
    assert splitting.parts(replace(TABLE, rows_estimate=-1)) == 1
    assert splitting.parts(replace(TABLE, key=("id", "memo"))) == 10
    assert splitting.parts(replace(TABLE, key=("memo", "id"))) == 1
    assert splitting.parts(replace(TABLE, key=())) == 1
    assert splitting.parts(replace(TABLE, columns=(ID, replace(MEMO, kind=Kind.NATIVE)))) == 1


@pytest.mark.parametrize(
    ("done", "topic_id", "begins", "why"),
    [
        ((DONE,), "t1", 50, ""),
        ((replace(DONE, read="r2"),), "t1", 50, "before the place of its read was written down"),
        ((replace(DONE, proof="elsewhere"),), "t1", 50, "split 0 was read at elsewhere"),
        ((DONE,), "t2", 50, "the log topic was created again"),
        ((DONE,), "t1", 51, "the log begins at offset 51"),
    ],
)
def test_splits_are_kept_only_where_the_log_reaches_their_read(
    done: tuple[DoneSplit, ...], topic_id: str, begins: int, why: str
) -> None:
    found = why_not_kept(done, {"r1": read_from_json(read_to_json(READ))}, topic_id=topic_id, begins=begins)
    assert why in found
    assert bool(found) == bool(why)


def test_what_is_staged_is_known_by_definition_part_source_and_log() -> None:
    made = made_as("print", Segment("account"), source="bank", topic_id="t1")
    others = (
        made_as("other", Segment("account"), source="bank", topic_id="t1"),
        made_as("print", Segment("account", key_from=1), source="bank", topic_id="t1"),
        made_as("print", Segment("account"), source="shop", topic_id="t1"),
        made_as("print", Segment("account"), source="bank", topic_id="t2"),
    )
    assert len({made, *others}) == 5


def test_tables_of_the_newest_attempt_alone_are_gone_on_with() -> None:
    labels = {
        "old": {"made": "01", "attempt": "a"},
        "kept": {"made": "02", "attempt": "b"},
        "new": {"made": "03", "attempt": "b"},
    }
    assert of_one_attempt(labels) == {"kept", "new"}
    assert of_one_attempt({}) == set()


def batch_of(*keys: int, old_keys: tuple[int | None, ...] = ()) -> ChangeBatch:
    count = len(keys)
    rows = pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.int64()), pa.array([None] * count, schema_of(TABLE).field(1).type)], schema=schema_of(TABLE)
    )
    return ChangeBatch(
        TABLE,
        rows,
        deleted=pa.array([False] * count),
        offset=pa.array(range(count), pa.int64()),
        met=pa.array([True] * count),
        missing=pa.RecordBatch.from_pydict({"memo": [True] * count}) if old_keys else None,
        old_key=pa.RecordBatch.from_arrays([pa.array(old_keys, pa.int64())], schema=old_key_schema(TABLE))
        if old_keys
        else None,
    )


def test_only_changes_of_rows_in_the_kept_ranges_are_applied_to_them() -> None:
    found = in_key_ranges(batch_of(1, 10, 19, 20, 35), [(None, 10), (10, 20), (30, None)])
    assert found.rows.column("id").to_pylist() == [1, 10, 19, 35]
    assert found.offset is not None
    assert found.offset.to_pylist() == [0, 1, 2, 4]


def test_keys_above_the_greatest_signed_number_lie_in_their_range() -> None:
    table = Table("account", (Column("id", Kind.UNSIGNED, "bigint unsigned", nullable=False, length=64),), ("id",))
    keys = [1, 2**63 - 1, 2**63, 2**64 - 1]
    rows = pa.RecordBatch.from_arrays([pa.array(keys, pa.uint64())], schema=schema_of(table))
    batch = replace(batch_of(*range(4)), table=table, rows=rows)
    found = in_key_ranges(batch, [(None, 2), (2**63, 2**64 - 1)])
    assert found.rows.column("id").to_pylist() == [1, 2**63]


def test_a_row_whose_values_lie_in_a_range_that_was_read_later_is_not_guessed() -> None:
    inside = in_key_ranges(batch_of(1, 50, old_keys=(5, None)), [(None, 10)])
    assert inside.old_key is not None
    assert inside.old_key.column(0).to_pylist() == [5]
    with pytest.raises(Diverged, match="the log left out values"):
        in_key_ranges(batch_of(1, 2, old_keys=(5, 50)), [(None, 10)])


def test_the_time_left_of_a_load_is_by_the_pace_of_this_attempt() -> None:
    so_far = LoadSoFar(rows=900, expected=1_000, kept=800, size_bytes=2_500_000, elapsed_s=10.0)
    assert load_from_json(load_to_json(so_far)) == so_far
    assert (so_far.percent, so_far.left) == (90, timedelta(seconds=10))
    assert so_far.in_words() == (
        "900 of about 1,000 rows (90 %), 2.5 MB staged, 800 rows by an earlier attempt, about 10 s left"
    )
    assert replace(so_far, rows=2_000).percent == 100
    assert replace(so_far, rows=0).in_words() == "2.5 MB staged"


def test_the_log_of_the_task_says_how_far_a_load_is_by_the_destination_that_is_least_far(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    seen: list[LoadSoFar] = []
    nothing: Any = None
    plan = SyncPlan("pay", nothing, (), ())
    run = Run("r", "pay", RunKind.ONBOARD, None, plan, RunState.RUNNING)
    reader = RunReader(run, tasks=lambda _: 1, copying_of=nothing, on_progress=seen.append)
    look = reader._reporting([TableRead(TABLE, Segment("account"))], 100_000)
    look(
        [
            LoadProgress(1_000_000, (), is_working=True, rows=250_000),
            LoadProgress(500_000, (), is_working=True, rows=200_000),
        ]
    )
    (so_far,) = seen
    assert (so_far.rows, so_far.percent, so_far.kept, so_far.size_bytes) == (200_000, 20, 100_000, 1_500_000)
    assert "load of pay: 200,000 of about 1,000,000 rows (20 %), 1.5 MB staged" in caplog.text
    dated = reader._reporting([TableRead(TABLE, Segment("account", date_column="day"))], 0)
    dated([LoadProgress(1_000_000, (), is_working=True, rows=5)])
    assert seen[-1].percent is None, "how many rows a date has, nobody has estimated"


def test_a_destination_that_fails_before_the_read_keeps_no_other_from_its_load() -> None:
    nothing: Any = None
    first, second = (DestinationPlan(name, "postgres", name, "bank") for name in ("first", "second"))
    loads = object.__new__(SplitLoads)
    loads._kept, loads.without_place = {}, {}

    def step(destination: DestinationPlan) -> None:
        loads._kept[destination.name] = nothing
        if destination is first:
            raise TransientError("it is away")

    loads._each([first, second], step)
    assert (list(loads._kept), list(loads.without_place)) == (["second"], ["first"])
    loads._kept.clear()
    with pytest.raises(TransientError, match="away"):
        loads._each([first], step)
