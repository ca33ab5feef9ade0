"""What changes do to a Hudi table, as its timeline has it: each instant is read back from its own files."""

import json
import pickle
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import Diverged, Refused
from seamline.sinks.hudi.instants import text_of
from seamline.sinks.hudi.reading import HudiTable
from seamline.sinks.hudi.timeline import NumberTaken
from seamline.sinks.hudi.types import arrow_schema, avro_schema, plain_name, storage_schema
from seamline.sinks.lake import edit as lake_edit
from seamline.values.build import batch_of
from seamline.values.changes import ChangeBatch
from seamline.values.digest import row_texts
from tests.unit.delta_lake import EVERY_KIND, ID, KEPT_ROWS, Row
from tests.unit.hudi_lake import HudiLake

NAME, BODY = Column("name", Kind.STRING, "varchar(40)", length=40), Column("body", Kind.STRING, "text", toastable=True)
BY_NUMBER = Table("by_number", (ID, NAME, BODY), ("id",))
BY_TEXT = Table("by_text", (BODY, Column("code", Kind.STRING, "char(9)", nullable=False), ID), ("code", "id"))
KEYLESS = Table("keyless", (NAME, BODY))


@pytest.fixture(params=[BY_NUMBER, BY_TEXT], ids=lambda table: table.name)
def keyed(request: pytest.FixtureRequest, tmp_path: Path) -> HudiLake:
    return HudiLake(request.param, tmp_path)


def row_of(lake: HudiLake, key: int, said: str | None) -> Row:
    return (key, said, said) if lake.table is BY_NUMBER else (said, f"c{key % 3}", key)


def test_any_history_of_a_table_with_a_key_ends_with_the_source_s_rows_and_each_instant_stays(
    keyed: HudiLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_edit, "FILES_JOINED", 4)
    dice, expected = random.Random(7), dict[int, str | None]()
    instants = dict[int, Counter[Row]]()
    for number in range(20):
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
        instants[keyed.state.instant] = Counter(row_of(keyed, *one) for one in expected.items())
        assert keyed.read() == instants[keyed.state.instant]
        # Those of before, a file of each chunk, and what was written again.
        assert len(keyed.state.files) <= 4 + 3 + 1
        if dice.random() < 0.3:
            keyed.reopened()
    for instant, rows in instants.items():
        assert keyed.read(instant) == rows


def test_copies_of_a_row_without_a_key_are_counted_exactly_across_files(tmp_path: Path) -> None:
    lake, dice, expected = HudiLake(KEYLESS, tmp_path), random.Random(3), Counter[Row]()
    for _ in range(15):
        change = Counter[Row]()
        for row in dice.sample([("a", None), ("b", "x"), (None, None), ("ü", "y")], 2):
            change[row] = dice.randrange(-expected[row], 5) or 1
        lake.commit(lake.copies(change))
        expected.update(change)
        expected = +expected
        assert lake.read() == expected
    with pytest.raises(Diverged, match="should go"):
        lake.commit(lake.copies(Counter({("b", "x"): -expected["b", "x"] - 1})))


def test_a_span_that_changes_nothing_leaves_no_instant_and_reserves_none(keyed: HudiLake) -> None:
    keyed.commit(keyed.batch([row_of(keyed, 1, "x")], deleted=[True]))
    keyed.commit(keyed.batch([], deleted=[], truncate_first=True))
    assert keyed.timeline.numbers() == [0]
    assert len(list(keyed.timeline.numbers_path.glob("*.taken"))) == 1


def test_rows_that_come_and_go_within_one_commit_leave_no_file_behind(tmp_path: Path) -> None:
    lake = HudiLake(BY_NUMBER, tmp_path)
    lake.commit(
        lake.put((1, "a", "x"), (2, "b", "x"), chunk=1), lake.batch([(1, None, None)], deleted=[True], met=[True])
    )
    assert lake.read() == Counter([(2, "b", "x")])
    # Hudi looks at names alone: a file of a committed instant is in the table.
    assert {path.name for path in lake.folder.glob("*.parquet")} == set(lake.state.files)
    lake.commit(lake.batch([(2, None, None)], deleted=[True], met=[True]))
    assert (lake.read(), lake.state.files) == (Counter(), {}), "a file without rows leaves the table"


