"""The schema of a Hudi table as Avro, and rows as they lie in its files. Its types are Spark's: `lake.spark_types`."""

import json
import re
from typing import Any

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused
from seamline.sinks.lake.spark_types import (
    NTZ,
    Field,
    arrow_fields,
    decimal_digits,
    fields_of,
    stored_as,
    typed,
    typed_column,
)

__all__ = ["arrow_schema", "avro_schema", "plain_name", "storage_schema", "stored", "typed", "typed_column"]

# Spark asks of a file with old dates or moments by which calendar they were written. A file that names Spark 3 or later
# and no legacy mode is by the calendar of today, as Arrow's are.
_CALENDAR = {"org.apache.spark.version": "3.5.7"}
_ODD = re.compile(r"[^A-Za-z0-9_]")
_AVRO: dict[str, Any] = {
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "binary": "bytes",
    "string": "string",
    "date": {"type": "int", "logicalType": "date"},
    NTZ: {"type": "long", "logicalType": "local-timestamp-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
}
_NAMES = {json.dumps(of): name for name, of in _AVRO.items()}


def plain_name(name: str) -> str:
    """A name as Avro takes it: of a table, which nobody looks up by it."""
    plain = _ODD.sub("_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain


def avro_schema(table: Table) -> str:
    """As each commit of the table says it."""
    record = plain_name(table.name)
    fields = [_avro_field(one, f"hoodie.{record}") for one in fields_of(table)]
    schema = {"type": "record", "name": f"{record}_record", "namespace": f"hoodie.{record}", "fields": fields}
    return json.dumps(schema, ensure_ascii=False)


def arrow_schema(schema: str) -> pa.Schema:
    """Of a table's Avro schema. Refused: it holds a type that no sync writes."""
    return arrow_fields(_field_of(one) for one in json.loads(schema)["fields"])


def storage_schema(table: Table) -> pa.Schema:
    """The Arrow schema of the Parquet files."""
    return arrow_fields(fields_of(table)).with_metadata(_CALENDAR)


def stored(table: Table, rows: pa.RecordBatch) -> pa.Table:
    """Rows of the typed form as they lie in the table's Parquet files."""
    return stored_as(storage_schema(table), table, rows)


def _avro_field(field: Field, namespace: str) -> dict[str, Any]:
    of = _AVRO.get(field.of) or _avro_decimal(field, namespace)
    return {"name": field.name, "type": ["null", of], "default": None} if field.nullable else _required(field, of)


def _required(field: Field, of: Any) -> dict[str, Any]:
    return {"name": field.name, "type": of}


def _avro_decimal(field: Field, namespace: str) -> dict[str, Any]:
    precision, scale = decimal_digits(field.of)
    # As many bytes as hold the digits and a sign.
    size = ((10**precision - 1).bit_length() + 1 + 7) // 8
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": f"{namespace}.{plain_name(field.name)}",
        "size": size,
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }


def _field_of(field: dict[str, Any]) -> Field:
    of = field["type"]
    nullable = isinstance(of, list)
    if nullable:
        of = next(one for one in of if one != "null")
    if isinstance(of, dict) and of.get("logicalType") == "decimal":
        return Field(field["name"], f"decimal({of['precision']},{of['scale']})", nullable)
    name = _NAMES.get(json.dumps(of))
    if name is None:
        raise Refused(f"a column of the Avro type {of} was made by somebody else", hint="onboard the sync again")
    return Field(field["name"], name, nullable)
