"""Tables of databases as people read them: columns, parts, and what is refused."""

import pickle
import random
from collections.abc import Iterator
from datetime import date
from functools import partial

import pyarrow as pa
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import SchemaConflict
from seamline.kinds.reading import TableChanges
from seamline.plan.model import DestinationPlan
from seamline.sinks.lake.sql_table import SqlTable
from seamline.sinks.mysql.dialect import MYSQL
from seamline.sinks.postgres import cut_columns as postgres_columns
from seamline.sinks.postgres import stored_types as postgres_types
from seamline.sinks.relational import cut_columns, stored_types
from seamline.sinks.relational.reading import _view_of_cut
from seamline.sources.mariadb.position import BinlogPosition
from seamline.values.arrow import schema_of
from tests.log_topic import STREAM

ENTRY = Table(
    "entry",
    (
        Column("id", Kind.INTEGER, "bigint", length=64),
        Column("amount", Kind.DECIMAL, "numeric(18,2)", precision=18, scale=2),
    ),
    ("id",),
)


class Rows:
    """A view of rows that come in another order each time."""

    def __init__(self, table: Table, rows: dict[int, str]) -> None:
        self._table, self._rows = table, rows

    def key_span(self, table: str) -> tuple[int, int] | None:
        assert table == self._table.name
        return (min(self._rows), max(self._rows)) if self._rows else None

    def typed_rows(self, table: Table, segment: Segment) -> Iterator[pa.RecordBatch]:
        least = -(2**63) if segment.key_from is None else segment.key_from
        below = 2**63 if segment.key_below is None else segment.key_below
        keys = [key for key in self._rows if least <= key < below]
        random.shuffle(keys)
        amounts = pa.array([self._rows[key] for key in keys], pa.string()).cast(pa.decimal128(19, 2))
        yield pa.RecordBatch.from_arrays([pa.array(keys, pa.int64()), amounts], schema=schema_of(table))

    def close(self) -> None:
        return


def entry(rows: dict[int, str], *, counted: int | None = None, table: Table = ENTRY) -> SqlTable:
    return SqlTable(table, len(rows) if counted is None else counted, lambda: Rows(table, rows))


def test_parts_are_ranges_of_the_key_that_leave_nothing_out_and_overlap_nowhere() -> None:
    table = entry({key: f"{key}.25" for key in (-7, 0, 3, 4, 90, 10**15)}, counted=450_000)
    assert table.parts == 5
    for of in (1, 2, 5, 7):
        found = [batch for part in range(of) for batch in table.batches(part=part, of=of)]
        ids = pa.Table.from_batches(found, table.schema)["id"].to_pylist()
        assert sorted(ids) == [-7, 0, 3, 4, 90, 10**15]
    assert table.schema.types == [pa.int64(), pa.decimal128(18, 2)]


def test_a_table_without_a_number_as_its_key_is_one_part_and_one_without_rows_is_none() -> None:
    keyless = Table("entry", ENTRY.columns)
    assert entry({}).parts == 0
    assert entry({1: "1"}, counted=10**9).parts == 64
    table = entry({1: "1.00"}, counted=10**9, table=keyless)
    assert table.parts == 1
    assert [sum(batch.num_rows for batch in table.batches(part=part, of=2)) for part in (0, 1)] == [1, 0]


def test_what_differs_is_found_although_the_server_gives_rows_in_another_order_each_time() -> None:
    before = {key: "1.00" for key in range(500)}
    after = {**{key: "1.00" for key in range(10, 501)}, 77: "2.00"}
    found = TableChanges(entry(before), entry(after), key=("id",)).arrow().to_pylist()
    words = [(row["cut_change"], row["id"], str(row["amount"])) for row in found]
    assert sorted(words) == sorted(
        [("added", 500, "1.00"), ("changed_to", 77, "2.00"), ("changed_from", 77, "1.00")]
        + [("removed", key, "1.00") for key in range(10)]
    )


def test_a_number_that_is_none_is_refused_by_its_column() -> None:
    with pytest.raises(SchemaConflict, match="column amount") as refused:
        # What stands for NaN in the typed form.
        entry({1: "10000000000000000.00"}).arrow()
    assert "SQL" in refused.value.hint


def test_what_a_task_is_given_names_a_connection_and_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAMLINE_CONNECTION_WAREHOUSE", "mysql://reader:secret-of-a-bank@127.0.0.1:3306")
    destination = DestinationPlan("copy", "mysql", "warehouse", "settlement")
    cut, position = (date(2026, 3, 5), 1), BinlogPosition("0-1-7")
    opening = partial(_view_of_cut, destination, STREAM, cut, position, ENTRY, ("settlement_cut", "entry"), MYSQL)
    sent = pickle.dumps(SqlTable(ENTRY, 5, opening))
    assert b"secret-of-a-bank" not in sent
    assert b"warehouse" in sent
    assert pickle.loads(sent).schema == SqlTable(ENTRY, 5, opening).schema


def postgres(*types: str) -> list[pa.DataType]:
    stored = {f"c{n}": postgres_columns.StoredColumn(one, is_required=False) for n, one in enumerate(types)}
    return SqlTable(Table("t", postgres_types.columns_of(stored)), 0, lambda: Rows(ENTRY, {})).schema.types


def mariadb(*types: tuple[str, str]) -> list[pa.DataType]:
    stored = {f"c{n}": cut_columns.StoredColumn(f"c{n}", *one) for n, one in enumerate(types)}
    return SqlTable(Table("t", stored_types.columns_of(stored)), 0, lambda: Rows(ENTRY, {})).schema.types


def test_columns_of_postgresql_have_the_types_of_a_lake() -> None:
    text = pa.large_string()
    assert postgres("smallint", "bigint", "numeric(18,2)", "numeric(20,0)", "numeric", "numeric(50,4)") == [
        pa.int32(), pa.int64(), pa.decimal128(18, 2), pa.decimal128(20, 0), text, text,
    ]  # fmt: skip
    assert postgres("timestamp(6) without time zone", "timestamp(3) with time zone", "time(6) without time zone") == [
        pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.int64(),
    ]  # fmt: skip
    assert postgres('character varying(34) COLLATE "C"', "text", "uuid", "jsonb", "inet", "interval") == [text] * 6
    assert postgres("boolean", "date", "real", "double precision", "bytea") == [
        pa.bool_(), pa.date32(), pa.float32(), pa.float64(), pa.large_binary(),
    ]  # fmt: skip


def test_columns_of_mariadb_have_the_types_of_a_lake() -> None:
    text = pa.large_string()
    letters = " COLLATE utf8mb4_nopad_bin"
    assert mariadb(("smallint(6)", "smallint"), ("bigint(20) unsigned", "bigint"), ("tinyint(1)", "tinyint")) == [
        pa.int32(), pa.decimal128(20, 0), pa.bool_(),
    ]  # fmt: skip
    assert mariadb(("decimal(18,2)", "decimal"), ("decimal(50,4)", "decimal"), ("datetime(6)", "datetime")) == [
        pa.decimal128(18, 2), text, pa.timestamp("us"),
    ]  # fmt: skip
    assert mariadb((f"varchar(34){letters}", "varchar"), (f"longtext{letters}", "longtext"), ("uuid", "uuid")) == [
        text, text, text,
    ]  # fmt: skip
    assert mariadb(("time(6)", "time"), ("year(4)", "year"), ("varbinary(8)", "varbinary"), ("date", "date")) == [
        pa.int64(), pa.int32(), pa.large_binary(), pa.date32(),
    ]  # fmt: skip
