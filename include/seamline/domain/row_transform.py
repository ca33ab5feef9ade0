"""What a `transform:` of a table is in a plan: the query's text, and what Spark's analysis has found it to mean.

The analysis runs once, at preflight (`seamline_spark.transform`). Tasks have its outcome in their plan and analyse
nothing. Operations are those of `evaluate.py`, and no others.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seamline.domain.catalogue import Column, Kind, Table, table_from_json, table_to_json
from seamline.domain.errors import Refused
from seamline.domain.phrase import phrase

# Spark's decimals end there.
DECIMAL_DIGITS_MAX = 38
_PLAIN_TYPES = {
    Kind.YEAR: "smallint",
    Kind.BOOLEAN: "boolean",
    Kind.CHAR: "string",
    Kind.STRING: "string",
    Kind.ENUM: "string",
    Kind.SET: "string",
    Kind.BYTES: "binary",
    Kind.DATE: "date",
    Kind.DATETIME: "timestamp_ntz",
    Kind.INSTANT: "timestamp",
}


@dataclass(frozen=True, slots=True)
class Expression:
    """`type`: Spark's simple name of the result's type. `value`: of a `column` its name at the source, of a `literal`
    its value as text (bytes in hex, dates in days and moments in microseconds since 1970), None for NULL; of a `sha2`
    its bits."""

    op: str
    type: str
    args: tuple["Expression", ...] = ()
    value: str | None = None

    @property
    def inputs(self) -> frozenset[str]:
        """Names of the source's columns that it is computed from."""
        if self.op == "column" and self.value is not None:
            return frozenset({self.value})
        return frozenset[str]().union(*(one.inputs for one in self.args))

    @property
    def is_passed_on(self) -> bool:
        """Whether it is a column of the source, unchanged."""
        return self.op == "column"


@dataclass(frozen=True, slots=True)
class RowTransform:
    """Each row of a table of the source gives one row of `target`, or none where `condition` is not true.

    `columns` are the expressions of the target's columns, in their order. `target` is None, and `columns` empty, until
    the query was analysed. The target's key is the source's: its columns are passed on under their names.
    """

    file: str
    text: str
    target: Table | None = None
    columns: tuple[Expression, ...] = ()
    condition: Expression | None = None

    @property
    def is_function(self) -> bool:
        """Whether the text is a Python function of a frame, and no query."""
        return self.file.endswith(".py")

    @property
    def planned(self) -> Table:
        """The target. Refused where the query was not analysed yet."""
        if self.target is None:
            raise Refused(f"the plan holds no analysis of {self.file}", hint="run preflight first")
        return self.target


# Transforms that were analysed, by the table's name in the sync and the file as declared.
Analysed = Mapping[tuple[str, str], RowTransform]


# The name in a reconciliation's evidence: by table the file by which the destination held it.
TRANSFORMS = "transforms"


def transforms_evidence(files: Mapping[str, str]) -> dict[str, Any]:
    """Nothing where no table is transformed."""
    return {TRANSFORMS: dict(files)} if files else {}


def transforms_in_words(evidence: Mapping[str, Any]) -> dict[str, str]:
    """By table how a report says that it is transformed, and by what."""
    return {table: phrase("transformed by %(file)s", file=file) for table, file in evidence.get(TRANSFORMS, {}).items()}


def spark_type(column: Column) -> str:
    """The type by which a column is an input of an expression; "" of one that Spark does not hold exactly."""
    match column.kind:
        case Kind.INTEGER:
            bits = column.length if 0 < column.length <= 32 else 64
            return "smallint" if bits <= 16 else "int" if bits <= 32 else "bigint"
        case Kind.DECIMAL:
            is_held = 0 < column.precision <= DECIMAL_DIGITS_MAX and 0 <= column.scale <= column.precision
            return f"decimal({column.precision},{column.scale})" if is_held else ""
        case _:
            return _PLAIN_TYPES.get(column.kind, "")


def digits_of(decimal: str) -> tuple[int, int]:
    """Precision and scale of `decimal(p,s)`."""
    precision, _, scale = decimal.removeprefix("decimal(").removesuffix(")").partition(",")
    return int(precision), int(scale)


def transform_to_json(transform: RowTransform) -> dict[str, Any]:
    return {
        "file": transform.file,
        "text": transform.text,
        "target": table_to_json(transform.target) if transform.target else None,
        "columns": [_to_json(one) for one in transform.columns],
        "condition": _to_json(transform.condition) if transform.condition else None,
    }


def meaning_of(transform: RowTransform) -> str:
    """What is computed, whatever the file says: a query may mean something else on another day or by another Spark."""
    condition = _to_json(transform.condition) if transform.condition else None
    return json.dumps([[_to_json(one) for one in transform.columns], condition])


def transform_from_json(document: Mapping[str, Any]) -> RowTransform:
    """The inverse of `transform_to_json`."""
    return RowTransform(
        document["file"],
        document["text"],
        table_from_json(document["target"]) if document["target"] else None,
        tuple(_from_json(one) for one in document["columns"]),
        _from_json(document["condition"]) if document["condition"] else None,
    )


def _to_json(one: Expression) -> list[Any]:
    return [one.op, one.type, one.value, [_to_json(arg) for arg in one.args]]


def _from_json(one: list[Any]) -> Expression:
    op, type_, value, args = one
    return Expression(op, type_, tuple(_from_json(arg) for arg in args), value)
