"""The columns that the schema of a message of Debezium's says. Pure.

By the names that its connectors document for the types of databases (debezium.io/documentation/reference, "Data type
mappings"), and the types of Connect's JsonConverter.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from seamline.domain.catalogue import Kind
from seamline.sources.kafka.layout import TopicTable
from seamline.sources.kafka.rows import Fields

DECIMAL = "org.apache.kafka.connect.data.Decimal"
_DIGITS_MAX = 38
_NAMED: Mapping[str, str] = MappingProxyType(
    {
        "io.debezium.time.Date": "date",
        "org.apache.kafka.connect.data.Date": "date",
        "io.debezium.time.Timestamp": "datetime(3)",
        "org.apache.kafka.connect.data.Timestamp": "datetime(3)",
        "io.debezium.time.MicroTimestamp": "datetime",
        "io.debezium.time.NanoTimestamp": "datetime",
        "io.debezium.time.ZonedTimestamp": "instant",
        "io.debezium.time.Time": "time(3)",
        "org.apache.kafka.connect.data.Time": "time(3)",
        "io.debezium.time.MicroTime": "time",
        "io.debezium.time.NanoTime": "time",
        "io.debezium.data.Uuid": "uuid",
    }
)
_PLAIN: Mapping[str, str] = MappingProxyType(
    {
        "int8": "smallint",
        "int16": "smallint",
        "int32": "integer",
        "int64": "bigint",
        "float": "float",
        "double": "double",
        "boolean": "boolean",
        "string": "text",
        "bytes": "bytes",
    }
)


class SaidColumn(NamedTuple):
    """`type`: as a declaration writes it."""

    name: str
    type: str
    is_nullable: bool


def columns_in(fields: Sequence[Fields]) -> tuple[SaidColumn, ...]:
    """ValueError: no type of a declaration is that of a column."""
    return tuple(SaidColumn(one["field"], _type(one), bool(one.get("optional", False))) for one in fields)


def fields_of(schema: Fields, image: str) -> Sequence[Fields]:
    """Of `before` or `after` in the schema of an envelope; none where it does not say them."""
    found: Any = next((one.get("fields", ()) for one in schema.get("fields", ()) if one.get("field") == image), ())
    return list(found)


def departures(fields: Sequence[Fields], table: TopicTable) -> Iterator[str]:
    """In what the schema of a whole row is not what the table is declared to be."""
    names = {one["field"] for one in fields}
    declared = {column.name: column for column in table.definition.columns}
    if unknown := sorted(names - table.known):
        yield f"it has column {', '.join(unknown)}"
    if not table.is_absent_null and (gone := [name for name in declared if name not in names]):
        yield f"it has no column {', '.join(gone)}"
    for one in fields:
        column = declared.get(one["field"])
        if column is not None and column.kind is Kind.DECIMAL and one.get("name") == DECIMAL:
            scale = int(one["parameters"]["scale"])
            if scale > column.scale:
                yield f"column {column.name} has {scale} decimals, declared {column.scale}"


def _type(field: Fields) -> str:
    name, plain = str(field.get("name", "")), str(field.get("type", ""))
    if name == DECIMAL:
        said = field["parameters"]
        scale = int(said["scale"])
        # Connectors say the digits beside; the schema itself needs the decimals alone.
        digits = int(said.get("connect.decimal.precision", _DIGITS_MAX))
        return f"decimal({max(digits, scale, 1)},{scale})"
    found = _NAMED.get(name) or _PLAIN.get(plain)
    if found is None:
        raise ValueError(f"column {field.get('field')} is of type {plain}{f' ({name})' if name else ''}")
    return found
