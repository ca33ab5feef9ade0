"""Rows of a fetched file in the typed form. What is wrong with a value is said by its row and column."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seamline.domain.catalogue import TEXTS, Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.files.csv_file import text_batches
from seamline.files.dialect import MARK, PARQUET, Dialect, lost_letter
from seamline.sources.files import lines
from seamline.sources.files.exact import Inexact, is_text, require_exact, require_unit, require_written
from seamline.sources.files.layout import TableLayout
from seamline.values.arrow import TEXT, arrow_type, schema_of
from seamline.values.plain_texts import values_of

_SHOWN_MAX = 60
_BATCH_ROWS = 65_536
_OF_DAY = pa.time64("us")
_NUMBERS = {32: pa.int32(), 64: pa.int64()}
# Longer than any line of names.
_RECORD_BYTES_MAX = 2**20


class Wrong(Exception):
    """What is wrong with a file, as the end of a sentence about it."""


@dataclass(frozen=True, slots=True)
class Form:
    """How the rows of a table lie in its files. `format`: of them."""

    format: str
    dialect: Dialect
    table: TableLayout


@dataclass(frozen=True, slots=True)
class Records:
    """The fields of the records around the rows of a file; () where there is none."""

    header: Sequence[str] = ()
    trailer: Sequence[str] = ()


def rows_of(path: Path, table: Table, form: Form) -> Iterator[pa.RecordBatch]:
    """Wrong: these are not the rows of such a table. The file is one that `require_lines` has taken."""
    if form.format == PARQUET:
        yield from _of_parquet(path, table)
        return
    between = _between(path, table, form)
    order = Table(table.name, tuple(table.column(name) for name in between.names))
    first = 1
    try:
        for texts in text_batches(between.rows, order, form.dialect):
            yield _typed(table, texts, form.table.forms, first)
            first += texts.num_rows
    except UnicodeError as exc:
        raise _unreadable(exc) from exc
    except pa.ArrowInvalid as exc:
        # It does not say in which line.
        raise (_odd(between, form) or _unreadable(exc)) from exc


def require_lines(path: Path, table: Table, form: Form) -> None:
    """Wrong: it is left to whoever reads a line of this file which values it holds."""
    if form.format == PARQUET:
        return
    between = _between(path, table, form)
    if not lines.is_plain(between.rows, form.dialect) and (odd := _odd(between, form)):
        raise odd


def records_of(path: Path, table: Table, form: Form) -> Records:
    """Wrong: the file does not have the lines that it should."""
    if form.format == PARQUET:
        return Records()
    found = _between(path, table, form)
    return Records(found.header, found.trailer)


# ---- CSV ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Between:
    """`names`: of columns, in the order of the file. `first_line`: the number of the first one with a row."""

    rows: pa.Buffer
    first_line: int
    header: Sequence[str]
    names: Sequence[str]
    trailer: Sequence[str]


def _between(path: Path, table: Table, form: Form) -> _Between:
    content, dialect = _mapped(path), form.dialect
    if content.size and content.slice(content.size - 1).to_pybytes() != b"\n":
        raise Wrong("ends in the middle of a line: it was cut off, or is still being written")
    head = content.slice(0, min(content.size, _RECORD_BYTES_MAX)).to_pybytes()
    mark = b"" if lost_letter(MARK, dialect.encoding) else MARK.encode(dialect.encoding)
    at = len(mark) if head.startswith(mark) else 0
    header, names, trailer = list[str](), [column.name for column in table.columns], list[str]()
    if form.table.header:
        header, at = _line(head, at, "record in its first line", dialect)
    if dialect.column_names:
        names, at = _line(head, at, "line with the names of columns", dialect)
        _require_names(names, table)
    first_line, end = head.count(b"\n", 0, at) + 1, content.size
    if form.table.trailer:
        tail = content.slice(max(at, end - _RECORD_BYTES_MAX)).to_pybytes()
        last = tail[tail.rfind(b"\n", 0, -1) + 1 :]
        trailer, _ = _line(last, 0, "record in its last line", dialect)
        end -= len(last)
    return _Between(content.slice(at, end - at), first_line, header, names, trailer)


def _odd(between: _Between, form: Form) -> Wrong | None:
    try:
        fault = lines.fault_of(between.rows, between.names, form.dialect, first_line=between.first_line)
    except UnicodeDecodeError as exc:
        return _unreadable(exc)
    return Wrong(fault) if fault else None


def _unreadable(exc: Exception) -> Wrong:
    return Wrong(f"cannot be read as CSV: {_shortened(exc)}")


def _mapped(path: Path) -> pa.Buffer:
    if not path.stat().st_size:
        return pa.py_buffer(b"")
    with pa.memory_map(str(path)) as mapped:
        return mapped.read_buffer()


def _line(content: bytes, at: int, what: str, dialect: Dialect) -> tuple[list[str], int]:
    """The fields of the line that begins there, and where the next one begins."""
    end = content.find(b"\n", at) + 1
    if not end:
        raise Wrong(f"has no {what}")
    try:
        text = content[at:end].decode(dialect.encoding)
    except UnicodeDecodeError as exc:
        raise Wrong(f"has a {what} that is no {dialect.encoding}: {exc}") from exc
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if dialect.quotes else csv.QUOTE_NONE
    line = io.StringIO(text.rstrip("\r\n"))
    try:
        return next(csv.reader(line, delimiter=dialect.delimiter, quoting=quoting, strict=True), []), end
    except csv.Error as exc:
        raise Wrong(f"has a {what} that cannot be read as CSV: {exc}") from exc


def _require_names(names: Sequence[str], table: Table) -> None:
    known = [column.name for column in table.columns]
    missing, odd = ([one for one in a if one not in b] for a, b in ((known, names), (names, known)))
    if missing or odd or len(names) != len(known):
        said = [f"lacks {', '.join(missing)}"] if missing else []
        said += [f"has {', '.join(odd)}, which nobody declares"] if odd else []
        raise Wrong(f"has other columns than {table.name}: it {' and '.join(said) or 'names one twice'}")


# ---- Parquet --------------------------------------------------------------------------------------------------------


def _of_parquet(path: Path, table: Table) -> Iterator[pa.RecordBatch]:
    try:
        # Checksums of pages are looked at where the writer has made them.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _require_names(file.schema_arrow.names, table)
            first, said = 1, file.metadata.num_rows
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                yield _typed(table, batch, {}, first)
                first += batch.num_rows
            if first - 1 != said:
                raise Wrong(f"has {first - 1} rows, and its end says {said}")
    except (pa.ArrowInvalid, OSError) as exc:
        raise Wrong(f"cannot be read as Parquet: {_shortened(exc)}") from exc


# ---- values ---------------------------------------------------------------------------------------------------------


def _typed(table: Table, given: pa.RecordBatch, forms: Mapping[str, str], first: int) -> pa.RecordBatch:
    """`first`: the number of its first row in the file."""
    columns = [replace(one, nullable=one.nullable and one.name not in table.key) for one in table.columns]
    arrays = [_column(column, given.column(column.name), forms.get(column.name, ""), first) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))


def _column(column: Column, given: pa.Array, form: str, first: int) -> pa.Array:
    try:
        values = _values(column, given, form)
    except (ValueError, SchemaConflict, pa.ArrowException) as exc:
        row, value = _first_wrong(column, given, form)
        why = str(exc) if isinstance(exc, Inexact) else f"which is no {column.source_type}"
        raise Wrong(f"has in row {first + row} the {column.name} {value!r}, {why}") from exc
    if values.null_count and not column.nullable:
        row = pc.index(values.is_null(), pa.scalar(value=True)).as_py()
        raise Wrong(f"has in row {first + row} no {column.name}, and it must have one")
    if column.kind in TEXTS and column.length:
        # Blanks behind a fixed length carry no meaning.
        counted = pc.utf8_rtrim(values, " ") if column.kind is Kind.CHAR else values
        lengths = pc.fill_null(pc.utf8_length(counted), 0)
        if (longest := pc.max(lengths).as_py() or 0) > column.length:
            row = pc.index(lengths, pa.scalar(longest, lengths.type)).as_py()
            raise Wrong(f"has in row {first + row} a {column.name} of {longest} letters: {column.source_type}")
    return values


def _values(column: Column, given: pa.Array, form: str) -> pa.Array:
    """Inexact: one of them would be rounded, or guessed. Others of `_read`."""
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    values = _read(column, given, form)
    require_exact(column, given, values)
    return values


def _read(column: Column, given: pa.Array, form: str) -> pa.Array:
    """pa.ArrowException, ValueError or SchemaConflict: one of them is no value of the column."""
    if is_text(given.type):
        texts = given.cast(TEXT)
        if form:
            return _of_form(column, texts, form)
        require_written(column, texts)
        return values_of(column, texts)
    require_unit(column, given.type)
    of = arrow_type(column)
    if column.kind in (Kind.TIME, Kind.TIME_OF_DAY):
        numbers = given if pa.types.is_integer(given.type) else given.cast(_OF_DAY).cast(pa.int64())
        return numbers.cast(pa.int64()).view(of)
    return given.cast(of)


def _of_form(column: Column, texts: pa.Array, form: str) -> pa.Array:
    """Moments without a zone. `strptime` takes less than a form says: 2026112 for 2026-11-02."""
    moments = pc.strptime(texts, format=form, unit="us", error_is_null=False)
    # Of microseconds `%S` would have six digits behind the point.
    written = pc.strftime(moments.cast(pa.timestamp("s")), format=form).cast(TEXT)
    if not pc.all(pc.equal(written, texts), min_count=0).as_py():
        raise ValueError(f"a value is not written as {form}")
    return moments.cast(pa.date32()) if column.kind is Kind.DATE else moments.view(arrow_type(column))


def _first_wrong(column: Column, given: pa.Array, form: str) -> tuple[int, str]:
    """Its number from 0, and the value, shortened."""
    low, high = 0, len(given)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _values(column, given[low:middle], form)
        except (ValueError, SchemaConflict, pa.ArrowException):
            high = middle
        else:
            low = middle
    try:
        return low, str(given[low].as_py())[:_SHOWN_MAX]
    except (ValueError, OverflowError):
        # Dates that Python does not have.
        return low, str(given[low : low + 1].view(_NUMBERS[given.type.bit_width])[0])


def _shortened(exc: Exception) -> str:
    return " ".join(str(exc).split())[:200]
