"""Files that are delivered on HDFS, and taken from there: what depends on how it writes and renames."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from seamline.adapters.connections import parsed
from seamline.domain.digest import Segment
from seamline.domain.errors import Refused, TransientError
from seamline.files.stores.command_line import HDFS
from seamline.files.stores.opening import open_store
from seamline.kinds.found import source_kind
from seamline.values.build import batch_of
from seamline.values.digest import segment_digest
from tests.contract.file_places import Place
from tests.contract.files_world import ACCOUNT, TABLES, Killed, Night, steps_of
from tests.contract.test_files_source import ROWS, as_it_says, opened
from tests.hdfs_server import Hdfs
from tests.once_more import ONCE_MORE


@pytest.fixture
def night(hdfs_place: Place, tmp_path: Path) -> Night:
    return Night(hdfs_place, tmp_path)


def test_what_is_delivered_on_hdfs_is_read_from_there(night: Night) -> None:
    assert night.publish(night.cut_of(ROWS)) == 1
    assert night.fetched()
    source = as_it_says(night)
    assert source_kind("files").open_source(source).catalogue([table.name for table in TABLES]) == TABLES
    with opened(source, TABLES) as (found, tasks):
        (digest,) = found.views[0].digests(Segment("account"), run_key="k").values()
        assert digest == segment_digest(ACCOUNT, batch_of(ACCOUNT, ROWS[ACCOUNT]), run_key="k")
        assert [len(tasks.result()[table.name]) for table in TABLES] == [3, 3, 0]


@ONCE_MORE
def test_a_publish_on_hdfs_that_is_killed_before_any_step_is_completed_by_its_repeat(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dies_before in range(100):
        cut = night.cut(f"killed before {dies_before}", run=f"run {dies_before}")
        with closing(night.opened()) as cuts, monkeypatch.context() as patch:
            taken = steps_of(cuts.store, patch, dies_before=dies_before)
            with suppress(Killed):
                night.publish(cut, by=cuts)
        version = night.publish(cut)
        assert night.fetched(version)
        if len(taken) < dies_before:
            break
    assert 5 < dies_before < 99


def test_of_eight_who_put_one_name_on_hdfs_one_wins(night: Night) -> None:
    def put(number: int) -> bool:
        with closing(open_store(night.place.location, night.place.connection)) as store:
            return store.put_if_absent("log/1.json", b"%d" % number)

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(put, range(8)))
    assert won.count(True) == 1
    assert night.place.seen("log") == {"log/1.json": b"%d" % won.index(True)}


def test_a_file_of_somebody_else_s_on_hdfs_is_never_overwritten(night: Night) -> None:
    cut = night.cut("ours")
    night.place.put(f"{night.sync}/{cut.business_date}/v1/account.csv", b"theirs")
    with pytest.raises(Refused, match="is there already"):
        night.publish(cut)
    assert night.fetched() is None
    assert night.place.seen(night.sync)[f"{night.sync}/{cut.business_date}/v1/account.csv"] == b"theirs"


def test_a_folder_on_hdfs_that_is_missing_is_not_made(night: Night, hdfs: Hdfs) -> None:
    hdfs.client.rm(f"/{night.place.location.rpartition('/')[2]}", recursive=True)
    with closing(open_store(night.place.location, night.place.connection)) as store:
        with pytest.raises(TransientError, match="is not there"):
            store.put_if_absent("a/b", b"")
        with pytest.raises(TransientError, match="is not there"):
            store.names("")


def test_the_command_line_sees_whether_hdfs_is_there_and_lists_a_place(night: Night, hdfs: Hdfs) -> None:
    known = parsed(hdfs.connection)
    found = HDFS.examined(known)
    assert (found.product, found.encryption) == (f"HDFS at {known.host}:{known.port}", "in the clear")
    assert HDFS.place(known, night.place.location).is_possible
    assert "is not there" in HDFS.place(known, f"{night.place.location}x").why_not
