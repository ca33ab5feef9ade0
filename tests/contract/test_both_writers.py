"""The same history of a table, written without Spark and by Spark, there with partitions, an order and either format:
equal rows, equal findings, and pyiceberg, Spark and DuckDB read the same. `--histories 200` takes as many seeds.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import FileFormat
from pyiceberg.table import StaticTable
from pyiceberg.table.snapshots import Operation

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import Finding
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import SchemaConflict
from seamline.domain.ledger import StreamId
from seamline.ports import Joining
from seamline.sinks.iceberg import spark_tables
from seamline.sinks.iceberg.data_files import written_file
from seamline.sinks.iceberg.io import LOCAL_IO
from seamline.sinks.iceberg.layout import TAKEN, TableLayout
from seamline.sinks.iceberg.manifests import read_head, read_metadata
from seamline.sinks.iceberg.options import LakeOptions
from seamline.sinks.iceberg.partitions import Division
from seamline.sinks.iceberg.placing import Placing
from seamline.sinks.iceberg.snapshot import FileChanges, new_head, staged_head
from seamline.sinks.iceberg.span_catalogue import NAMESPACE, SpanCatalogue, SpanTable
from seamline.sinks.iceberg.spark_tables import SparkTables
from seamline.sinks.iceberg.tables import IcebergTables
from seamline.sinks.iceberg.types import from_frame, stored, typed
from seamline.sinks.lake.chunks import StagedBatch, in_order
from seamline.sinks.lake.files import NewFiles, path_of
from seamline.sinks.lake.loads import written_apart
from seamline.sinks.lake.sink import Mark
from seamline.sinks.lake.store import Seen
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of
from seamline.values.changes import ChangeBatch
from seamline.values.digest import segment_digest
from seamline_spark.frames import SparkFrames
from tests.contract.every_kind import VALUES

SPANS, KEYS, COLUMNS = 3, 30, 9
NUMBER = Column("number", Kind.INTEGER, "bigint", nullable=False, length=64)
CODE = Column("code", Kind.STRING, "varchar(9)", nullable=False, length=9)
MARK = Mark(StreamId("s", "lake"), 1)
Row = tuple[Any, ...]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--histories")))


class OneTable:
    """Kept by one writer, without a catalogue: `location` is where its pointer would lead."""

    def __init__(
        self,
        table: Table,
        folder: Path,
        tables: IcebergTables,
        *,
        loaded: pa.RecordBatch,
        layout: TableLayout | None = None,
        format_version: int = 2,
    ) -> None:
        folder.mkdir()
        base = new_head(table, folder, layout=layout, format_version=format_version)
        files = NewFiles(base.metadata.location, str(MARK))
        self.table = table
        self.tables = tables
        self.division = Division(table, layout or TableLayout())
        paths = [path for path, _ in written_apart([stored(table, loaded)], files, self.division.parts)]
        made = [written_file(path, partition=self.division.partition_of(path)) for path in paths]
        self.location = staged_head(base, FileChanges(made), files).location

    def misplaced(self) -> list[str]:
        """Files that lie in another partition than their rows, or whose rows are of several."""
        found = list[str]()
        for entry in read_head(self.location).data:
            path = path_of(entry.data_file.file_path)
            (*others, _) = self.division.parts(pq.read_table(path, partitioning=None))
            if others or self.division.partition_of(path) != entry.data_file.partition:
                found.append(f"{path.name}: {entry.data_file.partition}")
        return found

    def commit(self, batches: Sequence[ChangeBatch]) -> list[Finding]:
        seen = Seen(heads={self.table.name: self.location})
        ordered = in_order(map(StagedBatch.of, batches))
        staged, findings = self.tables.edited(self.table.name, seen, ordered, mark=MARK)
        if staged is not None:
            staged.land()
            self.location = staged.move.new
            staged.keep()
        return findings

    def digest(self) -> SegmentDigest:
        found = StaticTable.from_metadata(self.location).scan().to_arrow()
        return digest_of(self.table, typed(self.table, found))

    def digest_by_duckdb(self) -> SegmentDigest:
        """As DuckDB answers what it is given as Arrow; a uuid it answers as text."""
        found = StaticTable.from_metadata(self.location).scan().to_arrow()
        with duckdb.connect() as session:
            session.register("found", found)
            rows = session.sql("SELECT * FROM found").to_arrow_table()
        return self._digest_of_answer(rows)

    def digest_by(self, frames: SparkFrames) -> SegmentDigest:
        """As Spark reads it."""
        with closing(SpanCatalogue()) as catalogue:
            catalogue.serve("read", SpanTable(self.location, str(MARK)))
            frames.configure(catalogue.settings())
            rows = frames.run(f"SELECT * FROM {catalogue.name}.{NAMESPACE}.read")
        return self._digest_of_answer(rows)

    def _digest_of_answer(self, rows: pa.Table) -> SegmentDigest:
        columns = [from_frame(column, rows.column(column.name)) for column in self.table.columns]
        return digest_of(self.table, pa.RecordBatch.from_arrays(columns, schema=schema_of(self.table)))


def digest_of(table: Table, rows: pa.RecordBatch) -> SegmentDigest:
    return segment_digest(table, rows, run_key="")


def values_in_a_lake(column: Column) -> list[Any]:
    """NULL, and those that it does not refuse."""
    table, kept = Table("t", (column,)), [None]
    for value in VALUES[column]:
        try:
            stored(table, batch_of(table, [(value,)]))
        except SchemaConflict:
            continue
        kept.append(value)
    return kept


class History:
    """What a source does to one table, drawn by a seed; `spans` are the batches of each commit."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        chosen = self._dice.sample(list(VALUES), COLUMNS)
        self._values = [values_in_a_lake(column) for column in chosen]
        is_keyed = seed % 2 == 0
        columns = (NUMBER, CODE, *chosen) if is_keyed else tuple(chosen)
        self.table = Table("t x", columns, ("code", "number") if is_keyed else ())
        self.layout = TableLayout.of({"partitioned_by": self._partitions(), "sorted_by": [f"{columns[1].name} desc"]})
        self.format_version = self._dice.choice([2, 3])
        # As the stream's own process writes it: by values alone, every second time.
        able = [one.name for one in self.table.columns if one.kind in TAKEN["identity"]]
        by_values = self._dice.sample(able, self._dice.choice([1, 2])) if seed % 4 in (0, 1) else []
        self.layout_of_native = TableLayout.of({"partitioned_by": by_values})
        self._there: dict[int, Row] = {}
        self._rows = list[Row]()

    def _partitions(self) -> list[str]:
        """One or two, of columns that can have them."""
        forms = {"bucket": "bucket(3, {})", "truncate": "truncate(2, {})", "day": "days({})", "identity": "{}"}
        columns = self._dice.sample(self.table.columns, len(self.table.columns))
        able = [(one.name, [form for form, kinds in TAKEN.items() if one.kind in kinds]) for one in columns]
        found = [forms[self._dice.choice(taken)].format(name) for name, taken in able if taken]
        return found[: self._dice.choice([1, 2])]

    def loaded(self) -> pa.RecordBatch:
        """What the table begins with."""
        if self.table.is_keyed:
            self._there = {key: (key, f"c{key % 3}", *self._drawn()) for key in range(0, KEYS, 2)}
            return batch_of(self.table, list(self._there.values()))
        self._rows = [self._drawn() for _ in range(10)]
        return batch_of(self.table, self._rows)

    def spans(self) -> Iterator[list[ChangeBatch]]:
        for _ in range(SPANS):
            parts = self._dice.choice([1, 1, 2])
            batches = [self._batch(part if part < parts else 0) for part in range(1, parts + 1)]
            self._dice.shuffle(batches)
            yield batches

    def _batch(self, chunk: int) -> ChangeBatch:
        is_emptied = self._dice.random() < 0.15
        if is_emptied:
            self._there, self._rows = {}, []
        make = self._keyed if self.table.is_keyed else self._keyless
        return make(chunk=chunk, truncate_first=is_emptied)

    def _keyed(self, **more: Any) -> ChangeBatch:
        keys = self._dice.sample(range(KEYS), self._dice.randrange(1, 12))
        gone = [self._dice.random() < 0.3 for _ in keys]
        # Now and then a change meets what it does not expect.
        met = [(key in self._there) ^ (self._dice.random() < 0.1) for key in keys]
        rows = [(key, f"c{key % 3}", *self._drawn()) for key in keys]
        for key, row, is_gone in zip(keys, rows, gone, strict=True):
            self._there.pop(key, None) if is_gone else self._there.update({key: row})
        offsets = pa.array(range(len(keys)), pa.int64())
        deleted, expected = (pa.array(flags, pa.bool_()) for flags in (gone, met))
        return ChangeBatch(self.table, batch_of(self.table, rows), deleted, offsets, None, expected, **more)

    def _keyless(self, **more: Any) -> ChangeBatch:
        new = [self._drawn() for _ in range(4)]
        copies = [self._dice.randrange(1, 4) for _ in new]
        self._dice.shuffle(self._rows)
        removed, self._rows = self._rows[:5], self._rows[5:]
        self._rows += [row for row, count in zip(new, copies, strict=True) for _ in range(count)]
        counts = pa.array([*copies, *(-1 for _ in removed)], pa.int64())
        return ChangeBatch(self.table, batch_of(self.table, [*new, *removed]), copies=counts, **more)

    def _drawn(self) -> Row:
        return tuple(self._dice.choice(values) for values in self._values)


