"""What an Iceberg table stores of each kind comes back as it was, by way of a Parquet file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.sinks.iceberg.types import (
    iceberg_schema,
    stored,
    typed,
)
from seamline.sinks.lake.identity import HASH_BYTES, ROW_HASH, identities
from seamline.values.build import batch_of, values_of
from seamline.values.digest import row_texts
from seamline.values.special import special_mask
from tests.contract.every_kind import VALUES

# A key of each kind that is identified by its hash, and one by its value.
KEYS = [column for column in VALUES if column.kind in (Kind.INTEGER, Kind.STRING, Kind.UUID, Kind.DECIMAL)]


@pytest.mark.parametrize("column", VALUES, ids=lambda column: f"{column.name} {column.source_type}")
def test_every_value_of_every_kind_comes_back(column: Column, tmp_path: Path) -> None:
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


def test_a_table_without_a_key_has_a_hash_for_each_row_and_equal_rows_have_one() -> None:
    table = Table("t", (Column("a", Kind.FLOAT, "float"), Column("b", Kind.STRING, "text")))
    rows = batch_of(table, [(0.5, "x"), (0.5, "x"), (0.25, "x"), (None, "x"), (0.5, "X")])
    assert iceberg_schema(table).find_field(ROW_HASH).required
    found = stored(table, rows).column(ROW_HASH).to_pylist()
    assert all(len(one) == HASH_BYTES for one in found)
    assert found[0] == found[1]
    assert len(set(found)) == 4, "also where a float alone differs, which the digest of MariaDB's leaves out"


@pytest.mark.parametrize("column", KEYS, ids=lambda column: f"{column.name} {column.source_type}")
def test_a_key_tells_rows_apart_also_where_the_batch_holds_nothing_else(column: Column) -> None:
    beside = Column("beside", Kind.STRING, "text")
    key = Column(column.name, column.kind, column.source_type, False, column.length, column.precision, column.scale)
    table = Table("t", (beside, key), (key.name,))
    values = [value for value in VALUES[column] if value is not None]
    whole = batch_of(table, [("x", value) for value in values])
    alone = pa.RecordBatch.from_arrays([whole.column(1)], names=[key.name])
    found = identities(table, whole)
    assert found.equals(identities(Table("t", (key,), (key.name,)), alone))
    assert len(found.unique()) == len(row_texts(Table("t", (key,)), alone).unique())
