"""Types of a JDBC driver's metadata as kinds of columns, how a column is selected, and its values in the typed form.

Numbers, texts and bytes come as Spark's JDBC reader converts them. Dates and moments come as the text that the
database makes of them: Java's own dates have two calendars (0001-01-01 came as 0001-01-03: H2 2.5.252, Spark 4.1.3).
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.values.arrow import arrow_type, schema_of

# java.sql.Types → kind; of integers also their bits.
_INTEGERS = {-6: 8, 5: 16, 4: 32, -5: 64}
_PLAIN = {
    16: Kind.BOOLEAN,
    7: Kind.FLOAT,
    6: Kind.DOUBLE,
    8: Kind.DOUBLE,
    1: Kind.CHAR,
    -15: Kind.CHAR,
    12: Kind.STRING,
    -9: Kind.STRING,
    -1: Kind.STRING,
    -16: Kind.STRING,
    2005: Kind.STRING,
    2011: Kind.STRING,
    -2: Kind.BYTES,
    -3: Kind.BYTES,
    -4: Kind.BYTES,
    2004: Kind.BYTES,
    91: Kind.DATE,
}
_NUMBERS, _MOMENTS = (2, 3), {93: Kind.DATETIME, 2014: Kind.INSTANT}
# Of a printed moment without its digits of a second, as `2026-11-29 00:31:05.` and an offset.
_WIDTHS = {93: 20, 2014: 26}
# Spark has no more digits, and neither form has finer moments.
_DIGITS_MAX, _FRACTION_MAX = 38, 6
# Of these the number of the type says too little.
_OTHERWISE = ("DECFLOAT", "UUID", "VARCHAR_IGNORECASE", "JSON", "GEOMETRY", "INTERVAL", "ROWID")
_TEXT_OF = frozenset({Kind.DATE, Kind.DATETIME, Kind.INSTANT})
_DATE, _MOMENT = r"^\d{4}-\d\d-\d\d$", r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?"
_FORMS = {Kind.DATE: _DATE, Kind.DATETIME: f"{_MOMENT}$", Kind.INSTANT: rf"{_MOMENT}[+-]\d{{1,2}}(:?\d\d)?$"}


def column_of(found: Mapping[str, Any]) -> Column | str:
    """The column of a row of `DatabaseMetaData.getColumns`; why it cannot be carried exactly."""
    name, number = str(found["COLUMN_NAME"]), int(found["DATA_TYPE"])
    size, digits = int(found["COLUMN_SIZE"] or 0), found["DECIMAL_DIGITS"]
    printed = str(found["TYPE_NAME"]).upper()
    nullable = found["NULLABLE"] != 0
    if any(printed.startswith(other) for other in _OTHERWISE):
        return f"column {name} has type {printed}, which is not carried from a JDBC source"
    if number in _INTEGERS:
        return Column(name, Kind.INTEGER, printed, nullable, length=_INTEGERS[number])
    if number in _NUMBERS:
        if not 0 < size <= _DIGITS_MAX or digits is None or not 0 <= digits <= size:
            return (
                f"column {name} is {printed}({size},{digits}): exact with 1 to {_DIGITS_MAX} digits and a scale within"
            )
        return Column(name, Kind.DECIMAL, f"{printed}({size},{digits})", nullable, precision=size, scale=digits)
    if number in _MOMENTS:
        # HSQLDB says the width alone.
        digits = max(size - _WIDTHS[number], 0) if digits is None else digits
        if not 0 <= digits <= _FRACTION_MAX:
            return f"column {name} is {printed} with {digits} digits of a second: at most {_FRACTION_MAX} are carried"
        return Column(name, _MOMENTS[number], f"{printed}({digits})", nullable, precision=digits)
    if number in _PLAIN:
        return Column(name, _PLAIN[number], f"{printed}({size})", nullable, length=size)
    return f"column {name} has type {printed} (java.sql.Types {number}), which is not carried from a JDBC source"


def query_of(table: Table, relation: str, quote: str) -> str:
    """All rows of a table, as `rows_of` reads them."""
    return f"SELECT {', '.join(_selected(column, quote) for column in table.columns)} FROM {relation}"


def quoted(name: str, quote: str) -> str:
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"


def _selected(column: Column, quote: str) -> str:
    name = quoted(column.source_name or column.name, quote)
    return f"CAST({name} AS VARCHAR(64)) AS {name}" if column.kind in _TEXT_OF else name


def rows_of(table: Table, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch of `query_of` in the typed form. SchemaConflict names a column with a value of another form."""
    arrays = [_typed(table, column, batch.column(number)) for number, column in enumerate(table.columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))


def _typed(table: Table, column: Column, values: pa.Array) -> pa.Array:
    try:
        if column.kind in _TEXT_OF:
            values = _dated(column, values)
        return values.cast(arrow_type(column))
    except pa.ArrowInvalid as exc:
        said = str(exc).splitlines()[0]
        raise SchemaConflict(f"column {column.name} of {table.name}: {said}", table=table.name) from exc


def _dated(column: Column, texts: pa.Array) -> pa.Array:
    fits = pc.match_substring_regex(texts, _FORMS[column.kind])
    if pc.any(pc.invert(fits)).as_py():
        first = texts.filter(pc.invert(fits))[0].as_py()
        raise pa.ArrowInvalid(f"{first!r} is no {column.kind} as ISO 8601 writes it")
    if column.kind is Kind.INSTANT:
        # Offsets as `+8:00` (HSQLDB) and `+08` (H2).
        texts = pc.replace_substring_regex(texts, r"([+-])(\d)(:|$)", r"\10\2\3")
        texts = pc.replace_substring_regex(texts, r"([+-]\d\d)$", r"\1:00")
    return texts
