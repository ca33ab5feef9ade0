"""Values of single columns in the files of a lake: what the formats of tables have in common."""

import re

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.values.arrow import arrow_type, is_exact_text
from seamline.values.build import array_of
from seamline.values.digest import canonical_texts
from seamline.values.special import special_mask

DECIMAL_DIGITS = 38
# Whole numbers of 64 bits without a sign.
WHOLE_DIGITS = 20
_INTERVAL = re.compile(r"(-?\d+)m(-?\d+)d(-?\d+)")
_HINT = "correct the value at the source, or leave the table out of the sync: a lake has no place for it"
# Of these the special values are refused; of floats they are numbers like any other.
_SPECIAL_REFUSED = frozenset({Kind.DATE, Kind.DATETIME, Kind.INSTANT, Kind.DECIMAL})


def is_text(column: Column) -> bool:
    """Of a column of decimals or bits, whether no number of a lake holds all its values: texts stand for them."""
    if column.kind is not Kind.DECIMAL:
        return is_exact_text(column)
    return is_exact_text(column) or not 0 < column.precision <= DECIMAL_DIGITS or column.scale < 0


def stored_column(table: Table, column: Column, values: pa.Array) -> pa.Array:
    """Values of the typed form as files have them. SchemaConflict for one that the lake's type does not have."""
    refuse_special(table, column, values)
    match column.kind:
        case Kind.TIME | Kind.TIME_OF_DAY:
            return values.view(pa.int64())
        case Kind.INTERVAL:
            return canonical_texts(column, values)
        case Kind.DECIMAL if is_text(column) and not is_exact_text(column):
            return canonical_texts(column, values)
        case Kind.UNSIGNED | Kind.BITS if not is_exact_text(column):
            return values.cast(pa.decimal128(WHOLE_DIGITS, 0))
        case _:
            return values


def typed_column(column: Column, values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Stored values of one column in the typed form."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    of = arrow_type(column)
    match column.kind:
        case Kind.TIME | Kind.TIME_OF_DAY:
            return values.cast(pa.int64()).view(of)
        case Kind.INTERVAL:
            return array_of(column, [_interval(text) for text in values.to_pylist()])
        case Kind.DECIMAL if is_text(column) and not is_exact_text(column):
            return array_of(column, values.to_pylist())
        case _:
            return values.cast(of)


def refuse_special(table: Table, column: Column, values: pa.Array) -> None:
    """SchemaConflict for a value that the lake's type does not have."""
    if column.kind not in _SPECIAL_REFUSED or (column.kind is Kind.DECIMAL and is_text(column)):
        return
    count = pc.sum(special_mask(column, values)).as_py() or 0
    if count:
        raise SchemaConflict(
            f"{count} values of column {column.name} {column.source_type} are infinite or no numbers",
            hint=_HINT,
            table=table.name,
        )


def _interval(text: str | None) -> tuple[int, ...] | float | None:
    if text is None:
        return None
    found = _INTERVAL.fullmatch(text)
    return tuple(map(int, found.groups())) if found else float(text)
