"""A catalogue that commits single tables follows the ledger, whatever comes in between."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import Diverged
from seamline.plan.model import DestinationPlan
from seamline.ports import Problem
from seamline.sinks.iceberg import snapshot
from seamline.sinks.iceberg.manifests import read_metadata
from seamline.sinks.iceberg.single import preflight
from seamline.sinks.iceberg.single.following import Following
from seamline.sinks.iceberg.snapshot import FileChanges, new_head, staged_head
from seamline.sinks.lake.files import NewFiles, new_location
from tests.lake_metadata import altered, appended, compacted
from tests.log_topic import sync_plan
from tests.unit.memory_catalogue import MemoryCatalogue, MemoryPointers, NeverCompares

ACCOUNT = Table("account", (Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),), ("id",))
NO_SESSION = cast(Any, None)
Kinds = Literal[SnapshotRefType.TAG, SnapshotRefType.BRANCH]


class Followed:
    """Tables whose ledger and whose catalogue a test moves by hand."""

    def __init__(self, folder: Path, catalogue: MemoryCatalogue | None = None) -> None:
        self.folder = folder
        self.catalogue = catalogue or MemoryCatalogue()
        self.ledger = MemoryPointers()
        options = {"catalog": "lake", "catalog_type": "hive", "catalog_connection": "m", "warehouse": str(folder)}
        self.plan = DestinationPlan("lake", "iceberg_single", "ledger", "settlement", options=tuple(options.items()))
        self.following = Following(self.plan, lambda: self.catalogue, pointers=cast(Any, self.ledger))

    def made(self, name: str = "account") -> str:
        """A new table that the ledger names; where it leads."""
        location = new_location(str(self.folder), "settlement", name)
        location.mkdir(parents=True)
        head = new_head(ACCOUNT, location)
        self.ledger.led[name] = staged_head(head, FileChanges(), NewFiles(location, "s-e1")).location
        return self.ledger.led[name]

    def commit(self, name: str = "account") -> str:
        """The ledger's next commit of a table."""
        self.ledger.led[name] = appended(self.ledger.led[name])
        return self.ledger.led[name]

    def settle(self) -> dict[str, str]:
        return self.following.settled(NO_SESSION).foreign

    @property
    def agrees(self) -> bool:
        return self.catalogue.pointers == self.ledger.led


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    found = Followed(tmp_path)
    found.made("account")
    found.made("audit")
    found.settle()
    return found


def test_the_catalogue_is_led_where_the_ledger_leads_and_a_repeat_changes_nothing(followed: Followed) -> None:
    assert followed.agrees
    followed.commit("account")
    followed.commit("account")
    assert not followed.agrees
    assert followed.settle() == {}
    assert followed.agrees
    followed.settle()
    assert followed.agrees


def test_a_table_that_was_left_behind_between_two_is_led_on_by_whoever_looks_next(followed: Followed) -> None:
    for name in ("account", "audit"):
        followed.commit(name)

    def dies() -> None:
        raise KeyboardInterrupt

    moved = followed.catalogue.move

    def move(name: str, *rest: Any) -> bool:
        if name == "audit":
            dies()
        return moved(name, *rest)

    followed.catalogue.move = move  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        followed.settle()
    assert followed.catalogue.pointers["account"] == followed.ledger.led["account"], "one table has moved"
    assert followed.catalogue.pointers["audit"] != followed.ledger.led["audit"], "the other one has not"
    followed.catalogue.move = moved  # type: ignore[method-assign]
    followed.settle()
    assert followed.agrees


def what_a_late_owner_shows(followed: Followed) -> None:
    """It sleeps before it moves the entry; another one commits and shows meanwhile."""
    followed.commit()

    def meanwhile() -> None:
        followed.settle()
        followed.commit()
        followed.settle()

    followed.catalogue.before_move = meanwhile
    found: list[str] = []
    moved = followed.catalogue.move

    def watched(name: str, *rest: Any) -> bool:
        done = moved(name, *rest)
        found.append(followed.catalogue.pointers[name])
        return done

    followed.catalogue.move = watched  # type: ignore[method-assign]
    followed.settle()
    versions = [snapshot.version_of(pointer) for pointer in found]
    assert versions == sorted(versions), "no table ever goes back"
    assert followed.agrees


def test_an_owner_that_slept_before_it_moved_an_entry_takes_none_back(followed: Followed) -> None:
    what_a_late_owner_shows(followed)


def test_a_catalogue_that_does_not_compare_is_caught_and_mended_by_the_next_look(tmp_path: Path) -> None:
    planted = Followed(tmp_path, NeverCompares())
    planted.made()
    planted.settle()
    with pytest.raises(AssertionError, match="no table ever goes back"):
        what_a_late_owner_shows(planted)
    planted.settle()
    assert planted.agrees


def test_a_compaction_and_a_property_of_somebody_else_are_gone_on_from(followed: Followed) -> None:
    theirs = altered(compacted(followed.ledger.led["account"]), SetPropertiesUpdate(updates={"a": "b"}))
    followed.catalogue.pointers["account"] = theirs
    assert followed.settle() == {}
    assert followed.ledger.led["account"] == theirs


