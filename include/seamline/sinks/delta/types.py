"""The schema of a Delta table, and rows as they lie in its files. Its types are Spark's: `lake.spark_types`."""

import json

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.sinks.lake.spark_types import NTZ, Field, arrow_fields, fields_of, stored_as, typed, typed_column

__all__ = ["NTZ", "arrow_schema", "arrow_type", "delta_schema", "storage_schema", "stored", "typed", "typed_column"]


def delta_schema(table: Table) -> str:
    """The schema of a table as its metadata holds it: JSON."""
    fields = [{"name": one.name, "type": one.of, "nullable": one.nullable, "metadata": {}} for one in fields_of(table)]
    return json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False)


def arrow_schema(schema: str) -> pa.Schema:
    """Of a table's schema in JSON. Refused: it holds a type that no sync writes."""
    return arrow_fields(Field(one["name"], one["type"], one["nullable"]) for one in json.loads(schema)["fields"])


def arrow_type(name: str) -> pa.DataType:
    """Of a type by its name in a schema, also one that no sync writes. Refused: it has no values by themselves."""
    if name in ("byte", "short"):
        return pa.int32()
    return arrow_fields([Field("", name, nullable=True)]).field(0).type


def storage_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the Parquet files."""
    return arrow_fields(fields_of(table))


def stored(table: Table, rows: pa.RecordBatch) -> pa.Table:
    """Rows of the typed form as they lie in the table's Parquet files."""
    return stored_as(storage_schema(table), table, rows)
