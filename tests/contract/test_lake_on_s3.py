"""Iceberg tables whose files lie on S3: the sink's promises that depend on where files lie, over moto."""

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import duckdb
import pytest
from pyarrow import fs

from seamline.adapters.connections import Connection, parsed
from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.errors import ConfigError, Refused, TransientError
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import CertifiesArrivals
from seamline.sinks.iceberg import orphans, snapshot
from seamline.sinks.iceberg.reading import open_catalogue
from seamline.sinks.lake import loads, stores
from seamline.sinks.lake.files import content, namespace_folder, remove_folder
from seamline.sinks.lake.stores import StoredPath
from seamline_spark.frames import SparkFrames
from tests import s3_server
from tests.contract import lake_worker
from tests.contract.behaviours import BEHAVIOURS, Applying, Behaviour, account, published, texts
from tests.contract.joining_behaviours import JOINING_BEHAVIOURS
from tests.contract.lake_worlds import CATALOG, OBJECTS, MemoryCatalogueWorld, PostgresLakeWorld
from tests.contract.test_lake_cuts import DAY, RUN, Cutting, changed, resolved
from tests.contract.test_lake_derived import ENTRY, deriving_in, every_digit_arrives, resolved_to_derive
from tests.integration.databases import either_of
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, insert
from tests.s3_server import ObjectStore

# What a catalogue and a ledger do is proven over folders.
OVER_FILES = (
    "a_failure_in_the_middle_leaves_nothing_and_can_be_tried_again",
    "a_publish_of_a_staged_table_that_is_gone_changes_nothing",
    "a_publish_of_a_staged_table_that_lost_a_row_changes_nothing",
    "a_second_publish_replaces_rows_fences_the_stream_and_begins_a_generation",
    "a_stream_with_crashes_ends_with_the_source_s_tables",
    "a_table_enters_a_stream_that_stands_where_its_incremental_snapshot_does_and_the_others_are_untouched",
    "a_table_that_is_loaded_again_becomes_what_its_snapshot_says_and_begins_a_generation",
)
# Each statement of Spark's costs a good part of a second.
BY_SPARK = [
    one
    for one in BEHAVIOURS
    if one.__name__
    in ("inserts_updates_and_deletes_reach_their_rows", "thousands_of_identical_rows_are_counted_exactly")
]
CHOSEN = [one for one in (*BEHAVIOURS, *JOINING_BEHAVIOURS) if one.__name__ in OVER_FILES]


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with s3_server.running() as found:
        yield found


