"""Delta tables of other writers, as a comparison without a ledger of ours reads them: by their logs alone, and what is
not understood is refused by name."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seamline.domain.catalogue import Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import Refused, SchemaConflict, TransientError
from seamline.plan.model import DestinationPlan
from seamline.ports.separate import OpenedSide
from seamline.sinks.delta.log import DeltaLog
from seamline.sinks.delta.separate import DeltaSide, newest_of_others
from tests.unit.delta_of_others import FIELDS, Written


def side(warehouse: Path) -> DeltaSide:
    at = DestinationPlan(name="copy", kind="delta", connection="unused", namespace="bank")
    return DeltaSide(replace(at, options=(("warehouse", str(warehouse)),)))


def rows(ids: Sequence[int | None], **more: Any) -> pa.Table:
    moments = [datetime(2500, 3, 1, 10, 0, 0, 1, UTC)] * len(ids)
    known = {"id": pa.array(ids, pa.int16()), "amount": pa.array(["1.5000"] * len(ids)).cast(pa.decimal128(18, 4))}
    return pa.table({**known, "paid_at": pa.array(moments, pa.timestamp("us", tz="UTC")), **more})


def texts(opened: OpenedSide, table: Table) -> list[Mapping[str, str | None]]:
    hashes = opened.views[0].row_hashes(Segment(table.name), run_key="k")
    return [opened.views[0].rows(table.name, [one.key])[one.key] for one in hashes]


def keyed(found: Table) -> Table:
    return replace(found, key=("id",))


def test_a_table_with_partitions_and_a_later_column_is_read_at_its_newest_version(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.begin(partitions=["day"])
    written.commit(written.add(rows([1, 2]), day="2026-03-01"))
    written.commit(written.schema({**FIELDS, "memo": "string"}, partitions=["day"]))
    written.commit(written.add(rows([3], memo=["付款"]), day=""))
    survey = side(tmp_path).survey(["payment"])
    (table,) = survey.tables
    assert survey.problems == ()
    assert [(one.name, one.kind, one.length) for one in table.columns][:2] == [
        ("id", Kind.INTEGER, 32),
        ("amount", Kind.DECIMAL, 0),
    ]
    opened = side(tmp_path).open([keyed(table)], 1)
    assert opened.stand.place == "payment at version 3"
    moment = int(datetime(2500, 3, 1, 10, tzinfo=UTC).timestamp()) * 1_000_000 + 1
    one = {"amount": "1.5000", "paid_at": str(moment)}
    first = date(2026, 3, 1).isoformat()
    assert sorted(texts(opened, keyed(table)), key=lambda row: str(row["id"])) == [
        {"id": "1", **one, "day": first, "memo": None},
        {"id": "2", **one, "day": first, "memo": None},
        {"id": "3", **one, "day": None, "memo": "付款"},
    ]


def test_what_is_opened_stays_as_it_was_and_a_file_that_a_vacuum_took_is_no_match(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.begin({"id": "short", "amount": "decimal(18,4)", "paid_at": "timestamp"})
    added = written.add(rows([1]))
    written.commit(added)
    (table,) = side(tmp_path).survey(["payment"]).tables
    opened = side(tmp_path).open([keyed(table)], 1)
    written.commit({"remove": {"path": added["add"]["path"], "dataChange": True}})
    assert [row["id"] for row in texts(opened, keyed(table))] == ["1"]
    assert texts(side(tmp_path).open([keyed(table)], 1), keyed(table)) == []
    (written.folder / added["add"]["path"]).unlink()
    with pytest.raises(TransientError, match="cannot read table payment"):
        texts(opened, keyed(table))


@pytest.mark.parametrize(
    ("fields", "protocol", "said"),
    [
        ({"id": "long", "parts": {"type": "array"}}, {}, "column parts of table payment is array"),
        ({"id": "long", "v": "variant"}, {}, "column v of table payment is variant"),
        (FIELDS, {"minReaderVersion": 3, "readerFeatures": ["typeWidening"]}, "asks its readers for typeWidening"),
    ],
)
def test_what_is_not_understood_is_named(
    tmp_path: Path, fields: Mapping[str, object], protocol: Mapping[str, Any], said: str
) -> None:
    Written(tmp_path).begin(fields, **protocol)
    (problem,) = side(tmp_path).survey(["payment"]).problems
    assert said in problem.what and problem.table == "payment"


def test_partitions_by_moments_and_mapped_columns_are_refused(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.begin(partitions=["paid_at"])
    with pytest.raises(Refused, match="has partitions by paid_at, timestamp"):
        newest_of_others(written.folder)
    written.commit(written.schema(FIELDS, **{"delta.columnMapping.mode": "name"}))
    with pytest.raises(Refused, match=r"delta\.columnMapping\.mode = name"):
        newest_of_others(written.folder)


def test_a_log_whose_newest_checkpoint_cannot_be_read_is_never_taken_for_an_older_version(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.begin()
    for _ in range(3):
        written.commit({"commitInfo": {}})
    assert newest_of_others(written.folder).version == 3
    DeltaLog(written.folder).write_checkpoint(newest_of_others(written.folder))
    (written.log / f"{0:020d}.json").unlink()
    assert newest_of_others(written.folder).version == 3
    written.commit({"commitInfo": {}})
    written.commit({"commitInfo": {}})
    # Its writer has made a checkpoint of several parts and cleaned up what lies before it.
    (written.log / f"{4:020d}.json").unlink()
    with pytest.raises(Refused, match="nor from a checkpoint of one classic file"):
        newest_of_others(written.folder)
    for path in written.log.glob("*.checkpoint.parquet"):
        path.unlink()
    with pytest.raises(Refused, match="cannot be read from its beginning"):
        newest_of_others(written.folder)


def test_a_file_that_holds_what_its_schema_cannot_is_named_and_never_compared(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.begin({"id": "short", "amount": "decimal(10,2)", "paid_at": "timestamp"})
    written.commit(written.add(rows([1], amount=pa.array(["1.2345"]).cast(pa.decimal128(18, 4)))))
    (table,) = side(tmp_path).survey(["payment"]).tables
    with pytest.raises(SchemaConflict, match=r"column amount of part-0.parquet holds what its schema"):
        texts(side(tmp_path).open([keyed(table)], 1), keyed(table))


def test_a_table_that_is_not_there_is_named_with_one_that_is(tmp_path: Path) -> None:
    Written(tmp_path, "payments").begin()
    (problem,) = side(tmp_path).survey(["payment"]).problems
    assert "has no Delta log" in problem.what and problem.cure == "Did you mean `payments`?"


def damaged(file: Path, *, at: float) -> None:
    """From that part of it on."""
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * at)] + b"\xff" * (len(content) - int(len(content) * at)))


@pytest.mark.parametrize("at", [0.0, 0.9])
def test_a_damaged_data_file_is_named_with_its_table(at: float, tmp_path: Path) -> None:
    """It left as an error of Arrow, which names neither."""
    written = Written(tmp_path)
    written.begin({"id": "short", "amount": "decimal(18,4)", "paid_at": "timestamp"})
    added = written.add(rows([1, 2]))
    written.commit(added)
    (table,) = side(tmp_path).survey(["payment"]).tables
    damaged(written.folder / added["add"]["path"], at=at)
    with pytest.raises(Refused, match=rf"{added['add']['path']} of table payment is damaged: "):
        texts(side(tmp_path).open([keyed(table)], 1), keyed(table))


def test_a_page_that_was_cut_out_of_a_data_file_is_named_with_its_table(tmp_path: Path) -> None:
    """Arrow calls that an error of the system, and it was tried again for ever."""
    written = Written(tmp_path)
    written.begin({"id": "short", "amount": "decimal(18,4)", "paid_at": "timestamp"})
    added = written.add(rows(list(range(5000))))
    written.commit(added)
    (table,) = side(tmp_path).survey(["payment"]).tables
    file = written.folder / added["add"]["path"]
    content = file.read_bytes()
    file.write_bytes(content[:4] + b"\xff" * 64 + content[68:])
    with pytest.raises(Refused, match="of table payment is damaged: "):
        texts(side(tmp_path).open([keyed(table)], 1), keyed(table))


@pytest.mark.parametrize("name", [f"{1:020d}.json", f"{0:020d}.checkpoint.parquet"])
def test_a_damaged_log_is_a_problem_of_its_table_and_of_no_other(name: str, tmp_path: Path) -> None:
    for table in ("payment", "client"):
        written = Written(tmp_path, table)
        written.begin({"id": "short"})
    (written.log / name).write_text('{"add": {"path": ', encoding="utf-8")
    found = side(tmp_path).survey(["payment", "client"])
    assert [one.name for one in found.tables] == ["payment"]
    (problem,) = found.problems
    assert problem.table == "client" and name in problem.what and "of table client is damaged" in problem.what
