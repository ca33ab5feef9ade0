"""What changes do to a Delta table, as its log has it: each version is read back from its own files."""

import json
import pickle
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import Diverged, Refused, SchemaConflict
from seamline.sinks.delta.log import DeltaLog, VersionTaken
from seamline.sinks.delta.reading import DeltaTable
from seamline.sinks.delta.rows import RowIndex
from seamline.sinks.delta.types import delta_schema, stored, typed
from seamline.sinks.delta.vectors import Vector, VectorFile
from seamline.sinks.lake import edit as lake_edit
from seamline.values.build import batch_of, values_of
from seamline.values.changes import ChangeBatch
from seamline.values.digest import row_texts
from seamline.values.special import special_mask
from tests.contract.every_kind import VALUES
from tests.unit.delta_lake import EVERY_KIND, ID, KEPT_ROWS, DeltaLake, Row

NAME, BODY = Column("name", Kind.STRING, "varchar(40)", length=40), Column("body", Kind.STRING, "text", toastable=True)
BY_NUMBER = Table("by_number", (ID, NAME, BODY), ("id",))
BY_TEXT = Table("by_text", (BODY, Column("code", Kind.STRING, "char(9)", nullable=False), ID), ("code", "id"))
KEYLESS = Table("keyless", (NAME, BODY))


@pytest.fixture(params=[BY_NUMBER, BY_TEXT], ids=lambda table: table.name)
def keyed(request: pytest.FixtureRequest, tmp_path: Path) -> DeltaLake:
    return DeltaLake(request.param, tmp_path)


def row_of(lake: DeltaLake, key: int, said: str | None) -> Row:
    return (key, said, said) if lake.table is BY_NUMBER else (said, f"c{key % 3}", key)


def test_any_history_of_a_table_with_a_key_ends_with_the_source_s_rows_and_each_version_stays(
    keyed: DeltaLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_edit, "FILES_JOINED", 4)
    dice, expected = random.Random(7), dict[int, str | None]()
    versions = dict[int, Counter[Row]]()
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
            for key, text, is_gone in zip(keys, said, gone, strict=True):
                expected.pop(key, None) if is_gone else expected.update({key: text})
            rows = [row_of(keyed, *one) for one in zip(keys, said, strict=True)]
            chunk = part if part < parts else 0
            batches.append(keyed.batch(rows, deleted=gone, met=met, chunk=chunk, truncate_first=emptied))
        dice.shuffle(batches)
        assert keyed.commit(*batches) == []
        versions[keyed.state.version] = Counter(row_of(keyed, *one) for one in expected.items())
        assert keyed.read() == versions[keyed.state.version]
        # Those of before, and a file of each chunk.
        assert len(keyed.state.files) <= 4 + 3
        if dice.random() < 0.3:
            keyed.state, keyed.index = keyed.log.newest(), RowIndex(keyed.table, keyed.folder)
        if dice.random() < 0.3:
            keyed.log.write_checkpoint(keyed.state)
    for version, rows in versions.items():
        assert keyed.read(version) == rows


def test_copies_of_a_row_without_a_key_are_counted_exactly_across_files(tmp_path: Path) -> None:
    lake, dice, expected = DeltaLake(KEYLESS, tmp_path), random.Random(3), Counter[Row]()
    for _ in range(20):
        change = Counter[Row]()
        for row in dice.sample([("a", None), ("b", "x"), (None, None), ("ü", "y")], 2):
            change[row] = dice.randrange(-expected[row], 5) or 1
        lake.commit(lake.copies(change))
        expected.update(change)
        expected = +expected
        assert lake.read() == expected
    with pytest.raises(Diverged, match="should go"):
        lake.commit(lake.copies(Counter({("b", "x"): -expected["b", "x"] - 1})))


def test_a_span_that_changes_nothing_writes_no_version(keyed: DeltaLake) -> None:
    keyed.commit(keyed.batch([row_of(keyed, 1, "x")], deleted=[True]))
    keyed.commit(keyed.batch([], deleted=[], truncate_first=True))
    assert keyed.log.versions() == [0]


