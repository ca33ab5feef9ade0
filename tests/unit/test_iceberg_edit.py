"""What changes do to an Iceberg table, as every reader of it sees it: pyiceberg reads back what was staged."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import Finding
from seamline.domain.errors import Diverged, Refused, SchemaConflict
from seamline.sinks.iceberg import edit as edit_module
from seamline.sinks.iceberg import snapshot
from seamline.sinks.iceberg.edit import TableEdit
from seamline.sinks.iceberg.layout import TableLayout
from seamline.sinks.iceberg.manifests import Head, read_head, read_metadata
from seamline.sinks.iceberg.partitions import Division
from seamline.sinks.iceberg.rows import RowIndex
from seamline.sinks.iceberg.snapshot import FileChanges, new_head, obsolete, own_snapshot, staged_head
from seamline.sinks.iceberg.types import typed
from seamline.sinks.lake import edit as lake_edit
from seamline.sinks.lake.chunks import StagedBatch, in_order
from seamline.sinks.lake.columns import refuse_special
from seamline.sinks.lake.files import NewFiles, new_location, path_of
from seamline.values.arrow import schema_of
from seamline.values.build import array_of, batch_of, rows_of
from seamline.values.changes import ChangeBatch, old_key_schema
from seamline.values.digest import row_texts
from tests.contract.every_kind import VALUES

ID = Column("id", Kind.INTEGER, "bigint", nullable=False, length=64)
NAME, BODY = Column("name", Kind.STRING, "varchar(40)", length=40), Column("body", Kind.STRING, "text", toastable=True)
BY_NUMBER = Table("by number", (ID, NAME, BODY), ("id",))
BY_TEXT = Table("by text", (BODY, Column("code", Kind.STRING, "char(9)", nullable=False), ID), ("code", "id"))
KEYLESS = Table("keyless", (NAME, BODY))
Row = tuple[Any, ...]


class Lake:
    """One table, each commit on top of the one before."""

    def __init__(self, table: Table, folder: Path, layout: TableLayout | None = None) -> None:
        self.table = table
        self.division = Division(table, layout or TableLayout())
        self.index = RowIndex(table)
        location = new_location(str(folder), "ns", table.name)
        location.mkdir(parents=True)
        base = new_head(table, location, layout=layout)
        self.location = base.metadata.location
        self.head = staged_head(base, FileChanges(), self.files())

    def files(self) -> NewFiles:
        return NewFiles(self.location, "s-e1")

    def commit(self, *batches: ChangeBatch) -> list[Finding]:
        edit = TableEdit(self.table, self.head, self.index, self.files(), self.division)
        findings = edit.apply(in_order(map(StagedBatch.of, batches)))
        staged = edit.staged()
        if staged is not None:
            self.head, rows = staged
            self.index.keep(self.head, rows)
        return findings

    def put(self, *rows: Row, chunk: int = 0, met: Sequence[bool] | None = None) -> ChangeBatch:
        return self.batch(rows, deleted=[False] * len(rows), met=met, chunk=chunk)

    def batch(self, rows: Sequence[Row], *, deleted: Sequence[bool], **more: Any) -> ChangeBatch:
        count = len(rows)
        met = more.pop("met", None) or [False] * count
        values = [pa.array(deleted, pa.bool_()), pa.array(range(count), pa.int64()), pa.array(met, pa.bool_())]
        return ChangeBatch(self.table, batch_of(self.table, rows), *values[:2], None, values[2], **more)

    def copies(self, counts: Counter[Row], **more: Any) -> ChangeBatch:
        rows = batch_of(self.table, list(counts))
        return ChangeBatch(self.table, rows, copies=pa.array(list(counts.values()), pa.int64()), **more)

    def read(self) -> Counter[Row]:
        found = StaticTable.from_metadata(self.head.location).scan().to_arrow()
        return Counter(rows_of(self.table, typed(self.table, found.combine_chunks())))

    @property
    def partitions(self) -> int:
        """How many of them have files; each file lies in one, and deletes are beside the rows that they are about."""
        of_path = {entry.data_file.file_path: entry.data_file.partition for entry in self.head.data}
        for path, partition in of_path.items():
            rows = pq.read_table(path_of(path), partitioning=None)
            assert len(list(self.division.places(rows))) == 1
            assert self.division.partition_of_first(rows) == partition
        for entry in self.head.deletes:
            named = pq.read_table(path_of(entry.data_file.file_path), partitioning=None).column("file_path")
            found = {str(of_path[path]) for path in named.unique().to_pylist() if path in of_path}
            assert found <= {str(entry.data_file.partition)}
        return len({str(partition) for partition in of_path.values()}) or 1


BY_CODE = TableLayout.of({"partitioned_by": ["code"]})


@pytest.fixture(
    params=[(BY_NUMBER, None), (BY_TEXT, None), (BY_TEXT, BY_CODE)], ids=["by number", "by text", "by text in parts"]
)
def keyed(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    table, layout = request.param
    return Lake(table, tmp_path, layout)


def row_of(lake: Lake, key: int, said: str | None) -> Row:
    return (key, said, said) if lake.table is BY_NUMBER else (said, f"c{key % 3}", key)


def test_any_history_of_a_table_with_a_key_ends_with_the_source_s_rows(
    keyed: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MANIFESTS_MAX", 4)
    monkeypatch.setattr(lake_edit, "FILES_JOINED", 4)
    monkeypatch.setattr(edit_module, "DELETES_JOINED", 3)
    dice, expected = random.Random(7), dict[int, str | None]()
    for number in range(25):
        batches = list[ChangeBatch]()
        parts = dice.choice([1, 1, 3])
        for part in range(1, parts + 1):
            emptied = dice.random() < 0.1
            if emptied:
                expected.clear()
            keys = dice.sample(range(40), dice.randrange(1, 12))
            gone = [dice.random() < 0.4 for _ in keys]
            met = [key in expected for key in keys]
            said = [dice.choice(["x", "ü", None, f"v{number}"]) for _ in keys]
            rows = [row_of(keyed, *one) for one in zip(keys, said, strict=True)]
            for key, text, is_gone in zip(keys, said, gone, strict=True):
                expected.pop(key, None) if is_gone else expected.update({key: text})
            chunk = part if part < parts else 0
            batches.append(keyed.batch(rows, deleted=gone, met=met, chunk=chunk, truncate_first=emptied))
        dice.shuffle(batches)
        assert keyed.commit(*batches) == []
        assert keyed.read() == Counter(row_of(keyed, *one) for one in expected.items())
        assert len(keyed.head.manifests) <= 6
        # Of each partition those of the head before, and a file of each chunk.
        assert len(keyed.head.data) <= (4 + 3) * keyed.partitions
        assert len(keyed.head.deletes) <= 4 * keyed.partitions
        if dice.random() < 0.3:
            keyed.head, keyed.index = read_head(keyed.head.location), RowIndex(keyed.table)


def test_what_meets_the_unexpected_is_applied_and_named(keyed: Lake) -> None:
    keyed.commit(keyed.put(row_of(keyed, 1, "x")))
    rows = [row_of(keyed, number, "y") for number in (1, 2, 3, 4)]
    deleted, met = [False, False, True, True], [False, True, True, False]
    found = keyed.commit(keyed.batch(rows, deleted=deleted, met=met))
    assert [(one.kind, one.offset) for one in found] == [
        ("insert met a row", 0),
        ("update met no row", 1),
        ("delete met no row", 2),
    ]
    assert all('"id": ' in one.key for one in found)
    assert keyed.read() == Counter(rows[:2])


def lacking(lake: Lake, row: Row, *, old_key: int | None = None) -> ChangeBatch:
    """An update of one row whose body the log left out."""
    keys = (
        None
        if old_key is None
        else pa.RecordBatch.from_arrays([pa.array([old_key])], schema=old_key_schema(lake.table))
    )
    return lake.batch(
        [row],
        deleted=[False],
        met=[old_key is None],
        missing=pa.RecordBatch.from_arrays([pa.array([True])], names=["body"]),
        old_key=keys,
    )


def test_a_change_that_lacks_a_value_takes_the_stored_one_also_from_under_the_old_key(tmp_path: Path) -> None:
    lake = Lake(BY_NUMBER, tmp_path)
    lake.commit(lake.put((1, "a", "large 1"), (2, "b", "large 2")))
    lake.commit(lacking(lake, (2, "new", None)))
    assert lake.read() == Counter([(1, "a", "large 1"), (2, "new", "large 2")])
    lake.commit(lake.batch([(1, None, None)], deleted=[True], met=[True], chunk=0))
    with pytest.raises(Diverged, match="by number"):
        lake.commit(lacking(lake, (9, "moved", None), old_key=1))
    lake.commit(lacking(lake, (9, "moved", None), old_key=2))
    assert lake.read() == Counter([(2, "new", "large 2"), (9, "moved", "large 2")])


@pytest.mark.parametrize("partitioned_by", [[], ["name"], ["body", "name"]], ids=" and ".join)
def test_any_history_of_a_table_without_a_key_keeps_every_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitioned_by: list[str]
) -> None:
    monkeypatch.setattr(lake_edit, "FILES_JOINED", 3)
    monkeypatch.setattr(edit_module, "DELETES_JOINED", 2)
    lake = Lake(KEYLESS, tmp_path, TableLayout.of({"partitioned_by": partitioned_by}))
    dice, expected = random.Random(5), Counter[Row]()
    rows = [(name, body) for name in ("a", "A", "a ", None) for body in ("", "~", None)]
    for _ in range(20):
        change = Counter({row: dice.randrange(-min(3, expected[row]), 5) for row in dice.sample(rows, 5)})
        change = Counter({row: count for row, count in change.items() if count})
        lake.commit(lake.copies(change))
        expected.update(change)
        assert lake.read() == +expected
        assert 1 <= lake.partitions <= len(rows)
    held, before = sum(expected.values()), lake.head
    over = Counter({row: -count for row, count in (+expected).items()})
    over[next(iter(over))] -= 1
    with pytest.raises(Diverged, match=f"{held + 1} rows of keyless should go, the destination holds only {held}"):
        lake.commit(lake.copies(over))
    assert lake.head is before


def takes(column: Column, value: Any) -> bool:
    try:
        refuse_special(Table("t", (column,)), column, array_of(column, [value]))
    except SchemaConflict:
        return False
    return True


def test_every_kind_of_value_is_read_by_other_clients_and_given_back_to_updates_that_lack_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_edit, "FILES_JOINED", 1)
    named = {replace(column, name=f"c{number}", nullable=True): column for number, column in enumerate(VALUES)}
    table = Table("every kind", (ID, *named), ("id",))
    kept = [[one for one in VALUES[column] if takes(column, one)] or [None] for column in named.values()]
    rows = [(number, *(values[number % len(values)] for values in kept)) for number in range(max(map(len, kept)))]
    lake = Lake(table, tmp_path)
    lake.commit(lake.put(*rows))
    expected = row_texts(table, batch_of(table, rows)).to_pylist()
    found = StaticTable.from_metadata(lake.head.location).scan().to_arrow()
    assert row_texts(table, typed(table, found.combine_chunks())).to_pylist() == expected
    bare = [(number, *(None for _ in named)) for number in range(len(rows))]
    all_of_them = [pa.array([True] * len(rows))] * len(named)
    missing = pa.RecordBatch.from_arrays(all_of_them, names=[column.name for column in named])
    lake.commit(lake.batch(bare, deleted=[False] * len(rows), met=[True] * len(rows), missing=missing))
    lake.commit(lake.put((len(rows), *(None for _ in named))))
    names = {Path(entry.data_file.file_path).name.rpartition("-")[2] for entry in lake.head.data}
    assert "joined.parquet" in names
    found = StaticTable.from_metadata(lake.head.location).scan(row_filter=f"id < {len(rows)}").to_arrow()
    assert row_texts(table, typed(table, found.combine_chunks())).to_pylist() == expected


def test_a_span_that_changes_nothing_moves_nothing(keyed: Lake) -> None:
    before = keyed.head
    keyed.commit(keyed.batch([row_of(keyed, 1, "x")], deleted=[True]))
    keyed.commit(keyed.batch([], deleted=[], truncate_first=True))
    assert keyed.head is before


def test_no_parquet_file_is_without_rows_and_what_was_not_kept_is_dropped(tmp_path: Path) -> None:
    lake = Lake(BY_NUMBER, tmp_path)
    emptied = lake.batch([], deleted=[], truncate_first=True)
    lake.commit(
        lake.put((1, "a", "x"), chunk=1),
        emptied,
    )
    assert lake.read() == Counter()
    assert list(path_of(lake.location).rglob("*.parquet")) == []
    lake.commit(lake.put((1, "a", "x")))
    found = list(path_of(lake.location).rglob("*.parquet"))
    assert [pq.read_metadata(path).num_rows for path in found] == [1]


def test_what_somebody_else_has_done_is_told_from_a_compaction(tmp_path: Path) -> None:
    lake = Lake(BY_NUMBER, tmp_path)
    known = lake.head.snapshot_id
    assert own_snapshot(read_metadata(lake.head.location), known) == ""
    lake.commit(lake.put((1, "a", "x")))
    found = read_metadata(lake.head.location)
    assert own_snapshot(found, known) == f"append of snapshot {lake.head.snapshot_id}"
    assert own_snapshot(found, lake.head.snapshot_id) == ""


def test_the_totals_of_a_snapshot_are_those_of_its_files(tmp_path: Path) -> None:
    lake = Lake(BY_NUMBER, tmp_path)
    lake.commit(lake.put((1, "a", "x"), (2, "a", "x")))
    lake.commit(lake.put((2, "b", "x"), met=[True]))
    summary = lake.head.metadata.current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    names = ("total-data-files", "total-records", "total-delete-files", "total-position-deletes")
    assert [summary[name] for name in names] == ["2", "3", "1", "1"]
    assert summary.operation.value == "overwrite"


def test_old_snapshots_are_let_go_of_and_their_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "SNAPSHOTS_KEPT", 5)
    monkeypatch.setattr(snapshot, "_LET_GO_AT_ONCE", 2)
    lake, gone = Lake(BY_NUMBER, tmp_path), list[Path]()
    for number in range(20):
        before = lake.head
        lake.commit(lake.put((number, "a", "x")))
        gone += obsolete(before.metadata, lake.head.metadata)
        assert len(lake.head.metadata.snapshots) <= 7
    assert lake.read() == Counter((number, "a", "x") for number in range(20))
    assert len(gone) == len(set(gone)) == 21 - len(lake.head.metadata.snapshots)
    assert all(path.exists() for path in gone)
    for path in gone:
        path.unlink()
    assert lake.read() == Counter((number, "a", "x") for number in range(20))


def test_a_table_of_another_format_is_not_continued(tmp_path: Path) -> None:
    head = Lake(BY_NUMBER, tmp_path).head
    path = path_of(head.location)
    path.write_text(
        path.read_text().replace(
            '"format-version":2', '"format-version":1,"schema":{"type":"struct","fields":[]},"partition-spec":[]'
        )
    )
    with pytest.raises(Refused, match="format 1"):
        read_head(head.location)


def test_the_typed_form_of_no_rows_has_the_schema(tmp_path: Path) -> None:
    lake = Lake(KEYLESS, tmp_path)
    found = StaticTable.from_metadata(lake.head.location).scan().to_arrow()
    assert typed(KEYLESS, found.combine_chunks()).schema.equals(schema_of(KEYLESS), check_metadata=True)
    assert isinstance(lake.head, Head)
