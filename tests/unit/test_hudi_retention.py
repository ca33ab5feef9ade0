"""What maintenance leaves of a Hudi table: every instant that somebody may ask for, and nothing else."""

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import Refused
from seamline.plan.model import DestinationPlan
from seamline.sinks.hudi import retention
from seamline.sinks.hudi.catalogue import HudiCatalogue
from seamline.sinks.hudi.pointer import Pointer
from seamline.sinks.hudi.retention import Kept, sweep_table
from seamline.sinks.hudi.state import TableState
from seamline.sinks.hudi.timeline import NumberTaken, Timeline
from seamline.sinks.lake import edit as lake_edit
from tests.unit.delta_lake import ID, Row
from tests.unit.hudi_lake import HudiLake

TABLE = Table("t", (ID, Column("name", Kind.STRING, "text")), ("id",))


class Lived:
    """A table after twenty inserts, each with a delete behind it, and small files joined now and then."""

    def __init__(self, folder: Path) -> None:
        self.lake = HudiLake(TABLE, folder)
        self.rows: dict[int, Counter[Row]] = {self.lake.state.instant: Counter()}
        for number in range(20):
            self._keep(self.lake.put((number, f"n{number}"), (1_000 + number, "goes")))
            self._keep(self.lake.batch([(1_000 + number, None)], deleted=[True], met=[True]))
        self.instants = sorted(self.rows)

    def _keep(self, batch: object) -> None:
        self.lake.commit(batch)  # type: ignore[arg-type]
        self.rows[self.lake.state.instant] = self.lake.read()

    def kept(self, *, recent: Sequence[int] = (), held: Sequence[int] = (), at: int = 40) -> Kept:
        """By how many commits there were before."""
        found = [{self.instants[number] for number in numbers} for numbers in (recent, held)]
        return Kept(Pointer(self.lake.folder, self.instants[at]), *found)

    def require(self, *numbers: int) -> None:
        """Seamline and Hudi read these as they were."""
        for number in numbers:
            instant = self.instants[number]
            assert self.lake.read(instant) == self.rows[instant]
            assert seen_by_hudi(self.lake.timeline, instant) == set(self.lake.timeline.at(instant).files)

    @property
    def files(self) -> set[str]:
        return {path.name for path in self.lake.folder.glob("*.parquet")}


def seen_by_hudi(timeline: Timeline, instant: int) -> set[str]:
    """The data files of an instant as its readers find them: by names, and by what the timeline has up to it."""
    commits = {at: timeline.path / name for name, at in timeline.commits().items() if at <= instant}
    found = [json.loads(path.read_text()) for path in commits.values()]
    replaced = {one for said in found for ids in said["partitionToReplaceFileIds"].values() for one in ids}
    first = min(timeline.commits().values())
    names = [path.name for path in timeline.folder.glob("*.parquet")]
    is_committed = {name: int(name[-25:-8]) in commits or int(name[-25:-8]) < first for name in names}
    return {name for name in names if is_committed[name] and name.split("_", 1)[0] not in replaced}


@pytest.fixture(autouse=True)
def nothing_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "YOUNG_S", -60)


@pytest.fixture
def lived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lived:
    monkeypatch.setattr(lake_edit, "FILES_JOINED", 4)
    return Lived(tmp_path)


def test_every_instant_that_is_kept_reads_as_before_and_what_no_other_needs_is_gone(lived: Lived) -> None:
    before, commits = lived.files, len(lived.lake.timeline.commits())
    lived.require(*range(41))
    assert sweep_table(lived.kept(recent=(35, 38), held=(5, 12, 36))) > 0
    lived.require(5, 12, *range(35, 41))
    with pytest.raises(Refused, match="is gone"):
        lived.lake.read(lived.instants[20])
    assert lived.files < before
    assert len(lived.lake.timeline.commits()) < commits
    assert lived.lake.timeline.numbers() == [40], "the newest number stays"
    assert lived.lake.timeline.has(lived.instants[0]), "what is older than a timeline's beginning would be committed"
    assert sweep_table(lived.kept(recent=(35, 38), held=(5, 12, 36))) == 0, "a repeat finds nothing"
    lived.lake.reopened()
    lived.lake.commit(lived.lake.put((99, "later")))
    assert lived.lake.read() == lived.rows[lived.instants[40]] + Counter({(99, "later"): 1})


def test_what_a_cut_held_goes_once_the_cut_is_over(lived: Lived) -> None:
    sweep_table(lived.kept(held=(5,)))
    many = lived.files
    sweep_table(lived.kept())
    assert lived.files < many
    lived.require(40)
    assert not lived.lake.timeline.has(lived.instants[5])