def test_rows_that_come_and_go_within_one_commit_leave_no_file_in_the_table(tmp_path: Path) -> None:
    lake = DeltaLake(BY_NUMBER, tmp_path)
    lake.commit(
        lake.put((1, "a", "x"), (2, "b", "x"), chunk=1), lake.batch([(1, None, None)], deleted=[True], met=[True])
    )
    assert lake.read() == Counter([(2, "b", "x")])
    lake.commit(lake.batch([(2, None, None)], deleted=[True], met=[True]))
    assert (lake.read(), lake.state.files) == (Counter(), {}), "a file without rows leaves the table"


def test_every_kind_of_value_is_stored_and_given_back_to_updates_that_lack_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_edit, "FILES_JOINED", 1)
    lake = DeltaLake(EVERY_KIND, tmp_path)
    lake.commit(lake.put(*KEPT_ROWS))
    expected = sorted(row_texts(EVERY_KIND, batch_of(EVERY_KIND, KEPT_ROWS)).to_pylist())
    assert lake.texts() == expected
    named, count = EVERY_KIND.columns[1:], len(KEPT_ROWS)
    bare = [(number, *(None for _ in named)) for number in range(count)]
    missing = pa.RecordBatch.from_arrays([pa.array([True] * count)] * len(named), names=[one.name for one in named])
    lake.commit(lake.batch(bare, deleted=[False] * count, met=[True] * count, missing=missing))
    assert lake.texts() == expected


# ---- the log --------------------------------------------------------------------------------------------------------


def test_of_two_who_write_one_version_one_succeeds(tmp_path: Path) -> None:
    lake = DeltaLake(BY_NUMBER, tmp_path)
    lake.log.put(1, [{"txn": {"appId": "a", "version": 1}}])
    with pytest.raises(VersionTaken):
        lake.log.put(1, [{"txn": {"appId": "b", "version": 1}}])
    assert lake.log.newest().transactions["a"] == 1
    assert [path.name for path in (lake.folder / "_delta_log").iterdir() if path.name.startswith(".")] == []


def test_nothing_is_written_behind_a_gap_that_a_clean_up_has_left(tmp_path: Path) -> None:
    lake = DeltaLake(BY_NUMBER, tmp_path)
    lake.log.commit_file(0).unlink()
    with pytest.raises(VersionTaken):
        lake.log.put(1, [{"txn": {"appId": "a", "version": 1}}])


def test_a_checkpoint_is_the_same_state_and_stands_for_the_versions_before_it(tmp_path: Path) -> None:
    lake = DeltaLake(KEYLESS, tmp_path)
    for number in range(4):
        lake.commit(lake.copies(Counter({("a", "x"): 2, (f"{number}", None): 1})))
    lake.commit(lake.copies(Counter({("a", "x"): -3})))
    lake.log.write_checkpoint(lake.state)
    expected = lake.read()
    for version in range(lake.state.version):
        lake.log.commit_file(version).unlink()
    found = lake.log.newest()
    assert found.keys == lake.state.keys
    assert found.transactions == lake.state.transactions
    assert set(found.removed) == set(lake.state.removed), "other clients leave what was removed alone by its tombstone"
    assert lake.read() == expected
    with pytest.raises(Refused, match="somebody has cleaned up"):
        lake.log.at(2)
    said = json.loads((lake.folder / "_delta_log" / "_last_checkpoint").read_text())
    assert said["version"] == lake.state.version


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["columnMapping"]}, "columnMapping"),
        ({"minReaderVersion": 1, "minWriterVersion": 2}, "protocol 1, 2"),
    ],
)
def test_a_table_of_another_protocol_is_not_continued(tmp_path: Path, protocol: dict[str, object], said: str) -> None:
    lake = DeltaLake(BY_NUMBER, tmp_path)
    lake.log.put(1, [{"protocol": protocol}])
    with pytest.raises(Refused, match=said):
        lake.log.newest()


