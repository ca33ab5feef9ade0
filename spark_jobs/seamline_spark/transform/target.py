"""The table that a transform makes: which kind each of its columns is."""

from collections.abc import Sequence
from dataclasses import replace

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.row_transform import Expression, digits_of

_BITS = {"tinyint": 16, "smallint": 16, "int": 32, "bigint": 64}
_MICROSECONDS = 6
_KINDS = {
    "boolean": Kind.BOOLEAN,
    "string": Kind.STRING,
    "binary": Kind.BYTES,
    "date": Kind.DATE,
    "timestamp": Kind.INSTANT,
    "timestamp_ntz": Kind.DATETIME,
}


def target_of(source: Table, columns: Sequence[tuple[str, Expression, bool]]) -> Table:
    """`columns`: name, expression and whether it may be NULL. The key is the source's."""
    made = tuple(_column(source, *one) for one in columns)
    return Table(source.name, made, source.key, source.rows_estimate)


def _column(source: Table, name: str, one: Expression, nullable: bool) -> Column:  # noqa: FBT001 (of Spark's schema)
    if one.is_passed_on:
        column = source.column(one.value or "")
        return replace(column, name=name, source_name=column.source_name if column.name == name else "")
    # A stored value stands for one that the log leaves out, as it does for the column it is computed from.
    toastable = any(source.column(given).toastable for given in one.inputs) and source.is_keyed
    return replace(computed_column(name, one.type), nullable=nullable, toastable=toastable)


def computed_column(name: str, spark: str) -> Column:
    """A column of this type of Spark, of which `is_held`; it may be NULL."""
    kind, length, precision, scale = _kind(spark)
    return Column(name, kind, spark, length=length, precision=precision, scale=scale)


def is_held(spark: str) -> bool:
    """Whether a column of this type of Spark has a kind."""
    return spark in _BITS or spark in _KINDS or spark.startswith("decimal(")


def _kind(spark: str) -> tuple[Kind, int, int, int]:
    """Kind, length, precision and scale."""
    if spark in _BITS:
        return Kind.INTEGER, _BITS[spark], 0, 0
    if spark.startswith("decimal("):
        return Kind.DECIMAL, 0, *digits_of(spark)
    return _KINDS[spark], 0, _MICROSECONDS if spark.startswith("timestamp") else 0, 0
