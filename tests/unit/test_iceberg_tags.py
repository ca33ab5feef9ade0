"""Tags of Iceberg tables: what they hold stays, whatever the stream and its maintenance do meanwhile."""

import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from seamline.domain.errors import Diverged, Refused
from seamline.sinks.iceberg import snapshot
from seamline.sinks.iceberg.manifests import Head, read_head, read_metadata, write_metadata
from seamline.sinks.iceberg.reading import IcebergTable
from seamline.sinks.iceberg.tags import IcebergTags
from seamline.sinks.lake.files import NewFiles
from seamline.sinks.lake.tagging import TableTags, Tag
from tests.contract.behaviours import Applying, account, published
from tests.contract.lake_worlds import MemoryCatalogueWorld, compacted
from tests.log_topic import ACCOUNT, AUDIT, TABLES, delete, insert, update

UNTIL = datetime.now(UTC) + timedelta(days=30)
NAME = "cut_2026_11_27_v1"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryCatalogueWorld:
    monkeypatch.setattr(snapshot, "SNAPSHOTS_KEPT", 3)
    monkeypatch.setattr(snapshot, "_LET_GO_AT_ONCE", 1)
    return MemoryCatalogueWorld(TABLES, tmp_path)


def location(world: MemoryCatalogueWorld) -> str:
    return world.database.state.heads["settlement", "account"]


def tagged(world: MemoryCatalogueWorld, tags: TableTags) -> None:
    """As a cut does it, by a pointer of a catalogue in memory."""
    staged = IcebergTags().staged("account", location(world), tags, mark="cut")
    assert staged is not None
    world.database.state.heads["settlement", "account"] = staged.location
    staged.drop_unneeded()


def names_in(world: MemoryCatalogueWorld, tag: str) -> list[str]:
    """By the tag, as pyiceberg reads it."""
    table = StaticTable.from_metadata(location(world))
    found = table.snapshot_by_name(tag)
    assert found is not None
    return sorted(table.scan(snapshot_id=found.snapshot_id).to_arrow().column("name").to_pylist())


def goes_on(stream: Applying, world: MemoryCatalogueWorld, commits: int = 8) -> None:
    row = account(1, "at the cut")
    for number in range(commits):
        stream.span(update(ACCOUNT, row, row := account(1, f"after {number}")))
    assert len(read_metadata(location(world)).snapshots) <= 6, "old snapshots are let go of"


def what_a_cut_holds_is_kept(world: MemoryCatalogueWorld) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1, "at the cut")))
    (head,) = IcebergTags().heads({"account": location(world)}).values()
    stream.span(insert(ACCOUNT, **account(2, "behind it")))
    tagged(world, TableTags([Tag(NAME, head, UNTIL)]))
    goes_on(stream, world)
    assert names_in(world, NAME) == ["at the cut"]


def test_what_a_cut_holds_is_kept_and_goes_once_its_tag_has_gone(world: MemoryCatalogueWorld) -> None:
    what_a_cut_holds_is_kept(world)
    held = read_metadata(location(world)).refs[NAME].snapshot_id
    tagged(world, TableTags(dropped=[NAME, "another"]))
    stream = Applying(world)
    for number in (11, 12):
        stream.span(insert(ACCOUNT, **account(number)))
    assert held not in {one.snapshot_id for one in read_metadata(location(world)).snapshots}
    assert world.findings() == [], "a tag is no foreign write"


def expired(world: MemoryCatalogueWorld, head: Head) -> None:
    """As Spark's expire_snapshots leaves it: the head alone, which still names the one that it came from."""
    kept = [one for one in head.metadata.snapshots if one.snapshot_id == head.snapshot_id]
    after = head.metadata.model_copy(update={"snapshots": kept})
    place = NewFiles(after.location, "theirs").versioned(99)
    world.database.state.heads["settlement", "account"] = write_metadata(after, place)


def test_a_stream_goes_on_behind_a_client_that_compacts_and_lets_go_of_the_snapshot_before(
    world: MemoryCatalogueWorld,
) -> None:
    published(world).span(insert(ACCOUNT, **account(1)))
    expired(world, compacted(read_head(location(world))))
    Applying(world).span(insert(ACCOUNT, **account(2)))
    assert (len(world.rows(ACCOUNT)), world.findings()) == (2, [])


