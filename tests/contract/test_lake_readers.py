"""Whoever reads a lake, or tidies it, while its stream goes on."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from pyiceberg.table.snapshots import Operation, Summary

from seamline.adapters.connections import Connection
from seamline.sinks.iceberg import snapshot
from seamline.sinks.iceberg.data_files import written_file
from seamline.sinks.iceberg.manifests import Head, read_head
from seamline.sinks.iceberg.reading import open_catalogue
from seamline.sinks.lake.files import NewFiles
from seamline.sinks.lake.storage import write_parquet
from tests.contract.behaviours import Applying, account, published
from tests.contract.lake_worlds import CATALOG, PostgresLakeWorld
from tests.contract.test_lake_catalogue import beside, client
from tests.contract.test_lake_cuts import uri_of
from tests.log_topic import ACCOUNT, AUDIT, TABLES, TRANSFER, Change, delete, insert, update
from tests.waiting import wait_until

READS = 60


@pytest.fixture
def world(sink_database: Connection, tmp_path: Path) -> Iterator[PostgresLakeWorld]:
    with closing(PostgresLakeWorld(TABLES, sink_database, tmp_path)) as world:
        yield world


# ---- readers --------------------------------------------------------------------------------------------------------


class Running:
    """A stream each of whose spans adds one row to all three tables: of every state of the source they have as many."""

    def __init__(self, world: PostgresLakeWorld) -> None:
        self._stream = published(world)
        self._stop = threading.Event()
        self.commits = 0

    def _run(self) -> None:
        while not self._stop.is_set():
            number = self.commits
            self._stream.span(
                insert(ACCOUNT, **account(number)),
                insert(TRANSFER, tx=number, leg=1, amount="1.0000"),
                insert(AUDIT, actor="x", action="same"),
            )
            self.commits += 1

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(1) as pool:
            self._running = pool.submit(self._run)
            try:
                self.goes_on()
                yield
            finally:
                self._stop.set()
            self._running.result()

    def goes_on(self) -> None:
        before = self.commits
        wait_until(lambda: self._running.done() or self.commits > before, timeout_s=30, what="a commit of the stream")


def test_a_reader_that_opens_tables_one_after_another_straddles_and_one_that_pins_them_never_does(
    world: PostgresLakeWorld, sink_database: Connection, tmp_path: Path
) -> None:
    catalogue = client(sink_database, tmp_path)
    straddled, seen = 0, set[int]()
    stream = Running(world)
    with stream.running():
        for _ in range(3):
            first = catalogue.load_table("settlement.account").scan().to_arrow().num_rows
            stream.goes_on()
            straddled += first != catalogue.load_table("settlement.transfer").scan().to_arrow().num_rows
        for _ in range(READS):
            tables = open_catalogue(
                uri_of(sink_database),
                sync="settlement",
                destination="warehouse",
                catalog=CATALOG,
                namespace="settlement",
                at="live",
            )
            counts = {tables[name].arrow().num_rows for name in ("account", "transfer", "audit")}
            assert len(counts) == 1, f"tables of {tables.position} have {counts} rows"
            seen |= counts
    assert straddled == 3, "the stream had gone on in between"
    assert len(seen) > READS / 4, "reads of one and the same state prove nothing"


# ---- compaction beside a stream -------------------------------------------------------------------------------------


def rewritten(head: Head) -> Head:
    """As Spark's rewrite_data_files leaves a table: its living rows in one file, at other positions, and no deletes."""
    files = NewFiles(head.metadata.location, "theirs")
    path = files.data(".parquet")
    living = StaticTable.from_metadata(head.location).scan().to_arrow()
    schema = pq.read_schema(head.data[0].data_file.file_path.removeprefix("file://"))
    write_parquet(living.take(list(reversed(range(living.num_rows)))).cast(schema), path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "_summary", lambda *_: Summary(Operation.REPLACE, **{"engine-name": "other"}))
        return snapshot.staged_head(head, snapshot.FileChanges([written_file(path)], gone=head.paths), files)


def compact(world: PostgresLakeWorld, *tables: str) -> None:
    for name in tables:
        head = rewritten(read_head(world.seen().heads[name]))
        moved = world.session.execute(
            "UPDATE public.iceberg_tables SET metadata_location = %s, previous_metadata_location = metadata_location"
            " WHERE table_name = %s AND metadata_location = %s",
            (head.location, name, world.seen().heads[name]),
        ).rowcount
        assert moved == 1


@pytest.mark.parametrize("tables", [("account",), ("account", "audit")])
def test_tables_that_are_compacted_between_the_files_of_a_span_and_its_commit_keep_every_change(
    world: PostgresLakeWorld, tables: tuple[str, ...]
) -> None:
    first = published(world)
    first.span(
        *(insert(ACCOUNT, **account(number)) for number in range(20)),
        *(insert(AUDIT, actor="x", action=f"{number % 3}") for number in range(20)),
    )
    left = iter(range(3))
    stream = beside(world, lambda: compact(world, *tables) if next(left, None) is not None else None)
    for number in range(5):
        changes: list[Change] = [
            update(ACCOUNT, account(number), account(number, "changed")),
            delete(ACCOUNT, **account(number + 10)),
            delete(AUDIT, actor="x", action=f"{number % 3}"),
        ]
        assert stream.span(*changes).findings_total == 0
    assert next(left, None) is None, "it was compacted three times"
    assert len(world.rows(ACCOUNT)) == 15
    assert sum('"changed"' in row for row in world.rows(ACCOUNT)) == 5
    assert len(world.rows(AUDIT)) == 15
    assert world.findings() == []
    Applying(world).span(delete(ACCOUNT, **account(19)))
    assert len(world.rows(ACCOUNT)) == 14
