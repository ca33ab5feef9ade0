"""Files of a lake that nothing names any more: maintenance removes them, and nothing else."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.errors import TransientError
from seamline.sinks.iceberg import orphans, snapshot
from seamline.sinks.iceberg.manifests import read_metadata
from seamline.sinks.lake import edit
from seamline.sinks.lake.files import path_of
from seamline.sinks.lake.loads import claim
from tests.contract.behaviours import Applying, account, published
from tests.contract.lake_worlds import PostgresLakeWorld
from tests.contract.test_lake_cuts import DAY, TAG, Cutting, changed, resolved
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, insert, publication, update

DAY_S = 86_400


@dataclass
class Lake:
    """A stream, a cut that holds rows which the head has no more, and an attempt that died before its commit."""

    cutting: Cutting
    warehouse: Path

    @property
    def world(self) -> PostgresLakeWorld:
        return self.cutting.world

    def location(self, table: str) -> Path:
        return path_of(self.world.seen().heads[table]).parent.parent

    def files(self) -> set[Path]:
        return {path for path in self.warehouse.rglob("*") if path.is_file()}

    def age(self, days: float = 2) -> None:
        """Everything that lies there, as if it had for so long."""
        then = time.time() - days * DAY_S
        for path in self.files():
            os.utime(path, (then, then))

    def maintained(self) -> int:
        with closing(self.cutting.maintained.open_maintenance(self.world.destination)) as maintenance:
            return maintenance.let_go().orphan_files

    def assert_all_is_there(self) -> None:
        assert self.cutting.rows(TAG).column("name").to_pylist() == ["at the cut"]
        assert self.cutting.rows(TAG, "audit").num_rows == 1
        assert self.world.rows(ACCOUNT) == ['{"id": 1, "name": "last"}']
        assert len(self.world.rows(AUDIT)) == 2
        Applying(self.world).span(insert(TRANSFER, tx=1, leg=len(self.world.rows(TRANSFER)), amount="1.0000"))
        assert self.world.findings() == []


@pytest.fixture
def lake(sink_database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    resolved(monkeypatch, sink_database)
    monkeypatch.setattr(snapshot, "SNAPSHOTS_KEPT", 2)
    monkeypatch.setattr(snapshot, "_LET_GO_AT_ONCE", 1)
    with closing(PostgresLakeWorld(TABLES, sink_database, tmp_path)) as world:
        published(world).span(insert(ACCOUNT, **account(1, "at the cut")), insert(AUDIT, actor="x", action="y"))
        cutting = Cutting(world)
        with closing(cutting.cuts):
            assert cutting.cut(DAY, "night") == 1
            changed(world, "at the cut", "behind it")
            for number in range(6):
                before = "behind it" if number == 0 else f"later {number - 1}"
                after = "last" if number == 5 else f"later {number}"
                Applying(world).span(_renamed(before, after))
            yield Lake(cutting, tmp_path)


def _renamed(before: str, after: str) -> Any:
    return update(ACCOUNT, account(1, before), account(1, after))


def dead_attempt(lake: Lake) -> set[Path]:
    """The files of a span that was never committed."""
    before = lake.files()
    stream = Applying(lake.world, sink=lake.world.sink(failpoints=ArmedFailpoints("lake.span_written=error")))
    with pytest.raises(TransientError):
        stream.span(insert(ACCOUNT, **account(7)), insert(AUDIT, actor="a", action="b"))
    return lake.files() - before


def only_what_is_old_and_named_by_nothing_goes(lake: Lake) -> None:
    left = dead_attempt(lake)
    assert len(left) >= 2 * 4, "rows, manifest, its list and metadata of two tables"
    assert lake.maintained() == 0, "it is young"
    assert left <= lake.files()
    lake.age()
    young = lake.location("account") / "data" / "somebody-is-at-it.parquet"
    young.write_bytes(b"x")
    before = lake.files()
    assert lake.maintained() >= len(left)
    gone = before - lake.files()
    assert left <= gone
    assert young not in gone
    assert {path.parent.name for path in gone} <= {"data", "metadata"}
    lake.assert_all_is_there()
    assert lake.maintained() == 0, "a repeat finds nothing"


def test_files_of_dead_attempts_and_of_snapshots_that_were_let_go_of_are_removed_and_what_a_cut_holds_stays(
    lake: Lake,
) -> None:
    only_what_is_old_and_named_by_nothing_goes(lake)


def _by_the_head_alone(patch: pytest.MonkeyPatch) -> None:
    right = orphans._named_by  # noqa: SLF001

    def named_by(metadata: Any, manifests: Any, io: Any) -> Any:
        alone = [one for one in metadata.snapshots if one.snapshot_id == metadata.current_snapshot_id]
        return right(metadata.model_copy(update={"snapshots": alone}), manifests, io)

    patch.setattr(orphans, "_named_by", named_by)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a young file goes": lambda patch: patch.setattr(orphans, "GUARD_S", -1),
    "tags hold nothing": _by_the_head_alone,
    "files of rows stay": lambda patch: patch.setattr(orphans, "_ENDINGS", (".avro", ".metadata.json")),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_removal_of_the_wrong_files_is_caught(bug: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug](monkeypatch)
    with pytest.raises((AssertionError, FileNotFoundError, TransientError)):
        only_what_is_old_and_named_by_nothing_goes(lake)


def test_files_of_a_load_that_took_the_place_of_another_go_once_the_table_has_let_go_of_them(lake: Lake) -> None:
    world = lake.world
    place = world.load(ACCOUNT, [account(1, "loaded again")])
    others = [world.load(table, []) for table in TABLES if table is not ACCOUNT]
    world.sink().publish(STREAM, [place, *others], publication=publication(TABLES, run_id="again"))
    (held,) = (lake.warehouse / place.staged_as / "data").iterdir()
    lake.age()
    lake.maintained()
    assert held.exists(), "the table's rows lie in the folder of the load"
    stream = Applying(world)
    name = "loaded again"
    for number in range(5):
        stream.span(_renamed(name, f"new {number}"))
        name = f"new {number}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edit, "FILES_JOINED", 1)
        for number in range(5, 10):
            stream.span(_renamed(name, f"new {number}"))
            name = f"new {number}"
    lake.age()
    assert lake.maintained() > 0
    assert not held.exists()
    assert world.rows(ACCOUNT) == ['{"id": 1, "name": "new 9"}']
    assert lake.cutting.rows(TAG).column("name").to_pylist() == ["at the cut"]


def test_a_folder_of_another_catalogue_and_a_load_that_is_being_published_stay(lake: Lake) -> None:
    theirs = lake.warehouse / "settlement" / "theirs-0123abcd"
    (theirs / "data").mkdir(parents=True)
    (theirs / "data" / "rows.parquet").write_bytes(b"x")
    claim(theirs)
    staged = lake.world.load(ACCOUNT, [account(5)])
    lake.age(days=30)
    claim(lake.warehouse / staged.staged_as, table=lake.location("account"))
    kept = {*(theirs / "data").iterdir(), *(lake.warehouse / staged.staged_as / "data").iterdir()}
    lake.maintained()
    assert len(kept) == 2
    assert kept <= lake.files()


def test_nothing_goes_where_a_file_that_a_table_names_is_gone(lake: Lake) -> None:
    left = dead_attempt(lake)
    lake.age()
    head = lake.world.seen().heads["audit"]
    listed = snapshot_list(head)
    hidden = listed.with_suffix(".hidden")
    listed.rename(hidden)
    with pytest.raises(TransientError, match="is not there"):
        lake.maintained()
    assert left <= lake.files()
    hidden.rename(listed)
    assert lake.maintained() > 0


def snapshot_list(location: str) -> Path:
    current = read_metadata(location).current_snapshot()
    assert current is not None
    return path_of(current.manifest_list)