def test_a_stream_stops_where_what_became_of_the_snapshot_before_is_not_known(world: MemoryCatalogueWorld) -> None:
    published(world).span(insert(ACCOUNT, **account(1)))
    expired(world, compacted(compacted(read_head(location(world)))))
    with pytest.raises(Diverged, match="is gone"):
        Applying(world)


def test_an_idle_table_is_read_behind_a_client_that_compacts_and_lets_go_of_the_snapshot_before(
    world: MemoryCatalogueWorld,
) -> None:
    published(world).span(insert(ACCOUNT, **account(1)))
    (known,) = IcebergTags().heads({"account": location(world)}).values()
    expired(world, compacted(read_head(location(world))))
    table = IcebergTable("account", location(world), known)
    assert table.arrow().to_pydict() == {"id": [1], "name": ["a"]}
    (now,) = IcebergTags().heads({"account": location(world)}).values()
    assert now == table.snapshot_id != known, "other clients open it by the snapshot that is there"
    expired(world, compacted(compacted(read_head(location(world)))))
    with pytest.raises(Refused, match=f"has no snapshot {known}"):
        IcebergTable("account", location(world), known).arrow()


def _on_the_head(patch: pytest.MonkeyPatch) -> None:
    right = IcebergTags.staged

    def wrong(self: IcebergTags, table: str, location: str, tags: TableTags, *, mark: str) -> object:
        head = self.heads({table: location})[table]
        put = [Tag(tag.name, head, tag.until) for tag in tags.put]
        return right(self, table, location, TableTags(put, tags.dropped), mark=mark)

    patch.setattr(IcebergTags, "staged", wrong)


def _held_by_nobody(patch: pytest.MonkeyPatch) -> None:
    right = snapshot.let_go
    patch.setattr(snapshot, "let_go", lambda metadata: right(metadata.model_copy(update={"refs": {}})))


@pytest.mark.parametrize("plant", [_on_the_head, _held_by_nobody])
def test_a_planted_bug_is_caught(
    world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        what_a_cut_holds_is_kept(world)


def test_a_tag_s_age_counts_from_its_snapshot_and_a_snapshot_that_is_gone_is_not_tagged(
    world: MemoryCatalogueWorld,
) -> None:
    published(world)
    (head,) = IcebergTags().heads({"account": location(world)}).values()
    tagged(world, TableTags([Tag(NAME, head, UNTIL)]))
    found = read_metadata(location(world))
    taken = found.snapshot_by_id(head)
    assert taken is not None
    assert taken.timestamp_ms + (found.refs[NAME].max_ref_age_ms or 0) == int(UNTIL.timestamp() * 1000)
    assert IcebergTags().staged("account", location(world), TableTags(dropped=["no such"]), mark="cut") is None
    with pytest.raises(Refused, match="is gone"):
        tagged(world, TableTags([Tag(NAME, 1, UNTIL)]))


def test_a_table_at_a_snapshot_is_read_in_parts_that_leave_nothing_out(world: MemoryCatalogueWorld) -> None:
    stream = published(world)
    for number in range(5):
        stream.span(insert(ACCOUNT, **account(number, f"n{number}")))
    stream.span(delete(ACCOUNT, **account(3, "n3")), insert(AUDIT, actor="x", action="y"))
    (head,) = IcebergTags().heads({"account": location(world)}).values()
    table = pickle.loads(pickle.dumps(IcebergTable("account", location(world), head)))
    stream.span(insert(ACCOUNT, **account(9)))
    assert table.arrow().sort_by("id").to_pydict() == {"id": [0, 1, 2, 4], "name": ["n0", "n1", "n2", "n4"]}
    assert table.parts == 5
    found = [batch for part in range(3) for batch in table.batches(part=part, of=3)]
    assert sorted(pa.Table.from_batches(found).column("id").to_pylist()) == [0, 1, 2, 4]
    with pytest.raises(Refused, match="has no snapshot 7"):
        IcebergTable("account", location(world), 7).arrow()
    audit = world.database.state.heads["settlement", "audit"]
    keyless = IcebergTable("audit", audit, read_metadata(audit).current_snapshot_id or 0)
    assert keyless.arrow().schema.names == ["actor", "action"], "without the hash of its rows"
    transfer = world.database.state.heads["settlement", "transfer"]
    empty = IcebergTable("transfer", transfer, read_metadata(transfer).current_snapshot_id or 0)
    assert (empty.parts, empty.arrow().num_rows, empty.schema.names) == (0, 0, ["tx", "leg", "amount"])
