"""Rows of the typed form as they lie in Parquet files, staged ones and those for partners, and the way back.

Types are those of `sinks/lake/spark_types.py`, without the row hash of tables without a key.
"""

import pyarrow as pa

from seamline.domain.catalogue import Column, Kind, Table
from seamline.sinks.lake.columns import stored_column
from seamline.sinks.lake.spark_types import Field, arrow_fields, type_name, typed, typed_column
from seamline.values.arrow import schema_of
from seamline.values.digest import canonical_texts

__all__ = ["storage_schema", "stored", "typed", "typed_column"]


def storage_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the files, from which `values.arrow.table_of` reads the table again."""
    whole = schema_of(table)
    plain = arrow_fields(
        Field(column.name, type_name(column), column.nullable and column.name not in table.key)
        for column in table.columns
    )
    fields = [of.with_metadata(field.metadata) for of, field in zip(plain, whole, strict=True)]
    return pa.schema(fields, whole.metadata)


def stored(table: Table, rows: pa.RecordBatch) -> pa.Table:
    """Rows of the typed form as they lie in files."""
    schema = storage_schema(table)
    arrays = [_stored(table, column, values) for column, values in zip(table.columns, rows.columns, strict=True)]
    return pa.Table.from_arrays(
        [values.cast(field.type) for values, field in zip(arrays, schema, strict=True)], schema=schema
    )


def _stored(table: Table, column: Column, values: pa.Array) -> pa.Array:
    return canonical_texts(column, values) if column.kind is Kind.UUID else stored_column(table, column, values)
