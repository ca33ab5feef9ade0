"""Partitions and orders as a declaration says them: what is meant, what is refused with its line, where rows go."""

from pathlib import Path

import pyarrow as pa
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import ConfigError
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.ports import Survey
from seamline.sinks.iceberg.layout import Ordered, Partitioned, TableLayout
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.partitions import Division, order_of, spec_of
from seamline.sinks.iceberg.types import iceberg_schema, stored
from seamline.spec.load import load_declarations
from seamline.values.build import batch_of
from tests.unit.declared import write_declarations
from tests.unit.test_iceberg_kind import FILE, LAKE, WITHOUT_CUTS

ENTRY = Table(
    "ledger_entry",
    (
        Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("currency", Kind.STRING, "char(3)"),
        Column("amount", Kind.DOUBLE, "double precision"),
        Column("booked_at", Kind.DATETIME, "timestamp", precision=6),
        Column("currency_trunc", Kind.INTEGER, "int", length=32),
    ),
    ("id",),
)
WRITTEN = f"""{LAKE}write: spark
tables:
  - name: ledger_entry
    partitioned_by: [days(booked_at), "bucket(4, id)"]
    sorted_by: [currency, id desc]
"""


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("currency", Partitioned("identity", "currency")),
        (" a name with blanks ", Partitioned("identity", "a name with blanks")),
        ("bucket(16, id)", Partitioned("bucket", "id", 16)),
        ("TRUNCATE( 4 ,name )", Partitioned("truncate", "name", 4)),
        ("days(booked_at)", Partitioned("day", "booked_at")),
        ("day(booked_at)", Partitioned("day", "booked_at")),
    ],
)
def test_a_partition_is_what_spark_s_ddl_means_by_it(text: str, meant: Partitioned) -> None:
    assert Partitioned.parse(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("id", Ordered("id")),
        ("id ASC", Ordered("id")),
        ("id desc", Ordered("id", is_descending=True, are_nulls_first=False)),
        ("id desc nulls first", Ordered("id", is_descending=True)),
        ("a name NULLS LAST", Ordered("a name", are_nulls_first=False)),
    ],
)
def test_an_order_is_what_spark_s_ddl_means_by_it(text: str, meant: Ordered) -> None:
    assert Ordered.parse(text) == meant


def test_a_declared_layout_is_in_the_plan(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, {FILE: WRITTEN, "syncs/settlement.yaml": WITHOUT_CUTS})
    plan = plan_from_json(plan_to_json(compile_plan(load_declarations(folder), "settlement")))
    options = options_of(plan.destinations[0])
    assert (options.write, options.format_version) == ("spark", 2)
    assert options.layout("account") == TableLayout()
    schema = iceberg_schema(ENTRY)
    assert str(spec_of(options.layout("ledger_entry"), schema)) == (
        "[\n  1000: booked_at_day: day(4)\n  1001: id_bucket: bucket[4](1)\n]"
    )
    assert str(order_of(options.layout("ledger_entry"), schema)) == ("[\n  2 ASC NULLS FIRST\n  1 DESC NULLS LAST\n]")


def test_partitions_by_values_are_written_natively_too(tmp_path: Path) -> None:
    by_value = WRITTEN.replace("write: spark", "write: native").replace(
        'days(booked_at), "bucket(4, id)"', "currency, id"
    )
    files = {FILE: by_value.replace("    sorted_by: [currency, id desc]\n", ""), "syncs/settlement.yaml": WITHOUT_CUTS}
    plan = compile_plan(load_declarations(write_declarations(tmp_path, files)), "settlement")
    options = options_of(plan.destinations[0])
    assert (options.write, options.layout("ledger_entry").is_by_values) == ("native", True)
    ordered = {**files, FILE: by_value}
    with pytest.raises(ConfigError, match="by the values of columns, and no order, as table ledger_entry"):
        load_declarations(write_declarations(tmp_path, ordered))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "write: spark",
            "write: native",
            r"yaml:8  tables: `write: native` writes partitions by the values of columns, and no order",
        ),
        ("days(", "weeks(", r"yaml:10  tables\[0\].partitioned_by\[0\]: 'weeks\(booked_at\)' is none of `column`"),
        ("bucket(4", "bucket(0", r"yaml:10  tables\[0\].partitioned_by\[1\]: 0 is no number of buckets"),
        (
            '"bucket(4, id)"',
            '"bucket(4, id)", "bucket(8, id)"',
            r"yaml:10  tables\[0\].partitioned_by: `bucket\(4, id\)` and another partition would both be called",
        ),
        ("tables:", "tables:\n  - {name: ledger_entry}", r"yaml:8  tables: table ledger_entry stands here twice"),
        ("[currency,", "['',", r"yaml:11  tables\[0\].sorted_by\[0\]: '' is none of `column`"),
        ("ledger_entry", "ledger_entri", r"yaml:9  tables\[0\].name: no sync brings a table `ledger_entri` to"),
    ],
)
def test_what_nobody_can_mean_is_refused_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    files = {FILE: WRITTEN.replace(old, new), "syncs/settlement.yaml": WITHOUT_CUTS}
    with pytest.raises(ConfigError, match=said):
        load_declarations(write_declarations(tmp_path, files))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("days(booked_at)", "days(booked)", "table ledger_entry has no column booked. It has id, currency, amount"),
        ("days(booked_at)", "days(id)", "column id is bigint, which cannot have the partition `day`. It can have"),
        ("days(booked_at)", "amount", "column amount is double precision, which cannot have the partition `identity`"),
        ('"bucket(4, id)"', '"truncate(4, id)"', "column id is bigint, which cannot have the partition `truncate`"),
        (
            '"bucket(4, id)"',
            '"truncate(4, currency)"',
            "table ledger_entry has a column currency_trunc, as the partition would be called",
        ),
        ("[currency,", "[currencies,", "table ledger_entry has no column currencies"),
    ],
)
def test_what_the_source_denies_is_refused_with_its_line_once_the_source_was_read(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    files = {FILE: WRITTEN.replace(old, new), "syncs/settlement.yaml": WITHOUT_CUTS}
    declarations = load_declarations(write_declarations(tmp_path, files))
    account = Table("account", (Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),), ("id",))
    with pytest.raises(ConfigError) as refused:
        compile_plan(declarations, "settlement", Survey((account, ENTRY)))
    assert said in str(refused.value)
    assert "destinations/warehouse.yaml:1" in str(refused.value)


def test_rows_are_divided_by_their_partitions_and_ordered_within() -> None:
    layout = TableLayout.of({"partitioned_by": ["currency"], "sorted_by": ["id desc"]})
    rows = batch_of(ENTRY, [(1, "EUR", None, None, 1), (2, None, None, None, 1), (3, "EUR", None, None, 1)])
    parts = list(Division(ENTRY, layout).parts(stored(ENTRY, rows)))
    assert [part.column("id").to_pylist() for part in parts] == [[3, 1], [2]]
    assert sum(part.num_rows for part in parts) == pa.Table.from_batches([rows]).num_rows