def test_every_kind_of_value_is_stored_and_given_back_to_updates_that_lack_it(tmp_path: Path) -> None:
    lake = HudiLake(EVERY_KIND, tmp_path)
    lake.commit(lake.put(*KEPT_ROWS))
    expected = sorted(row_texts(EVERY_KIND, batch_of(EVERY_KIND, KEPT_ROWS)).to_pylist())
    assert lake.texts() == expected
    named, count = EVERY_KIND.columns[1:], len(KEPT_ROWS)
    bare = [(number, *(None for _ in named)) for number in range(count)]
    missing = pa.RecordBatch.from_arrays([pa.array([True] * count)] * len(named), names=[one.name for one in named])
    lake.commit(lake.batch(bare, deleted=[False] * count, met=[True] * count, missing=missing))
    assert lake.texts() == expected


def test_a_table_is_read_in_parts_by_whoever_it_is_handed_to(tmp_path: Path) -> None:
    lake = HudiLake(KEYLESS, tmp_path)
    for number in range(3):
        lake.commit(lake.copies(Counter({("a", f"{number}"): 2})))
    before = lake.state.instant
    lake.commit(lake.copies(Counter({("a", "0"): -1})))
    found = pickle.loads(pickle.dumps(HudiTable("keyless", str(lake.folder), text_of(lake.state.instant))))
    assert found.schema.names == ["name", "body"], "without the hash of its rows"
    assert found.parts == 3
    parts = [row["body"] for part in range(2) for one in found.batches(part=part, of=2) for row in one.to_pylist()]
    assert sorted(parts) == sorted(found.arrow().column("body").to_pylist()) == ["0", "1", "1", "2", "2"]
    assert HudiTable("keyless", str(lake.folder), text_of(before)).arrow().num_rows == 6


# ---- the timeline ---------------------------------------------------------------------------------------------------


def test_of_two_who_take_one_number_one_succeeds_and_the_other_shows_nothing(tmp_path: Path) -> None:
    lake = HudiLake(BY_NUMBER, tmp_path)
    first, second = (
        replace(lake.state, instant=lake.timeline.reserve(lake.state.instant), epoch=epoch) for epoch in (2, 3)
    )
    lake.timeline.put(1, first, lake.state)
    for number in (1, 3):
        with pytest.raises(NumberTaken):
            lake.timeline.put(number, second, lake.state)
    assert lake.timeline.head() == (1, first)
    assert not lake.timeline.has(second.instant)
    assert list(lake.timeline.numbers_path.glob(".*")) == []


def test_an_instant_that_is_gone_and_a_commit_of_somebody_else_are_refused_by_name(tmp_path: Path) -> None:
    lake = HudiLake(BY_NUMBER, tmp_path)
    with pytest.raises(Refused, match="instant 00000000000000007 .* is gone"):
        lake.timeline.at(7)
    lake.timeline.commit_file(8).write_text("{}")
    with pytest.raises(Refused, match="commit of somebody else"):
        lake.timeline.at(8)


def test_hudi_s_clients_read_the_key_and_the_version_of_a_table(tmp_path: Path) -> None:
    lake = HudiLake(BY_TEXT, tmp_path)
    said = dict(line.split("=", 1) for line in (lake.folder / ".hoodie" / "hoodie.properties").read_text().splitlines())
    assert said["hoodie.table.recordkey.fields"] == "code,id"
    assert (said["hoodie.table.name"], said["hoodie.table.version"]) == ("by_text", "6")
    assert (plain_name("größe 1"), plain_name("1a")) == ("gr__e_1", "_1a")


# ---- types ----------------------------------------------------------------------------------------------------------


def test_the_avro_schema_says_the_type_of_each_column_and_comes_back_as_that_of_the_files(tmp_path: Path) -> None:
    at = Column("at", Kind.DATETIME, "timestamp(6)", precision=6)
    money = Column("money", Kind.DECIMAL, "numeric(9,2)", precision=9, scale=2)
    table = Table("t", (replace(ID, nullable=True), at, money))
    fields = {one["name"]: one["type"] for one in json.loads(avro_schema(table))["fields"]}
    assert fields["id"] == ["null", "long"]
    assert fields["at"][1] == {"type": "long", "logicalType": "local-timestamp-micros"}
    assert (fields["money"][1]["size"], fields["money"][1]["scale"]) == (4, 2)
    assert fields["seamline_row_hash"] == "bytes"
    for one in (table, EVERY_KIND):
        assert arrow_schema(avro_schema(one)).equals(storage_schema(one))
    pq.write_table(storage_schema(table).empty_table(), tmp_path / "t.parquet")
    calendar = pq.read_metadata(tmp_path / "t.parquet").metadata[b"org.apache.spark.version"]
    assert calendar.startswith(b"3"), "Spark reads old dates of files by this"
    with pytest.raises(Refused, match="Avro type"):
        arrow_schema(json.dumps({"fields": [{"name": "a", "type": {"type": "map", "values": "int"}}]}))