def test_a_compaction_that_came_beside_a_commit_is_taken_back(followed: Followed) -> None:
    followed.catalogue.pointers["account"] = compacted(followed.ledger.led["account"])
    ours = followed.commit()
    assert followed.settle() == {}
    assert followed.catalogue.pointers["account"] == ours


def _with_rows(pointer: str) -> str:
    return appended(pointer)


def _that_lets_go_of_snapshots(pointer: str) -> str:
    """The files of what the ledger goes on from may be gone."""
    after = compacted(pointer)
    first = read_metadata(pointer).current_snapshot_id
    assert first is not None
    return altered(after, RemoveSnapshotsUpdate(snapshot_ids=[first]))


def _head(pointer: str) -> int:
    head = read_metadata(pointer).current_snapshot_id
    assert head is not None
    return head


def _named(name: str, snapshot: int, kind: Kinds = SnapshotRefType.TAG) -> TableUpdate:
    return SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot)


def _with_a_tag(pointer: str) -> str:
    return altered(pointer, _named("audit_2026", _head(pointer)))


def _with_a_property(pointer: str) -> str:
    return altered(compacted(pointer), SetPropertiesUpdate(updates={"theirs": "1"}))


def _with_a_branch_of_rows(pointer: str) -> str:
    rows = appended(pointer)
    return altered(
        rows,
        _named("audit", _head(rows), SnapshotRefType.BRANCH),
        _named(MAIN_BRANCH, _head(pointer), SnapshotRefType.BRANCH),
    )


BESIDE = [_with_rows, _that_lets_go_of_snapshots, _with_a_tag, _with_a_property, _with_a_branch_of_rows]


@pytest.mark.parametrize("theirs", BESIDE)
def test_what_somebody_else_did_beside_a_commit_is_left_there_and_named(
    followed: Followed, theirs: Callable[[str], str]
) -> None:
    found = theirs(followed.ledger.led["account"])
    followed.catalogue.pointers["account"] = found
    ours = followed.commit()
    assert followed.settle() == {"account": found}
    assert followed.ledger.led["account"] == ours, "the ledger's rows are still there"
    with pytest.raises(Diverged, match=r"somebody else has written tables of settlement beside the ledger: account"):
        followed.following.require_settled(NO_SESSION)
    followed.following.made_ready(NO_SESSION)
    assert followed.ledger.led["account"] == found, "a publish, which brings other rows, goes on from it"


def test_a_tag_of_ours_beside_a_compaction_of_somebody_else_stays_and_one_that_we_dropped_stays_away(
    followed: Followed,
) -> None:
    before, tag = followed.ledger.led["account"], "cut_2026_11_27_v1"
    tagged = altered(before, _named(tag, _head(before)))
    followed.catalogue.pointers["account"] = compacted(before)
    followed.ledger.led["account"] = tagged
    assert followed.settle() == {}
    assert followed.catalogue.pointers["account"] == tagged
    followed.catalogue.pointers["account"] = compacted(tagged)
    dropped = followed.ledger.led["account"] = altered(tagged, RemoveSnapshotRefUpdate(ref_name=tag))
    assert followed.settle() == {}
    assert followed.agrees
    assert followed.ledger.led["account"] == dropped
    assert [*read_metadata(dropped).refs] == [MAIN_BRANCH]


def test_a_table_that_left_is_found_under_its_other_name_and_one_that_came_under_its_own(followed: Followed) -> None:
    before = followed.ledger.led["account"]
    followed.ledger.rename("account", "account__removed_1")
    followed.following.renamed(NO_SESSION)
    assert followed.agrees
    assert followed.catalogue.pointers["account__removed_1"] == before
    followed.catalogue.pointers["account"] = before
    followed.made("account")
    followed.settle()
    assert followed.agrees, "an entry that was not renamed in time leads to the new table"


def test_a_table_of_somebody_else_under_the_name_is_left_alone(followed: Followed, tmp_path: Path) -> None:
    other = Followed(tmp_path / "other")
    followed.catalogue.pointers["account"] = other.made()
    with pytest.raises(Diverged, match="account is another table in the catalogue than the ledger's"):
        followed.settle()
    followed.catalogue.pointers["account"] = ""
    with pytest.raises(Diverged, match="no Iceberg table"):
        followed.settle()
    followed.catalogue.drop("account")
    followed.catalogue.pointers["theirs"] = other.made("theirs")
    found = followed.following.settled(NO_SESSION)
    assert found.others == {"theirs": other.ledger.led["theirs"]}
    assert followed.catalogue.pointers["account"] == followed.ledger.led["account"]


def test_tables_are_nobody_s_while_the_ledger_s_database_has_a_problem(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacks = Problem("destination lake: the ledger's database takes no new connection", "wait", is_fatal=True)
    monkeypatch.setattr(preflight, "problems_of_the_ledger", lambda *_: (lacks,))
    monkeypatch.setattr(preflight, "opener", lambda _: lambda: followed.catalogue)
    plan = sync_plan([ACCOUNT])
    assert preflight.problems(plan, followed.plan) == (lacks,)
    monkeypatch.setattr(preflight, "problems_of_the_ledger", lambda *_: ())
    monkeypatch.setattr(preflight, "_folders", lambda *_: set())
    (theirs,) = preflight.problems(plan, followed.plan)
    assert "settlement.account exists in the catalogue and was not made by this sync" in theirs.what
