"""Tables as the source's own catalogue describes them. Types come from here, never from a reader's guess."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from seamline.domain.errors import SchemaConflict

# Of a name in PostgreSQL, which cuts longer ones without a word (NAMEDATALEN - 1).
NAME_BYTES_MAX = 63
# What a person does about a table that was altered.
PARK_IT = (
    "Write `parked: <why>` on the table in the sync's file and run `<sync>__tables`: the others go on, its rows are "
    "kept under another name, with their views and rights, and each report says that it is parked. Take `parked` out "
    "and run again: it is loaded with its new schema. A table that shall not come back is taken out of the list"
)


class Kind(StrEnum):
    """What a column holds, independent of any engine. One row per kind in every adapter's type table."""

    INTEGER = "integer"  # signed, at most 64 bits; `length` = bits
    UNSIGNED = "unsigned"  # 64 bits unsigned: needs 20 decimal digits
    DECIMAL = "decimal"  # exact; `precision`, `scale`
    FLOAT = "float"  # 32 bits
    DOUBLE = "double"  # 64 bits
    BOOLEAN = "boolean"  # one bit
    BITS = "bits"  # `length` bits, as an unsigned number
    CHAR = "char"  # fixed length: trailing spaces carry no meaning
    STRING = "string"  # varchar, text
    BINARY = "binary"  # fixed length, zero padded
    BYTES = "bytes"  # varbinary, blob
    DATE = "date"
    DATETIME = "datetime"  # no zone; `precision` = digits of the second's fraction
    INSTANT = "instant"  # a moment, UTC inside; `precision` as above
    TIME = "time"  # signed span of the day, beyond 24 h allowed; `precision` as above
    TIME_OF_DAY = "time_of_day"  # 00:00 to 24:00, no zone; `precision` as above
    INTERVAL = "interval"  # months, days and microseconds, each of its own
    YEAR = "year"
    ENUM = "enum"  # label text
    SET = "set"  # labels joined by commas
    JSON = "json"  # source text verbatim
    JSONB = "jsonb"  # parsed: order of keys, spaces and repeated keys carry no meaning
    UUID = "uuid"
    NATIVE = "native"  # of a type that only one engine has, named by `Column.native`; carried as the text it prints


# Kinds that hold a text as a person writes it.
TEXTS = frozenset({Kind.CHAR, Kind.STRING})


@dataclass(frozen=True, slots=True)
class Column:
    """`source_type` is the type as the source prints it, kept for messages and drift checks. `source_name`: what the
    source calls the column, where that is too long for a destination; "" where it is called `name` there too.

    `toastable`: the log of a PostgreSQL source may leave the value out of an update that did not change it.
    `native`: the source's own type, also of a domain over it, where the kind alone does not say how values are read.
    """

    name: str
    kind: Kind
    source_type: str
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    toastable: bool = False
    native: str = ""
    source_name: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the source. `key` is the primary key in its declared order; empty = keyless, kept as a multiset.

    `origin`: what the source's catalogue keeps of the table beside its schema; only its adapter writes and reads it.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    rows_estimate: int = 0
    origin: str = field(default="", compare=False)

    @property
    def is_keyed(self) -> bool:
        return bool(self.key)

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaConflict(f"table {self.name} has no column {name!r}", table=self.name)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        return tuple(self.column(name) for name in self.key)

    @property
    def begins_with_a_number(self) -> bool:
        """Whether its key does, whole: an incremental read has a bound by it."""
        return self.is_keyed and self.key_columns[0].kind in (Kind.INTEGER, Kind.UNSIGNED)


def table_to_json(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "key": list(table.key),
        "rows_estimate": table.rows_estimate,
        "origin": table.origin,
        "columns": [
            {
                "name": c.name,
                "kind": c.kind.value,
                "source_type": c.source_type,
                "nullable": c.nullable,
                "length": c.length,
                "precision": c.precision,
                "scale": c.scale,
                "toastable": c.toastable,
                **({"native": c.native} if c.native else {}),
                **({"source_name": c.source_name} if c.source_name else {}),
            }
            for c in table.columns
        ],
    }


def table_from_json(document: dict[str, Any]) -> Table:
    """The inverse of `table_to_json`."""
    columns = tuple(Column(**{**c, "kind": Kind(c["kind"])}) for c in document["columns"])
    return Table(
        document["name"],
        columns,
        tuple(document["key"]),
        document.get("rows_estimate", 0),
        document.get("origin", ""),
    )


def fingerprint(table: Table) -> str:
    """A short name of a schema: another one where `alterations` would find something.

    Ledgers keep it for years. So what goes into it is written out here: adding metadata to a column must not change
    its fingerprint.
    """
    columns = [
        [c.name, c.kind.value, c.source_type, c.nullable, c.length, c.precision, c.scale, c.toastable]
        + ([c.native] if c.native else [])
        for c in table.columns
    ]
    return hashlib.sha256(json.dumps([columns, list(table.key)]).encode()).hexdigest()[:16]


def alterations(planned: Table, found: Table) -> list[str]:
    """What was altered in the schema of a table, in words; [] where a value still means what it meant."""
    texts = []
    before = {column.name: column for column in planned.columns}
    after = {column.name: column for column in found.columns}
    texts += [f"{planned.name}.{name} was dropped or renamed" for name in before if name not in after]
    texts += [f"{planned.name}.{name} {after[name].source_type} is new" for name in after if name not in before]
    for name, old in before.items():
        new = after.get(name)
        if new is not None and new != old:
            texts.append(f"{planned.name}.{name} {_became(old, new)}")
    if not texts and list(before) != list(after):
        texts.append(f"{planned.name} has its columns in another order")
    if planned.key != found.key:
        key, was = (", ".join(table.key) or "none" for table in (found, planned))
        texts.append(f"the primary key of {planned.name} is now {key}, was {was}")
    return texts


def _became(old: Column, new: Column) -> str:
    if replace(old, toastable=new.toastable) == new:
        return "was loaded by an earlier version, which did not know that its log may leave the value out"
    return f"is now {_shown(new)}, was {_shown(old)}"


def _shown(column: Column) -> str:
    return column.source_type if column.nullable else f"{column.source_type} NOT NULL"
