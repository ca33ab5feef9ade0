"""What maintenance leaves of a Delta table: every version that somebody may ask for, and nothing else."""

import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import Refused, TransientError
from seamline.plan.model import DestinationPlan
from seamline.sinks.delta import retention
from seamline.sinks.delta.catalogue import DeltaCatalogue
from seamline.sinks.delta.log import hadoop_checksum
from seamline.sinks.delta.pointer import Pointer
from seamline.sinks.delta.retention import Kept, sweep_table
from seamline.sinks.lake import edit as lake_edit
from tests.unit.delta_lake import ID, DeltaLake, Row

TABLE = Table("t", (ID, Column("name", Kind.STRING, "text")), ("id",))


@pytest.fixture(autouse=True)
def nothing_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "YOUNG_S", -60)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeltaLake:
    """Twenty commits, each an insert and a delete, with small files joined now and then."""
    monkeypatch.setattr(lake_edit, "FILES_JOINED", 4)
    lake = DeltaLake(TABLE, tmp_path)
    for number in range(20):
        lake.commit(lake.put((number, f"n{number}"), (1_000 + number, "goes")))
        lake.commit(lake.batch([(1_000 + number, None)], deleted=[True], met=[True]))
        if number == 7:
            lake.log.write_checkpoint(lake.state)
    return lake


def rows_at(version: int) -> Counter[Row]:
    """After the commits of so many versions."""
    left = Counter[Row]((number, f"n{number}") for number in range((version + 1) // 2))
    return left + Counter({(1_000 + version // 2, "goes"): version % 2})


def kept(lake: DeltaLake, *, recent: Sequence[int] = (), held: Sequence[int] = (), at: int = 40) -> Kept:
    return Kept(Pointer(lake.folder, at), set(recent), set(held))


def files_of(lake: DeltaLake) -> set[Path]:
    return {
        path for path in lake.folder.rglob("*") if path.suffix in (".parquet", ".bin") and "_delta_log" not in str(path)
    }


def test_every_version_that_is_kept_reads_as_before_and_the_others_are_gone(lake: DeltaLake) -> None:
    before = files_of(lake)
    assert sweep_table(kept(lake, recent=(35, 38), held=(5, 12, 36))) > 0
    for version in (5, 12, *range(35, 41)):
        assert lake.read(version) == rows_at(version)
    for version in (4, 6, 13):
        with pytest.raises(Refused, match="somebody has cleaned up"):
            lake.read(version)
    assert files_of(lake) < before
    assert {5, 12} <= set(lake.log.checkpoints())
    assert set(lake.log.versions()) >= {5, 12, *range(35, 41)}
    assert 4 not in lake.log.versions()
    assert sweep_table(kept(lake, recent=(35, 38), held=(5, 12, 36))) == 0, "a repeat finds nothing"
    lake.state, lake.index = lake.log.newest(), type(lake.index)(TABLE, lake.folder)
    lake.commit(lake.put((99, "later")))
    assert lake.read() == rows_at(40) + Counter({(99, "later"): 1})


def test_what_a_cut_held_goes_once_the_cut_is_over(lake: DeltaLake) -> None:
    sweep_table(kept(lake, held=(5,)))
    many = files_of(lake)
    sweep_table(kept(lake))
    assert files_of(lake) < many
    assert 5 not in lake.log.checkpoints()
    with pytest.raises(Refused):
        lake.read(5)
    assert lake.read() == rows_at(40)


def test_versions_behind_the_one_that_counts_stay_too(lake: DeltaLake) -> None:
    sweep_table(kept(lake, at=30))
    for version in range(30, 41):
        assert lake.read(version) == rows_at(version)


def test_what_is_young_stays_also_under_the_name_of_older_content(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "YOUNG_S", 3600)
    (lake.folder / "data" / "old.parquet").write_bytes(b"x")
    long_ago = time.time() - 86_400
    os.utime(lake.folder / "data" / "old.parquet", (long_ago, long_ago))
    before = files_of(lake)
    assert sweep_table(kept(lake)) == 0
    assert files_of(lake) == before


def test_files_that_somebody_has_left_there_go(lake: DeltaLake) -> None:
    (lake.folder / "data" / "of-nobody.parquet").write_bytes(b"x")
    sweep_table(kept(lake, recent=range(41)))
    assert not (lake.folder / "data" / "of-nobody.parquet").exists()
    for version in range(41):
        assert lake.read(version) == rows_at(version)


def test_what_spark_keeps_beside_its_files_goes_with_them_and_never_belies_ours(lake: DeltaLake) -> None:
    """Its checksums: of each file on a local disk, and of each version of a log."""
    log = lake.log.commit_file(0).parent
    kept_file = next(iter(lake.state.files.values())).path_in(lake.folder)
    for path in (kept_file, log / "_last_checkpoint", lake.log.commit_file(3), lake.log.commit_file(39)):
        hadoop_checksum(path).write_bytes(b"x")
    for number in (3, 39):
        (log / f"{number:020d}.crc").write_bytes(b"x")
    lake.log.write_checkpoint(lake.log.at(38))
    assert not hadoop_checksum(log / "_last_checkpoint").exists()
    sweep_table(kept(lake, recent=(38,)))
    left = {path.name for path in lake.folder.rglob("*.crc")}
    assert left == {
        f".{kept_file.name}.crc",
        f".{39:020d}.json.crc",
        f"{39:020d}.crc",
    }


class NoSession:
    """What it would be asked for is given by the test."""

    def transaction(self) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.mark.parametrize("is_named", [True, False])
def test_a_folder_that_no_row_leads_to_stays_as_long_as_a_cut_names_a_version_of_it(
    lake: DeltaLake, monkeypatch: pytest.MonkeyPatch, *, is_named: bool
) -> None:
    """As where somebody has deleted the row of a table that left: a later table of its name must not begin there again,
    with numbers that the cut has already."""
    monkeypatch.setattr(retention, "ABANDONED_AFTER_S", -60)
    monkeypatch.setattr(DeltaCatalogue, "claim", lambda *_: None)
    monkeypatch.setattr(DeltaCatalogue, "folders", lambda *_: {}, raising=False)
    monkeypatch.setattr(retention.lake_state, "all_of", lambda *_: [])
    held = [("settlement@delta", "t", 5)] if is_named else []
    monkeypatch.setattr(retention.cut_rows, "held", lambda *_: held)
    catalogue = DeltaCatalogue(str(lake.folder.parent.parent))
    session: Any = NoSession()
    dropped = retention.sweep(session, catalogue, DestinationPlan("delta", "delta", "there", "ns"))
    assert (dropped, lake.folder.exists()) == ((0, True) if is_named else (1, False))
    if is_named:
        assert lake.read(5) == rows_at(5)


def test_the_test_finds_a_sweep_that_forgets_what_cuts_hold(lake: DeltaLake, monkeypatch: pytest.MonkeyPatch) -> None:
    right = retention._files_of  # noqa: SLF001
    monkeypatch.setattr(
        retention, "_files_of", lambda state, folder: right(state, folder) if state.version > 20 else ()
    )
    with pytest.raises(TransientError, match="No such file"):
        test_every_version_that_is_kept_reads_as_before_and_the_others_are_gone(lake)
