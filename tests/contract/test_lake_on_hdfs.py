"""Iceberg tables whose files lie on HDFS: what depends on how it keeps them, over a name node and a data node."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from seamline.adapters.connections import Connection
from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.errors import TransientError
from seamline.kinds.found import sink_kind
from seamline.sinks.iceberg import orphans
from tests.contract.behaviours import BEHAVIOURS, Applying, Behaviour, account, published
from tests.contract.lake_worlds import OBJECTS, PostgresLakeWorld
from tests.contract.test_lake_cuts import DAY, RUN, Cutting, changed, resolved
from tests.hdfs_server import Hdfs
from tests.integration.databases import either_of
from tests.log_topic import ACCOUNT, AUDIT, TABLES, insert

OVER_FILES = (
    "a_publish_of_a_staged_table_that_is_gone_changes_nothing",
    "a_second_publish_replaces_rows_fences_the_stream_and_begins_a_generation",
)
CHOSEN = [one for one in BEHAVIOURS if one.__name__ in OVER_FILES]


@pytest.fixture
def world(
    hdfs: Hdfs, sink_database: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[PostgresLakeWorld]:
    monkeypatch.setenv(f"SEAMLINE_CONNECTION_{OBJECTS.upper()}", hdfs.connection)
    resolved(monkeypatch, sink_database)
    monkeypatch.setattr("seamline.sinks.lake.preflight.resolve", either_of(sink_database))
    hdfs.client.mkdirs(f"/{tmp_path.name}")
    with closing(PostgresLakeWorld(TABLES, sink_database, f"{hdfs.url}/{tmp_path.name}")) as world:
        yield world


@pytest.mark.parametrize("behaviour", CHOSEN, ids=lambda behaviour: behaviour.__name__)
def test_a_warehouse_on_hdfs_keeps_the_contract(behaviour: Behaviour, world: PostgresLakeWorld) -> None:
    assert len(CHOSEN) == len(OVER_FILES)
    assert sink_kind("iceberg").problems(world.plan, world.destination) == ()
    behaviour(world)


def test_a_cut_stays_and_orphans_go_once_they_are_old(
    world: PostgresLakeWorld, hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(world).span(insert(ACCOUNT, **account(1, "at the cut")), insert(AUDIT, actor="x", action="y"))
    cutting = Cutting(world)
    with closing(cutting.cuts):
        assert cutting.cut(DAY, RUN) == 1
        changed(world)
        before = set(hdfs.client.find(f"/{tmp_path.name}"))
        stream = Applying(world, sink=world.sink(failpoints=ArmedFailpoints("lake.span_written=error")))
        with pytest.raises(TransientError):
            stream.span(insert(ACCOUNT, **account(7)))
        left = set(hdfs.client.find(f"/{tmp_path.name}")) - before
        assert len(left) >= 4, "rows, manifest, its list and metadata"
        with closing(cutting.maintained.open_maintenance(world.destination)) as maintenance:
            assert maintenance.let_go().orphan_files == 0, "they are young"
            monkeypatch.setattr(orphans, "GUARD_S", -3600)
            assert maintenance.let_go().orphan_files >= len(left)
        assert not left & set(hdfs.client.find(f"/{tmp_path.name}"))
        assert len(world.rows(ACCOUNT)) == 1
        (view,) = cutting.reads.open_live(cutting.plan, world.destination, 1)
        assert view.whole_digest("account", run_key="k").rows == 1
