"""A CSV file of a table: written batch by batch, and read back as any other reader would.

A text stands in quotes where it holds the delimiter, a quote or the end of a line, where it is empty, where it looks
like the mark of NULL, which has none, and where it begins with U+FEFF: readers leave that out in front of a file. The
end of a line is no part of another letter in the encodings that are offered.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from seamline.domain.catalogue import Table
from seamline.domain.errors import GateFailed, SchemaConflict
from seamline.files.dialect import MARK, Dialect, encoded, lost_letter
from seamline.values.arrow import TEXT, schema_of
from seamline.values.content import content_of
from seamline.values.plain_texts import texts_of, values_of

# One row has its place in a block.
_BLOCK_BYTES = 32 * 2**20
_QUOTE = '"'
_BEGINS_WITH_MARK = r"^\x{FEFF}"


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around the rows of a file: `header` before all of them, and `trailer` behind, as their fields; ()
    where there is none."""

    header: Sequence[str] = ()
    trailer: Sequence[str] = ()


def head_of(table: Table, dialect: Dialect, header: Sequence[str]) -> bytes:
    """What comes before the rows. SchemaConflict: the encoding does not have a letter of it."""
    names = [column.name for column in table.columns] if dialect.column_names else []
    lines = "".join(_line(fields, dialect) for fields in (header, names) if fields)
    return _encoded(lines, dialect, f"a name of {table.name}", table)


def tail_of(dialect: Dialect, trailer: Sequence[str]) -> bytes:
    """What comes behind the rows: marks and numbers."""
    return _line(trailer, dialect).encode(dialect.encoding) if trailer else b""


def write_rows(table: Table, batches: Iterable[pa.RecordBatch], dialect: Dialect, file: BinaryIO) -> None:
    """SchemaConflict: a value has no place in such a file."""
    for rows in batches:
        if rows.num_rows:
            content = content_of(_lines(table, rows, dialect))
            is_as_it_is = dialect.encoding == "utf-8"
            file.write(
                content if is_as_it_is else _encoded(content.decode(), dialect, f"a value of {table.name}", table)
            )


def read_rows(path: Path, table: Table, dialect: Dialect, frame: Frame) -> Iterator[pa.RecordBatch]:
    """All rows of a file in the typed form. GateFailed: it is not the file that was written."""
    with pa.memory_map(str(path)) as mapped:
        rows = _between(mapped.read_buffer(), head_of(table, dialect, frame.header), tail_of(dialect, frame.trailer))
        if rows is None:
            raise _other(table, "it does not begin and end as it was written")
        try:
            for batch in text_batches(rows, table, dialect):
                yield _typed(table, batch)
        except (ValueError, SchemaConflict) as exc:
            raise _other(table, str(exc)) from exc


def text_batches(rows: pa.Buffer, table: Table, dialect: Dialect) -> Iterator[pa.RecordBatch]:
    """The values of lines as texts, in the order of the table's columns. ValueError: these are no such lines."""
    if not rows.size:
        return
    names = [column.name for column in table.columns]
    # Of one column it is a NULL. Arrow would make a row of it also where a delimiter is missing.
    has_several = len(names) > 1
    yield from csv.open_csv(
        _opened(rows, dialect),
        read_options=csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES, encoding=dialect.encoding),
        parse_options=csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=_QUOTE if dialect.quotes else False,
            newlines_in_values=dialect.quotes,
            ignore_empty_lines=has_several,
        ),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, TEXT),
            null_values=[dialect.null],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _opened(rows: pa.Buffer, dialect: Dialect) -> "pa.NativeFile":
    """Arrow leaves out a mark of the encoding in front of what it reads, which here is a row and no file."""
    mark = b"" if lost_letter(MARK, dialect.encoding) else MARK.encode(dialect.encoding)
    reader = pa.BufferReader(rows)
    if not mark or rows.slice(0, min(len(mark), rows.size)).to_pybytes() != mark:
        return reader
    return pa.PythonFile(_Behind(mark, reader), mode="r")


class _Behind:
    """A stream of bytes behind some others."""

    closed = False

    def __init__(self, first: bytes, then: pa.NativeFile) -> None:
        self._first, self._then = first, then

    def read(self, size: int = -1) -> bytes:
        first, self._first = self._first, b""
        return first + bytes(self._then.read(size - len(first) if size >= 0 else None))

    def close(self) -> None:
        self.closed = True


def _typed(table: Table, batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [values_of(column, batch.column(number)) for number, column in enumerate(table.columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))


def _between(content: pa.Buffer, head: bytes, tail: bytes) -> pa.Buffer | None:
    size = content.size - len(head) - len(tail)
    if size < 0 or content.slice(0, len(head)) != pa.py_buffer(head):
        return None
    return content.slice(len(head), size) if content.slice(len(head) + size) == pa.py_buffer(tail) else None


def _other(table: Table, what: str) -> GateFailed:
    return GateFailed(
        f"the file of {table.name} that was read back is another one: {what}",
        hint="nothing of it is visible; look at the store and at who else writes there, then try again",
        table=table.name,
    )


def _lines(table: Table, rows: pa.RecordBatch, dialect: Dialect) -> pa.Array:
    fields = [
        _quoted(texts_of(table, column, values), dialect)
        for column, values in zip(table.columns, rows.columns, strict=True)
    ]
    joined = pc.binary_join_element_wise(*fields, pa.scalar(dialect.delimiter, TEXT))
    return pc.binary_join_element_wise(joined, pa.scalar(dialect.end, TEXT), pa.scalar("", TEXT))


def _quoted(texts: pa.Array, dialect: Dialect) -> pa.Array:
    is_quoted = pc.or_(pc.match_substring_regex(texts, f'[\\{dialect.delimiter}"\r\n]'), pc.equal(texts, dialect.null))
    is_quoted = pc.or_(is_quoted, pc.equal(texts, ""))
    is_quoted = pc.or_(is_quoted, pc.match_substring_regex(texts, _BEGINS_WITH_MARK))
    quote, nothing = pa.scalar(_QUOTE, TEXT), pa.scalar("", TEXT)
    doubled = pc.binary_join_element_wise(quote, pc.replace_substring(texts, _QUOTE, 2 * _QUOTE), quote, nothing)
    return pc.fill_null(pc.if_else(is_quoted, doubled, texts), dialect.null)


def _line(fields: Sequence[str], dialect: Dialect) -> str:
    texts = _quoted(pa.array(fields, TEXT), dialect).to_pylist()
    return dialect.delimiter.join(texts) + dialect.end


def _encoded(text: str, dialect: Dialect, where: str, table: Table) -> bytes:
    try:
        return encoded(text, dialect.encoding)
    except UnicodeEncodeError as exc:
        raise SchemaConflict(
            f"{exc.object[exc.start]!r} in {where} is no letter of {dialect.encoding}",
            hint="declare an encoding that has it: gb18030 and utf-8 have all letters",
            table=table.name,
        ) from exc
