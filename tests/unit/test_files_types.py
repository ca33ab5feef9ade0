"""What a Parquet file for a partner stores of each kind comes back as it was."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from seamline.domain.catalogue import Column, Table
from seamline.domain.errors import SchemaConflict
from seamline.sinks.files.table_files import schema_table
from seamline.sinks.files.types import stored, typed
from seamline.values.build import batch_of, values_of
from seamline.values.digest import row_texts
from seamline.values.special import special_mask
from tests.contract.every_kind import VALUES


@pytest.mark.parametrize("column", VALUES, ids=lambda column: f"{column.name} {column.source_type}")
def test_every_value_of_every_kind_comes_back_from_a_file(column: Column, tmp_path: Path) -> None:
    """Of a table without a key, too: a partner's file has the columns of the source and no other."""
    table, path = Table("t", (column,)), tmp_path / "t.parquet"
    rows = batch_of(table, [(value,) for value in (*VALUES[column], None)])
    try:
        pq.write_table(stored(table, rows), path)
    except SchemaConflict as refused:
        assert refused.table == "t"
        assert special_mask(column, rows.column(0)).true_count
        return
    (batch,) = pq.ParquetFile(path).iter_batches()
    assert batch.schema.names == [column.name]
    assert schema_table(path) == table
    found = typed(table, batch)
    assert row_texts(table, found).equals(row_texts(table, rows))
    assert repr(values_of(column, found.column(0))) == repr(values_of(column, rows.column(0)))
