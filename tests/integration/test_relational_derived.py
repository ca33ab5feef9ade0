"""Derived tables in a real MariaDB and MySQL: every group and digit arrives, and what differs is listed."""

import pyarrow as pa
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.domain.verdict import BreakType, Verdict
from seamline.kinds.derived import StagedPart, derived_table, frame_schema
from seamline.plan.model import DerivedTablePlan
from seamline.ports import Load
from seamline.sinks.relational.kind import RelationalKind
from tests.integration.relational_cuts import DESTINATION, Sql
from tests.integration.relational_cuts import kind as kind
from tests.integration.relational_cuts import server as server
from tests.integration.relational_cuts import sql as sql

ENTRY = Table(
    "entry",
    (
        Column("account_id", Kind.INTEGER, "bigint", length=64),
        Column("memo", Kind.STRING, "varchar(40)", length=40),
        Column("day", Kind.DATE, "date"),
        Column("amount", Kind.DECIMAL, "decimal(20,4)", precision=20, scale=4),
        Column("mark", Kind.BYTES, "varbinary(9)", length=9),
    ),
)
BY_MEMO = DerivedTablePlan("by_memo", "entry", "amount", ("memo", "day"))
BASE = Load(ENTRY, "e", 5)


@pytest.fixture
def staged(kind: RelationalKind, sql: Sql) -> Sql:
    sql.execute(
        "CREATE TABLE cuts_stage.e (account_id bigint, memo varchar(40), day date, amount decimal(20,4),"
        f" mark varbinary(9)) COLLATE {kind.dialect.collation}"
    )
    sql.execute(
        "INSERT INTO cuts_stage.e VALUES (1, 'a', '2026-03-05', 1.0001, 'x'), (1, 'a', '2026-03-05', 2.0002, 'x'),"
        " (2, 'A ', '2026-03-05', 9999999999999999.9999, 'x'), (2, '工资', NULL, -3, 'x'), (3, NULL, NULL, 0.5, 'x')"
    )
    return sql


def summed(kind: RelationalKind) -> pa.Table:
    """As Spark's tasks do it."""
    columns = [ENTRY.column(name) for name in (*BY_MEMO.by, BY_MEMO.column)]
    (part,) = kind.staged_parts(DESTINATION, BASE, parts_max=4)
    rows = pa.Table.from_batches(kind.read_staged(DESTINATION, BASE, columns, part), frame_schema(columns))
    groups = rows.group_by(list(BY_MEMO.by)).aggregate([("amount", "sum")]).rename_columns([*BY_MEMO.by, "amount"])
    return groups.set_column(2, "amount", groups["amount"].cast(pa.decimal128(38, 4)))


def test_a_derived_table_equals_the_sums_of_its_rows_to_the_last_digit(kind: RelationalKind, staged: Sql) -> None:
    made = kind.stage_derived(DESTINATION, derived_table(BY_MEMO, ENTRY), summed(kind), run_id="r1")
    found = kind.compare_derived(DESTINATION, BY_MEMO, base=BASE, made=made, position="p")
    assert (found.verdict, found.source_rows, found.destination_rows) == (Verdict.MATCH, 4, 4)
    place = f"cuts_stage.`{made.staged_as}`"
    staged.execute(f"UPDATE {place} SET amount = amount + 0.0001 WHERE memo = '工资'")
    staged.execute(f"DELETE FROM {place} WHERE memo = 'A '")
    wrong = kind.compare_derived(DESTINATION, BY_MEMO, base=BASE, made=made, position="p")
    assert wrong.verdict is Verdict.BREAK
    assert {(one.type, one.key) for one in wrong.breaks} == {
        (BreakType.VALUE, '{"memo": "工资", "day": null}'),
        (BreakType.MISSING, '{"memo": "A ", "day": "2026-03-05"}'),
    }


def test_what_a_job_has_made_is_read_back_as_it_was_staged(kind: RelationalKind, staged: Sql) -> None:
    columns = (
        Column("memo", Kind.STRING, "string"),
        Column("is_open", Kind.BOOLEAN, "boolean"),
        Column("day", Kind.DATE, "date"),
        Column("at", Kind.INSTANT, "timestamp", precision=6),
        Column("written", Kind.DATETIME, "timestamp_ntz", precision=6),
    )
    rows = [
        ("工资", "1", "2024-02-29", "2026-03-29 01:00:00.5", "1969-12-31 23:59:59"),
        ("", "0", "9999-12-31", "2026-03-29 02:00:00", "2026-03-29 02:30:00"),
        (None,) * 5,
    ]
    schema = frame_schema(columns)
    table = pa.Table.from_arrays([pa.array(list(one), pa.string()) for one in zip(*rows, strict=True)], schema=schema)
    made = kind.stage_derived(DESTINATION, Table("job", columns), table, run_id="r1")
    read = pa.Table.from_batches(kind.read_derived(DESTINATION, made), schema).to_pylist()
    assert {tuple(row.values()) for row in read} == {
        ("工资", "1", "2024-02-29", "2026-03-29 01:00:00.500000", "1969-12-31 23:59:59.000000"),
        ("", "0", "9999-12-31", "2026-03-29 02:00:00.000000", "2026-03-29 02:30:00.000000"),
        (None,) * 5,
    }


def test_a_repeat_of_the_run_leaves_one_derived_table(kind: RelationalKind, staged: Sql) -> None:
    table, rows = derived_table(BY_MEMO, ENTRY), summed(kind)
    first, second = (kind.stage_derived(DESTINATION, table, rows, run_id="r1") for _ in range(2))
    names = {name for (name,) in staged.execute("SHOW TABLES FROM cuts_stage").fetchall()}
    assert second.staged_as in names
    assert first.staged_as not in names


def test_rows_are_grouped_by_no_bytes(kind: RelationalKind, staged: Sql) -> None:
    with pytest.raises(SchemaConflict, match="column mark of entry is varbinary"):
        list(kind.read_staged(DESTINATION, BASE, [ENTRY.column("mark")], StagedPart(0, None)))