@pytest.fixture
def world(
    store: ObjectStore, sink_database: Connection, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[PostgresLakeWorld]:
    monkeypatch.setenv(f"SEAMLINE_CONNECTION_{OBJECTS.upper()}", store.connection)
    resolved(monkeypatch, sink_database)
    monkeypatch.setattr("seamline.sinks.lake.preflight.resolve", either_of(sink_database))
    warehouse = f"s3://{store.bucket}/{abs(hash(request.node.name))}"
    with closing(PostgresLakeWorld(TABLES, sink_database, warehouse)) as world:
        yield world


@pytest.fixture
def cutting(world: PostgresLakeWorld) -> Iterator[Cutting]:
    published(world).span(insert(ACCOUNT, **account(1, "at the cut")), insert(AUDIT, actor="x", action="y"))
    cutting = Cutting(world)
    with closing(cutting.cuts):
        yield cutting


def below(world: PostgresLakeWorld) -> str:
    return dict(world.destination.options)["warehouse"].partition("/")[2].partition("/")[2].partition("/")[2]


@pytest.mark.parametrize("behaviour", CHOSEN, ids=lambda behaviour: behaviour.__name__)
def test_a_warehouse_on_s3_keeps_the_contract(behaviour: Behaviour, world: PostgresLakeWorld) -> None:
    behaviour(world)


def test_the_chosen_behaviours_are_there() -> None:
    assert len(CHOSEN) == len(OVER_FILES)
    assert len(BY_SPARK) == 2


@pytest.mark.parametrize("behaviour", BY_SPARK, ids=lambda behaviour: behaviour.__name__)
def test_spark_s_statements_write_and_read_tables_on_s3(
    behaviour: Behaviour, store: ObjectStore, frames: SparkFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SEAMLINE_CONNECTION_{OBJECTS.upper()}", store.connection)
    world = MemoryCatalogueWorld(TABLES, f"s3://{store.bucket}/{behaviour.__name__}", frames=frames)
    behaviour(world)
    # So Spark names its files, and ours never.
    assert any("/data/00000-" in path for path in store.keys(behaviour.__name__))
    assert parsed(store.connection).password not in str(frames.run("SET").to_pylist())


def test_a_worker_that_is_killed_amid_its_files_leaves_tables_and_ledger_as_they_were(
    world: PostgresLakeWorld, sink_database: Connection
) -> None:
    published(world).span(*(insert(ACCOUNT, **account(n)) for n in (1, 2)), insert(AUDIT, actor="x", action="y"))
    warehouse = dict(world.destination.options)["warehouse"]
    killed = lake_worker.exit_code_of_commit(
        warehouse, sink_database, "app.dml_half=kill9@1", lake="iceberg", processes=lake_worker.SPAWNED
    )
    assert killed == -signal.SIGKILL
    again = Applying(world)
    assert again.next_offset == 10
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    again.span(*lake_worker.CHANGES)
    assert world.rows(ACCOUNT) == texts(account(1, "changed"))


def test_a_cut_is_read_by_arrow_and_by_duckdb_while_the_stream_goes_on(cutting: Cutting) -> None:
    world = cutting.world
    pinned = cutting.pin()
    changed(world)
    assert cutting.publish(pinned) == 1
    (view,) = cutting.reads.open_live(cutting.plan, world.destination, 1)
    with closing(view) as live:
        assert live.whole_digest("account", run_key="k").rows == 1
    assert at_the_cut(cutting) == ["at the cut"]
    assert world.rows(ACCOUNT) == texts(account(1, "behind it"))


def at_the_cut(cutting: Cutting) -> list[str]:
    """As a reader finds it who has the database and the store alone."""
    publisher = cutting.world.publisher
    uri = f"postgresql://{publisher.login}:{publisher.password}@{publisher.host}:{publisher.port}/{publisher.database}"
    tables = open_catalogue(
        uri,
        sync=STREAM.sync,
        destination=STREAM.destination,
        catalog=CATALOG,
        namespace="settlement",
        at=DAY,
        warehouse_connection=OBJECTS,
    )
    found = tables["account"].arrow()
    assert duckdb.sql("SELECT count(*) FROM found").fetchall() == [(found.num_rows,)]
    return cast(list[str], found.column("name").to_pylist())


def test_derived_tables_are_staged_compared_and_published_on_s3(
    store: ObjectStore, sink_database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SEAMLINE_CONNECTION_{OBJECTS.upper()}", store.connection)
    resolved_to_derive(monkeypatch, sink_database)
    with closing(PostgresLakeWorld([ENTRY], sink_database, f"s3://{store.bucket}/derived")) as world:
        deriving = deriving_in(world)
        with closing(deriving.cuts):
            every_digit_arrives(deriving)
            version, made = deriving.published("run")
            assert deriving.opened(DAY)["balance"].arrow().num_rows == made.rows
            assert version == 1


def dead_attempt(world: PostgresLakeWorld, store: ObjectStore) -> set[str]:
    """The files of a span that was never committed."""
    before = store.keys(below(world))
    stream = Applying(world, sink=world.sink(failpoints=ArmedFailpoints("lake.span_written=error")))
    with pytest.raises(TransientError):
        stream.span(insert(ACCOUNT, **account(7)), insert(AUDIT, actor="a", action="b"))
    return store.keys(below(world)) - before


def orphans_go_and_what_a_cut_holds_stays(cutting: Cutting, store: ObjectStore, patch: pytest.MonkeyPatch) -> None:
    """Nobody makes an object of S3 older: the guard is made shorter."""
    world = cutting.world
    assert cutting.cut(DAY, RUN) == 1
    changed(world)
    left = dead_attempt(world, store)
    assert len(left) >= 2 * 4, "rows, manifest, its list and metadata of two tables"
    assert maintained(cutting) == (0, 0), "they are young"
    assert left <= store.keys(below(world))
    staged = world.load(ACCOUNT, [account(9)])
    patch.setattr(orphans, "GUARD_S", -3600)
    assert maintained(cutting)[0] >= len(left)
    assert not left & store.keys(below(world))
    assert any(staged.staged_as in key for key in store.keys(below(world)))
    patch.setattr(loads, "ABANDONED_AFTER_S", -3600)
    assert maintained(cutting) == (0, 1)
    assert not any(staged.staged_as in key for key in store.keys(below(world)))
    assert at_the_cut(cutting) == ["at the cut"]
    Applying(world).span(insert(ACCOUNT, **account(3)))
    assert len(world.rows(ACCOUNT)) == 2
    assert world.findings() == []


def maintained(cutting: Cutting) -> tuple[int, int]:
    """Orphan files, and staged tables, that went."""
    with closing(cutting.maintained.open_maintenance(cutting.world.destination)) as maintenance:
        gone = maintenance.let_go()
        return gone.orphan_files, gone.staged


def test_maintenance_removes_orphans_and_abandoned_loads_alone(
    cutting: Cutting, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "SNAPSHOTS_KEPT", 2)
    orphans_go_and_what_a_cut_holds_stays(cutting, store, monkeypatch)


def test_a_removal_that_does_not_look_at_what_is_named_is_caught(
    cutting: Cutting, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = orphans._named  # noqa: SLF001

    def named(*asked: Any) -> Any:
        return right(*asked)[0], set()

    monkeypatch.setattr(orphans, "_named", named)
    with pytest.raises((AssertionError, TransientError, FileNotFoundError)):
        orphans_go_and_what_a_cut_holds_stays(cutting, store, monkeypatch)


def test_a_certificate_s_namespace_lies_in_the_store_and_goes_with_all_that_it_made_and_nothing_else(
    world: PostgresLakeWorld, sink_database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamline.sinks.lake.probed.resolve", either_of(sink_database))
    kind = sink_kind("iceberg")
    assert isinstance(kind, CertifiesArrivals)
    probed = kind.open_probed(world.plan, world.destination)
    published(world)
    with pytest.raises(Refused, match="was not made by `seamline certify`"):
        probed.prepare()
    folder = namespace_folder(stores.opened(dict(world.destination.options)["warehouse"], OBJECTS), "settlement")
    probed.remove()
    assert content(folder), "files without the certificate's mark are somebody else's"
    remove_folder(folder)
    probed.prepare()
    published(world)
    probed.remove()
    assert (world.heads(), content(folder)) == ({}, [])
    probed.remove()


def test_preflight_names_a_bucket_that_is_not_there_and_a_connection_of_another_kind(
    world: PostgresLakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = sink_kind("iceberg")
    assert kind.problems(world.plan, world.destination) == ()
    options = {**dict(world.destination.options), "warehouse": "s3://seamline-nowhere/x"}
    other = replace(world.destination, options=tuple(options.items()))
    (found,) = kind.problems(world.plan, other)
    assert "s3://seamline-nowhere, where the warehouse is to lie, is not there" in found.what
    monkeypatch.setenv(f"SEAMLINE_CONNECTION_{OBJECTS.upper()}", "postgres://u:p@127.0.0.1:1/x")
    (found,) = kind.problems(world.plan, world.destination)
    assert "is of kind postgres" in found.what


def test_a_store_that_does_not_answer_may_recover(world: PostgresLakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    published(world)
    nobody = {"endpoint_url": "http://127.0.0.1:9", "region_name": "eu-west-1"}
    connection = json.dumps({"conn_type": "aws", "login": "x", "password": "y", "extra": nobody})
    monkeypatch.setenv(f"SEAMLINE_CONNECTION_{OBJECTS.upper()}", connection)
    with pytest.raises(TransientError):
        world.sink().acquire(STREAM)


def test_no_secret_of_the_store_stands_in_a_plan_or_in_what_is_printed_of_a_path(
    world: PostgresLakeWorld, store: ObjectStore
) -> None:
    secret = json.loads(store.connection)["password"] if store.connection.startswith("{") else store.connection
    assert secret not in repr(world.plan)
    root = stores.opened(dict(world.destination.options)["warehouse"], OBJECTS)
    assert isinstance(root, StoredPath)
    assert secret not in repr(root)
    with pytest.raises(ConfigError, match="of kind kafka"):
        stores._s3(Connection("k", "kafka", "h", 1))  # noqa: SLF001
    with pytest.raises(Refused, match="another store"):
        stores.stored_path(root, "hdfs://namenode:8020/x")
    assert isinstance(root.filesystem, fs.S3FileSystem)