def test_both_writers_leave_the_same_rows_and_findings(seed: int, frames: SparkFrames, tmp_path: Path) -> None:
    history = History(seed)
    options = LakeOptions("lake", str(tmp_path), "spark")
    with closing(SparkTables([history.table], options, frames)) as tables:
        by_values = history.layout_of_native
        own = LakeOptions("lake", str(tmp_path), "native", layouts={history.table.name: by_values})
        loaded, plain = history.loaded(), IcebergTables([history.table], own)
        native = OneTable(history.table, tmp_path / "native", plain, loaded=loaded, layout=by_values)
        layout, version = history.layout, history.format_version
        by_spark = OneTable(
            history.table, tmp_path / "spark", tables, loaded=loaded, layout=layout, format_version=version
        )
        for batches in history.spans():
            assert by_spark.commit(batches) == native.commit(batches)
            assert by_spark.digest() == native.digest()
    assert native.digest_by(frames) == by_spark.digest_by(frames) == native.digest()
    assert native.digest_by_duckdb() == by_spark.digest_by_duckdb() == native.digest()
    assert native.digest().rows > 0
    assert by_spark.misplaced() == native.misplaced() == []


def test_rows_behind_deletion_vectors_take_the_place_of_a_live_table_s(frames: SparkFrames, tmp_path: Path) -> None:
    table = Table("t", (NUMBER, CODE), ("number",))
    layout = TableLayout.of({"partitioned_by": ["bucket(2, number)"]})
    options = LakeOptions("lake", str(tmp_path), "spark", 3, {"t": layout})
    loaded = batch_of(table, [(number, "c") for number in range(6)])
    gone, met = (pa.array([flag] * 2, pa.bool_()) for flag in (True, True))
    deletes = ChangeBatch(table, batch_of(table, [(1, "c"), (4, "c")]), gone, pa.array([1, 2], pa.int64()), None, met)
    with closing(SparkTables([table], options, frames)) as tables:
        live, arriving = (
            OneTable(table, tmp_path / name, tables, loaded=loaded, layout=layout, format_version=3)
            for name in ("live", "arriving")
        )
        arriving.commit([deletes])
        found = read_head(arriving.location)
        assert {entry.data_file.file_format for entry in found.deletes} == {FileFormat.PUFFIN}
        joining = Joining("run", (table,), StreamId("s_incremental_1", "lake"), "ns_incremental_1")
        placed = Placing(options, LOCAL_IO, "m").of_join(joining, {"t": live.location}, {"t": arriving.location})
    (move,) = placed.moves
    live.location = move.new
    assert read_head(live.location).paths == found.paths, "a stream that is held waits for no row to be written again"
    assert live.digest() == live.digest_by(frames) == arriving.digest()
    assert live.misplaced() == []
    assert live.digest().rows == 4


def test_small_files_are_joined_in_the_stream_s_own_turn(
    frames: SparkFrames, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_tables, "FILES_JOINED", 6)
    table = Table("t x", (NUMBER, CODE), ("number",))
    options = LakeOptions("lake", str(tmp_path), "spark")
    counts = list[int]()
    with closing(SparkTables([table], options, frames)) as tables:
        one = OneTable(table, tmp_path / "t", tables, loaded=batch_of(table, [(0, "0")]))
        for number in range(1, 8):
            rows = batch_of(table, [(number, "c"), (number - 1, "d")])
            flags = [pa.array(values, pa.bool_()) for values in ([False, False], [False, True])]
            batch = ChangeBatch(table, rows, flags[0], pa.array([1, 2], pa.int64()), None, flags[1])
            assert one.commit([batch]) == []
            counts.append(len(read_head(one.location).paths))
    assert max(counts) < 12, counts
    assert min(counts[3:]) <= 3, counts
    expected = batch_of(table, [*((number, "d") for number in range(7)), (7, "c")])
    assert one.digest() == one.digest_by(frames) == digest_of(table, expected)
    operations = [snapshot.summary.operation for snapshot in read_metadata(one.location).snapshots if snapshot.summary]
    assert Operation.REPLACE in operations