def test_commits_behind_the_one_that_counts_stay_too(lived: Lived) -> None:
    sweep_table(lived.kept(at=30))
    lived.require(*range(30, 41))


def test_what_is_young_stays_also_under_the_name_of_older_content(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "YOUNG_S", 3600)
    old = next(lived.lake.folder.glob("*.parquet"))
    long_ago = time.time() - 86_400
    os.utime(old, (long_ago, long_ago))
    before = lived.files
    assert sweep_table(lived.kept()) == 0
    assert lived.files == before


def test_a_table_that_somebody_else_has_written_is_left_as_it_is(lived: Lived) -> None:
    before = lived.files
    (lived.lake.timeline.path / "20991231000000000.commit").write_text('{"extraMetadata": {}}')
    assert sweep_table(lived.kept()) == 0
    assert lived.files == before


def test_an_owner_that_wakes_after_its_number_was_swept_takes_none(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked at the newest number, has written its draft, and then sleeps for days."""
    timeline, right = lived.lake.timeline, Timeline.newest_number
    state = replace(lived.lake.state, instant=timeline.reserve(lived.lake.state.instant))

    def asleep(self: Timeline) -> int:
        found = right(self)
        monkeypatch.setattr(Timeline, "newest_number", right)
        for number in range(41, 44):
            later = replace(state, instant=timeline.reserve(state.instant), rows_of=number, epoch=9)
            timeline.put(number, later, TableState())
        sweep_table(Kept(Pointer(self.folder, later.instant)))
        return found

    monkeypatch.setattr(Timeline, "newest_number", asleep)
    with pytest.raises(NumberTaken):
        timeline.put(41, state, lived.lake.state)
    assert timeline.numbers() == [43]
    assert not timeline.has(state.instant)


class NoSession:
    """What it would be asked for is given by the test."""

    def transaction(self) -> AbstractContextManager[None]:
        return nullcontext()


def of_a_sweep(
    lived: Lived, monkeypatch: pytest.MonkeyPatch, *, folder: str, held: int
) -> tuple[Any, HudiCatalogue, DestinationPlan]:
    """The table in a folder of a later one, none before it; what a cut holds of it."""
    at = lived.lake.folder.rename(lived.lake.folder.with_name(folder))
    lived.lake.folder, lived.lake.timeline = at, Timeline(at)
    pointer = Pointer(at, lived.instants[40])
    stream = "settlement@hudi"
    monkeypatch.setattr(HudiCatalogue, "claim", lambda *_: None)
    monkeypatch.setattr(HudiCatalogue, "folders", lambda *_: {"ns": [pointer]}, raising=False)
    monkeypatch.setattr(retention.lake_state, "all_of", lambda *_: [(stream, "t", pointer.instant)])
    monkeypatch.setattr(retention.cut_rows, "held", lambda *_: [(stream, "t", held)])
    return NoSession(), HudiCatalogue(str(at.parent.parent)), DestinationPlan("hudi", "hudi", "there", "ns")


def test_what_a_cut_holds_stays_though_the_folder_of_an_earlier_table_is_gone(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = of_a_sweep(lived, monkeypatch, folder="t.2", held=lived.instants[5])
    assert retention.sweep(*given) > 0
    lived.require(5, 40)


def test_nothing_is_dropped_while_an_instant_that_a_cut_holds_is_not_found(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = of_a_sweep(lived, monkeypatch, folder="t.2", held=lived.instants[5])
    lived.lake.timeline.commit_file(lived.instants[5]).unlink()
    before = lived.files
    with pytest.raises(Refused, match="is kept, and no folder of the table has it"):
        retention.sweep(*given)
    assert lived.files == before


def test_a_cut_of_a_table_that_has_left_with_its_folder_stops_no_sweep(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert retention.sweep(*of_a_sweep(lived, monkeypatch, folder="t.2", held=lived.instants[0] - 1)) > 0
    lived.require(40)


def test_the_test_finds_a_sweep_that_forgets_what_cuts_hold(lived: Lived) -> None:
    sweep_table(lived.kept())
    with pytest.raises((AssertionError, Refused)):
        lived.require(5)


def test_the_test_finds_a_sweep_that_drops_a_commit_whose_replaced_files_are_held(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = retention.changed_files
    monkeypatch.setattr(retention, "changed_files", lambda text: (right(text)[0], set()))
    sweep_table(lived.kept(held=(5,)))
    with pytest.raises(AssertionError):
        lived.require(40)
