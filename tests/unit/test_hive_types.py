"""What a Hive table stores of each kind comes back as it was, by way of a Parquet file."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.sinks.hive.types import hive_columns, stored, typed
from seamline.values.build import batch_of, values_of
from seamline.values.digest import row_texts
from seamline.values.special import special_mask
from tests.contract.every_kind import VALUES


@pytest.mark.parametrize("column", VALUES, ids=lambda column: f"{column.name} {column.source_type}")
def test_every_value_of_every_kind_comes_back_from_a_hive_table(column: Column, tmp_path: Path) -> None:
    table = Table("t", (column,))
    rows = batch_of(table, [(value,) for value in (*VALUES[column], None)])
    try:
        pq.write_table(stored(table, rows), tmp_path / "t.parquet")
    except SchemaConflict as refused:
        assert refused.table == "t"
        assert column.name in str(refused)
        assert special_mask(column, rows.column(0)).true_count
        return
    (batch,) = pq.ParquetFile(tmp_path / "t.parquet").iter_batches()
    found = typed(table, batch)
    assert row_texts(table, found).equals(row_texts(table, rows))
    assert found.schema.equals(rows.schema, check_metadata=True)
    assert repr(values_of(column, found.column(0))) == repr(values_of(column, rows.column(0)))


def test_hive_s_types_say_all_digits_and_names_are_in_lower_case() -> None:
    columns = (
        Column("Id", Kind.INTEGER, "bigint", False, 64),
        Column("amount", Kind.DECIMAL, "decimal(38,4)", precision=38, scale=4),
        Column("wide", Kind.DECIMAL, "decimal(65,4)", precision=65, scale=4),
        Column("at", Kind.INSTANT, "timestamp"),
    )
    assert hive_columns(Table("t", columns, ("Id",))) == (
        ("id", "bigint"),
        ("amount", "decimal(38,4)"),
        ("wide", "string"),
        ("at", "timestamp"),
    )
