"""Iceberg tables beside the sink suite: whole loads, views, somebody else who writes, pointers that move meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamline.domain.changes import Finding
from seamline.domain.digest import KeyedDigest, Segment, SegmentDigest
from seamline.domain.errors import Diverged, GateFailed, Refused, SchemaConflict, TransientError
from seamline.kinds.bulk import ArrowRows
from seamline.sinks.iceberg import types
from seamline.sinks.iceberg.edit import TableEdit
from seamline.sinks.iceberg.layout import TableLayout
from seamline.sinks.iceberg.manifests import Head, read_head
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.partitions import Division
from seamline.sinks.iceberg.read_back import live
from seamline.sinks.iceberg.rows import RowIndex
from seamline.sinks.lake.files import NewFiles
from seamline.sinks.lake.loads import LakeLoadArea, drop_abandoned, load, location_of
from seamline.sinks.lake.read_back import open_staged, view_of
from seamline.sinks.lake.store import PointerMove, Seen
from seamline.values.build import batch_of
from seamline.values.changes import ChangeBatch
from seamline.values.digest import segment_digest
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.lake_worlds import MemoryCatalogueWorld, compacted
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, delete, insert, position, publication, update

KEY = "settlement"


@pytest.fixture
def world(tmp_path: Path) -> MemoryCatalogueWorld:
    return MemoryCatalogueWorld(TABLES, tmp_path)


# ---- loads ----------------------------------------------------------------------------------------------------------


def test_a_load_is_done_by_its_receipt_and_a_table_without_rows_has_no_file(world: MemoryCatalogueWorld) -> None:
    options = options_of(world.destination)
    area = LakeLoadArea(options.warehouse, "settlement")
    places = area.create([ACCOUNT, AUDIT])
    rows = batch_of(ACCOUNT, [(number, "ü") for number in range(1_000)])
    for _ in range(2):
        assert (
            load(
                options.warehouse,
                places["account"],
                ArrowRows(rows.schema, iter([rows, rows.slice(0, 0), rows])),
                types,
            )
            == 2_000
        )
    assert load(options.warehouse, places["audit"], ArrowRows(batch_of(AUDIT, []).schema, iter([])), types) == 0
    found = {
        name: list(location_of(options.warehouse, place.name).rglob("*.parquet")) for name, place in places.items()
    }
    assert [pq.read_metadata(path).num_rows for path in found["account"]] == [2_000], "another attempt starts over"
    assert found["audit"] == []
    assert area.progress().written_bytes > 1_000
    assert area.progress().open == ()
    (location_of(options.warehouse, places["account"].name) / "receipt.json").unlink()
    assert area.progress().open == (places["account"].name,), "by the name of its place"
    area.drop()
    assert not location_of(options.warehouse, places["account"].name).exists()


def test_a_large_load_is_several_files(world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamline.sinks.lake.loads.FILE_BYTES", 10_000)
    rows = [account(number, "x" * 100) for number in range(500)]
    options = options_of(world.destination)
    place = LakeLoadArea(options.warehouse, "settlement").create([ACCOUNT])["account"]
    batches = [batch_of(ACCOUNT, [tuple(row.values()) for row in rows[at : at + 50]]) for at in range(0, 500, 50)]
    assert load(options.warehouse, place, ArrowRows(batches[0].schema, iter(batches)), types) == 500
    assert len(list(location_of(options.warehouse, place.name).rglob("*.parquet"))) == 5


def test_staged_rows_are_read_back_and_held_against_what_was_compared(world: MemoryCatalogueWorld) -> None:
    rows = batch_of(ACCOUNT, [(number, f"n{number}") for number in range(7)])
    staged = world.load(ACCOUNT, [account(number, f"n{number}") for number in range(7)])
    warehouse = options_of(world.destination).warehouse
    (view,) = open_staged(warehouse, [staged], 1, position=position(3), storage=types)
    digest = segment_digest(ACCOUNT, rows, run_key=KEY)
    assert sum(view.digests(Segment("account", buckets=4), run_key=KEY).values(), SegmentDigest()) == digest
    assert view.position == position(3)
    others = [world.load(table, []) for table in (TRANSFER, AUDIT)]
    wrong = replace(staged, digest=KeyedDigest(KEY, digest + digest))
    with pytest.raises(GateFailed, match="other values"):
        world.sink().publish(STREAM, [wrong, *others], publication=publication())
    world.sink().publish(STREAM, [replace(staged, digest=KeyedDigest(KEY, digest)), *others], publication=publication())
    assert len(world.rows(ACCOUNT)) == 7


def test_a_load_that_nobody_publishes_is_dropped_and_one_that_a_publish_has_begun_with_never(
    world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options_of(world.destination)
    published(world)
    replaced_by = [world.load(table, [account(3)] if table is ACCOUNT else []) for table in TABLES]
    world.sink().publish(STREAM, replaced_by, publication=publication(run_id="run-2"))
    world.load(ACCOUNT, [account(1)])
    # Where Spark makes a table of somebody else's, in the same namespace.
    theirs = Path(options.warehouse, "settlement", "theirs", "data", "one.parquet")
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"PAR1")
    assert drop_abandoned(options.warehouse, "settlement") == 0
    monkeypatch.setattr("seamline.sinks.lake.loads.ABANDONED_AFTER_S", -60)
    assert drop_abandoned(options.warehouse, "settlement") == 1
    assert theirs.exists()
    Applying(world).span(insert(ACCOUNT, **account(4)))
    assert world.rows(ACCOUNT) == texts(account(3), account(4))


# ---- views ----------------------------------------------------------------------------------------------------------


def test_live_tables_are_digested_as_the_source_s_rows_are(world: MemoryCatalogueWorld) -> None:
    stream = published(world)
    stream.span(*[insert(ACCOUNT, **account(number, f"n{number}")) for number in range(9)])
    stream.span(delete(ACCOUNT, **account(4, "n4")), update(ACCOUNT, account(1, "n1"), account(1, None)))
    stream.span(*[insert(AUDIT, actor="x", action="y")] * 3)
    rows = batch_of(ACCOUNT, [(n, None if n == 1 else f"n{n}") for n in range(9) if n != 4])
    view = view_of(world.plan, world.seen(), live)
    assert sum(view.digests(Segment("account", buckets=3), run_key=KEY).values(), SegmentDigest()) == segment_digest(
        ACCOUNT, rows, run_key=KEY
    )
    assert view.key_span("account") == (0, 8)
    assert view.key_span("transfer") is None
    assert view.columns("account") == ("id", "name")
    assert view.columns("nowhere") == ()
    assert view.rows("account", ["1", "4"]) == {"1": {"id": "1", "name": None}}
    assert view.totals(Segment("account"), columns=["id"], by=()) == {(): (8, 32)}
    assert len(view.row_hashes(Segment("account", key_from=2, key_below=6), run_key=KEY)) == 3
    assert [one.copies for one in view.row_hashes(Segment("audit"), run_key=KEY)] == [1, 1, 1]
    assert view.whole_digest("audit", run_key=KEY).rows == 3
    narrow = view.digests(Segment("account", columns=("id",), buckets=2), run_key=KEY)
    assert sum(one.rows for one in narrow.values()) == 8


def test_a_view_shows_what_stood_when_it_was_opened(world: MemoryCatalogueWorld) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    view = view_of(world.plan, world.seen(), live)
    stream.span(delete(ACCOUNT, **account(1)))
    assert [one.rows for one in view.digests(Segment("account"), run_key=KEY).values()] == [1]
    with pytest.raises(Refused, match="never published"):
        view_of(world.plan, Seen(), live)


# ---- repeats --------------------------------------------------------------------------------------------------------


def test_a_span_that_was_committed_is_answered_before_anything_of_it_is_staged(world: MemoryCatalogueWorld) -> None:
    stream = published(world)
    stream.span(insert(AUDIT, actor="x", action="y"))
    (batch,) = stream.batches(delete(AUDIT, actor="x", action="y"))
    progress = stream.progress()
    for _ in range(2):
        staged = [stream.sink.stage(stream.lease, batch)]
        assert stream.sink.commit(stream.lease, staged, progress=progress).ledger.next_offset == progress.span.end
    assert world.rows(AUDIT) == []


def test_a_warehouse_that_is_away_is_waited_for_and_nothing_of_the_span_is_lost(world: MemoryCatalogueWorld) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    warehouse = Path(dict(world.destination.options)["warehouse"])
    aside = warehouse.rename(warehouse.with_name("aside"))
    warehouse.mkdir()  # as a place where nothing is mounted
    with pytest.raises(TransientError, match="look at the warehouse"):
        stream.span(insert(ACCOUNT, **account(2)))
    with pytest.raises(TransientError):
        world.sink().acquire(STREAM)
    assert list(warehouse.iterdir()) == []
    warehouse.rmdir()
    aside.rename(warehouse)
    Applying(world).span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1), account(2))


# ---- somebody else --------------------------------------------------------------------------------------------------


def written_by_somebody(world: MemoryCatalogueWorld, change: Callable[[Head], Head]) -> None:
    """Move the pointer of `account` as another client of the catalogue does."""
    state = world.database.state
    state.heads["settlement", "account"] = change(read_head(state.heads["settlement", "account"])).location


def appended(head: Head) -> Head:
    rows = batch_of(ACCOUNT, [(77, "theirs")])
    no = pa.array([False])
    batch = ChangeBatch(ACCOUNT, rows, deleted=no, offset=pa.array([0], pa.int64()), met=no)
    edit = TableEdit(
        ACCOUNT, head, RowIndex(ACCOUNT), NewFiles(head.metadata.location, "theirs"), Division(ACCOUNT, TableLayout())
    )
    edit.apply([batch])
    staged = edit.staged()
    assert staged is not None
    return staged[0]


def test_rows_that_somebody_else_has_written_stop_the_stream_and_are_a_finding(world: MemoryCatalogueWorld) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    written_by_somebody(world, appended)
    with pytest.raises(Diverged, match="account: append of snapshot"):
        stream.span(insert(ACCOUNT, **account(2)))
    for _ in range(2):
        with pytest.raises(Diverged, match="somebody else"):
            world.sink().acquire(STREAM)
    assert {(one.table, one.kind) for one in world.findings()} == {("account", "foreign write")}
    fresh = [world.load(table, [account(5)] if table is ACCOUNT else []) for table in TABLES]
    world.sink().publish(STREAM, fresh, publication=publication(run_id="run-2"))
    Applying(world).span(insert(ACCOUNT, **account(6)))
    assert world.rows(ACCOUNT) == texts(account(5), account(6)), "a load mends it"


def test_a_table_that_is_gone_from_the_catalogue_stops_the_stream(world: MemoryCatalogueWorld) -> None:
    published(world)
    world.database.state.heads.pop(("settlement", "audit"))
    with pytest.raises(Diverged, match="gone from the catalogue"):
        world.sink().acquire(STREAM)


def test_a_compaction_is_gone_on_from(world: MemoryCatalogueWorld) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    written_by_somebody(world, compacted)
    stream.span(insert(ACCOUNT, **account(2)), delete(ACCOUNT, **account(1)))
    written_by_somebody(world, compacted)
    Applying(world).span(insert(ACCOUNT, **account(3)))
    assert world.rows(ACCOUNT) == texts(account(2), account(3))
    assert world.findings() == []


class Interrupted:
    """A store beside which the pointer of `account` moves, between each look and its commit, so many times."""

    def __init__(self, world: MemoryCatalogueWorld, times: int) -> None:
        self._world, self._store, self.times = world, world.store(), times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, lease: Any, moves: list[PointerMove], findings: list[Finding], **more: Any) -> Any:
        if self.times:
            self.times -= 1
            written_by_somebody(self._world, compacted)
        return self._store.commit(lease, moves, findings, **more)


def test_a_pointer_that_moves_meanwhile_lets_the_table_be_staged_again(world: MemoryCatalogueWorld) -> None:
    published(world).span(insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="y"))
    store = Interrupted(world, 3)
    stream = Applying(world, sink=world.sink_over(store))  # type: ignore[arg-type]
    before = set(Path(dict(world.destination.options)["warehouse"]).rglob("*.parquet"))
    commit = stream.span(update(ACCOUNT, account(1), account(1, "b")), delete(AUDIT, actor="x", action="y"))
    assert (world.rows(ACCOUNT), world.rows(AUDIT)) == (texts(account(1, "b")), [])
    assert (commit.findings_total, store.times) == (0, 0)
    made = set(Path(dict(world.destination.options)["warehouse"]).rglob("*.parquet")) - before
    assert len(made) == 2, "a new row and the delete of the old one; `audit` lets go of a file without living rows"
    store.times = 1_000
    with pytest.raises(TransientError, match="has moved 20 times"):
        stream.span(insert(ACCOUNT, **account(9)))


def test_a_table_that_somebody_else_has_made_is_not_taken_over(world: MemoryCatalogueWorld) -> None:
    loads = [world.load(table, []) for table in TABLES]
    world.database.state.heads["settlement", "account"] = "/somewhere"
    with pytest.raises(Refused, match="was not made by"):
        world.sink().publish(STREAM, loads, publication=publication())


def test_a_live_table_of_another_schema_is_not_written(world: MemoryCatalogueWorld) -> None:
    published(world)
    wider = replace(ACCOUNT, columns=(*ACCOUNT.columns, replace(ACCOUNT.columns[1], name="more")))
    other = MemoryCatalogueWorld((wider, TRANSFER, AUDIT), Path(dict(world.destination.options)["warehouse"]))
    other.database = world.database
    loads = [other.load(table, []) for table in (wider, TRANSFER, AUDIT)]
    with pytest.raises(SchemaConflict, match="column more"):
        other.sink().publish(STREAM, loads, publication=publication((wider, TRANSFER, AUDIT), run_id="run-2"))
