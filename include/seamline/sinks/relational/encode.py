"""Rows in the typed form → the text of LOAD DATA, column by column.

Bytes are sent as they are, behind a backslash where they would mean something. Texts are those of `cdg1` wherever the
server reads them; only what it would read otherwise has a form of its own.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.values.arrow import BYTES, TEXT
from seamline.values.content import content_of, offsets_of
from seamline.values.digest import canonical_texts
from seamline.values.special import special_mask

# How the documents of `document_of` are to be read. Of letters nothing is known: each column knows its own.
READ_AS = r"CHARACTER SET binary FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n'"
# The bytes of a row's identity.
HASH_BYTES = 16
_TAB, _LINE_END, _NULL = pa.scalar(b"\t", BYTES), pa.scalar(b"\n", BYTES), b"\\N"
_NOTHING = pa.scalar("", TEXT)
# The backslash first: the others become one.
_ESCAPES = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\0", b"\\0"), (b"\r", b"\\r"))
_DAY, _SECOND = 86_400_000_000, 1_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
_CURE = "correct the value at the source, or leave the table out of the sync"


def lines_of(table: Table, rows: pa.RecordBatch) -> pa.Array:
    """Each row as it stands in a document, without the end of the line. Equal rows have equal lines, and no others.

    SchemaConflict: a value that these servers have no place for, as an infinite date.
    """
    return joined([_field(table, column, rows.column(place)) for place, column in enumerate(table.columns)])


def fields_of(table: Table, columns: Sequence[Column], rows: pa.RecordBatch) -> list[pa.Array]:
    """The fields of these columns alone; `rows` has them in this order."""
    return [_field(table, column, rows.column(place)) for place, column in enumerate(columns)]


def joined(fields: Sequence[pa.Array]) -> pa.Array:
    """Fields side by side; NULL is written as its mark."""
    parts = [field.cast(BYTES) for field in fields]
    return pc.binary_join_element_wise(*parts, _TAB, null_handling="replace", null_replacement=_NULL)


def document_of(lines: pa.Array) -> bytes:
    return content_of(pc.binary_join_element_wise(lines, _LINE_END, pa.scalar(b"", BYTES)))


def hashes_of(lines: pa.Array) -> list[bytes]:
    """What a row without a key is known by: a hash of its line. Stored for years: lines must not change."""
    offsets, content = offsets_of(lines), content_of(lines)
    ends = pairwise((offsets - offsets[0]).tolist())
    return [hashlib.sha256(content[first:end]).digest()[:HASH_BYTES] for first, end in ends]


def escaped(values: pa.Array) -> pa.Array:
    """Bytes or texts as a field."""
    found = values.cast(BYTES)
    content = content_of(found)
    for plain, written in _ESCAPES:
        # Most columns have none of them: a look at their bytes is much cheaper than writing each value again.
        if plain in content:
            found = pc.replace_substring(found, pattern=plain, replacement=written)
    return found


def _field(table: Table, column: Column, values: pa.Array) -> pa.Array:
    is_special = special_mask(column, values)
    if column.kind is not Kind.INTERVAL and pc.any(is_special).as_py():
        raise _no_place(table, column, "NaN or infinite")
    if column.kind in _OUT_OF_RANGE and pc.any(_OUT_OF_RANGE[column.kind](values)).as_py():
        raise _no_place(table, column, "before the year 1 or after 9999")
    if column.kind in _TEXTS_OF:
        return _TEXTS_OF[column.kind](column, values)
    texts = canonical_texts(column, values)
    return escaped(texts) if values.type == TEXT else texts


def _no_place(table: Table, column: Column, what: str) -> SchemaConflict:
    return SchemaConflict(
        f"column {column.name} of table {table.name} holds a value that is {what}, for which the destination has no"
        " place",
        hint=_CURE,
        table=table.name,
    )


def _is_no_day(values: pa.Array) -> pa.Array:
    days = values.view(pa.int32())
    return pc.or_(pc.less(days, _FIRST_DAY), pc.greater(days, _LAST_DAY))


def _is_no_moment(values: pa.Array) -> pa.Array:
    numbers = values.view(pa.int64())
    return pc.or_(pc.less(numbers, _FIRST_DAY * _DAY), pc.greater_equal(numbers, (_LAST_DAY + 1) * _DAY))


_OUT_OF_RANGE: Mapping[Kind, Callable[[pa.Array], pa.Array]] = {
    Kind.DATE: _is_no_day,
    Kind.DATETIME: _is_no_moment,
    Kind.INSTANT: _is_no_moment,
}


def _float_texts(column: Column, values: pa.Array) -> pa.Array:
    """A number of 32 bits as the double that it is: read as its shortest text it could be rounded twice."""
    return values.cast(pa.float64()).cast(TEXT)


def _moment_texts(column: Column, values: pa.Array) -> pa.Array:
    texts = values.view(pa.int64()).view(pa.timestamp("us")).cast(TEXT)
    return _of_precision(column, texts)


def _span_texts(column: Column, values: pa.Array) -> pa.Array:
    micros = values.view(pa.int64())
    sizes = pc.abs(micros)
    seconds = pc.divide(sizes, _SECOND)
    sign = pc.if_else(pc.less(micros, 0), pa.scalar("-", TEXT), _NOTHING)
    hours, minutes = pc.divide(seconds, 3600), _rest(pc.divide(seconds, 60), 60)
    parts = (
        sign, _digits(hours, 2), pa.scalar(":", TEXT), _digits(minutes, 2), pa.scalar(":", TEXT),
        _digits(_rest(seconds, 60), 2), pa.scalar(".", TEXT), _digits(_rest(sizes, _SECOND), 6),
    )  # fmt: skip
    return _of_precision(column, pc.binary_join_element_wise(*parts, _NOTHING))


def _of_precision(column: Column, texts: pa.Array) -> pa.Array:
    """Six digits behind the point, less those that the column does not have. What they hold is not cut: with them, the
    server rounds and says nothing."""
    if column.precision >= 6:
        return texts
    kept = pc.utf8_slice_codeunits(texts, 0, -(6 - column.precision) - (not column.precision))
    rest = pc.utf8_slice_codeunits(texts, -(6 - column.precision))
    if pc.any(pc.not_equal(pc.utf8_ltrim(rest, "0"), _NOTHING)).as_py():
        raise SchemaConflict(
            f"column {column.name} {column.source_type} holds a moment with more than its {column.precision} digits",
            hint="read the catalogue again: the column was changed",
        )
    return kept


def _rest(values: pa.Array, of: int) -> pa.Array:
    return pc.subtract(values, pc.multiply(pc.divide(values, of), of))


def _digits(values: pa.Array, count: int) -> pa.Array:
    return pc.ascii_lpad(values.cast(TEXT), count, "0")


_TEXTS_OF: Mapping[Kind, Callable[[Column, pa.Array], pa.Array]] = {
    Kind.FLOAT: _float_texts,
    Kind.DOUBLE: _float_texts,
    Kind.DATETIME: _moment_texts,
    Kind.INSTANT: _moment_texts,
    Kind.TIME: _span_texts,
    Kind.TIME_OF_DAY: _span_texts,
    Kind.BINARY: lambda _, values: escaped(values),
    Kind.BYTES: lambda _, values: escaped(values),
    # A year of one or two digits would be read as one of this century.
    Kind.YEAR: lambda _, values: _digits(values, 4),
    # Its bytes.
    Kind.UUID: lambda _, values: escaped(values.cast(pa.binary())),
}