def test_a_folder_without_a_log_is_no_table(tmp_path: Path) -> None:
    DeltaLog(tmp_path).make()
    with pytest.raises(Refused, match="holds no Delta table"):
        DeltaLog(tmp_path).newest()


def test_a_table_is_read_in_parts_by_whoever_it_is_handed_to(tmp_path: Path) -> None:
    lake = DeltaLake(KEYLESS, tmp_path)
    for number in range(3):
        lake.commit(lake.copies(Counter({("a", f"{number}"): 2})))
    lake.commit(lake.copies(Counter({("a", "0"): -1})))
    found = pickle.loads(pickle.dumps(DeltaTable("keyless", str(lake.folder), lake.state.version)))
    assert found.schema.names == ["name", "body"], "without the hash of its rows"
    assert found.parts == 3
    parts = [row["body"] for part in range(2) for one in found.batches(part=part, of=2) for row in one.to_pylist()]
    assert sorted(parts) == sorted(found.arrow().column("body").to_pylist()) == ["0", "1", "1", "2", "2"]
    assert DeltaTable("keyless", str(lake.folder), 1).arrow().num_rows == 2


# ---- deletion vectors -----------------------------------------------------------------------------------------------


def test_several_deletion_vectors_lie_in_one_file_and_each_is_read_alone(tmp_path: Path) -> None:
    file = VectorFile(UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61"))
    several = [np.array([0]), np.arange(0, 200_000, 3), np.array([3, 4, 7, 11, 18, 29]), np.arange(65_530, 140_000)]
    vectors = [file.put(positions) for positions in several]
    file.write(tmp_path / file.name)
    # The protocol's own example of a file's name.
    assert vectors[0].place == "^-aqEH.-t@S}K{vb[*k^"
    assert vectors[0].offset == 1
    for vector, positions in zip(vectors, several, strict=True):
        found = Vector.of({"deletionVector": vector.described()})
        assert found == vector
        assert found.positions(tmp_path).tolist() == positions.tolist()
        assert found.cardinality == len(positions)
    content = bytearray((tmp_path / file.name).read_bytes())
    content[-6] ^= 1
    (tmp_path / file.name).write_bytes(content)
    with pytest.raises(Refused, match="damaged"):
        vectors[-1].positions(tmp_path)


# ---- types ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", VALUES, ids=lambda column: f"{column.name} {column.source_type}")
def test_every_value_of_every_kind_comes_back_or_is_refused_by_name(column: Column, tmp_path: Path) -> None:
    table = Table("t", (column,))
    rows = batch_of(table, [(value,) for value in (*VALUES[column], None)])
    try:
        pq.write_table(stored(table, rows), tmp_path / "t.parquet")
    except SchemaConflict as refused:
        assert refused.table == "t"
        assert column.name in str(refused)
        assert special_mask(column, rows.column(0)).true_count
        return
    found = typed(table, pq.read_table(tmp_path / "t.parquet"))
    assert row_texts(table, found).equals(row_texts(table, rows))
    assert found.schema.equals(rows.schema, check_metadata=True)
    assert repr(values_of(column, found.column(0))) == repr(values_of(column, rows.column(0)))


def test_a_schema_says_the_type_of_each_column_and_the_hash_of_a_table_without_a_key() -> None:
    at = Column("at", Kind.DATETIME, "timestamp(6)", precision=6)
    table = Table(
        "t", (replace(ID, nullable=True), at, Column("money", Kind.DECIMAL, "numeric(9,2)", precision=9, scale=2))
    )
    fields = {one["name"]: (one["type"], one["nullable"]) for one in json.loads(delta_schema(table))["fields"]}
    assert fields == {
        "id": ("long", True),
        "at": ("timestamp_ntz", True),
        "money": ("decimal(9,2)", True),
        "seamline_row_hash": ("binary", False),
    }
