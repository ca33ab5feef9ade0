"""Rows of a PostgreSQL relation as Arrow and back, by COPY in CSV: exact decimals, NULL and '' kept apart.

Values that are only grouped by or passed on travel as PostgreSQL's own text; whole numbers and decimals are typed.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session, translated
from seamline.domain.catalogue import Column, Kind
from seamline.domain.errors import SchemaConflict

# Bytes of CSV per record batch: a task holds one of them, and the Arrow form of it.
_BLOCK_BYTES = 8 << 20
_DECIMAL_DIGITS = 38
_PAGE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class PageRange:
    """The rows in the pages `[start, end)` of a relation; `end` None is open, so that a grown last page is in it."""

    start: int
    end: int | None


def arrow_type(column: Column) -> pa.DataType:
    match column.kind:
        case Kind.INTEGER | Kind.YEAR:
            return pa.int64()
        case Kind.UNSIGNED | Kind.BITS:
            return pa.decimal128(20, 0)
        case Kind.DECIMAL:
            if column.precision > _DECIMAL_DIGITS:
                raise SchemaConflict(
                    f"column {column.name} is {column.source_type}: over {_DECIMAL_DIGITS} digits are not added up",
                    hint="leave it out of derived tables",
                )
            return pa.decimal128(column.precision, column.scale)
        case _:
            return pa.string()


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([(column.name, arrow_type(column)) for column in columns])


def page_ranges(session: Session, relation: str, *, parts: int) -> list[PageRange]:
    """The relation's pages in at most `parts` ranges that touch and leave nothing out. `relation` is quoted."""
    with translated(f"measure {relation}"):
        row = session.execute("SELECT pg_relation_size(%s::regclass)", (relation,)).fetchone()
    pages = int(row[0]) // _PAGE_BYTES if row else 0
    step = max(1, -(-pages // max(parts, 1)))
    starts = list(range(0, max(pages, 1), step))
    return [PageRange(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]


def read_batches(
    session: Session, relation: str, columns: Sequence[Column], pages: PageRange
) -> Iterator[pa.RecordBatch]:
    """The columns of these pages' rows. One COPY, read while it comes; memory is bounded by a block."""
    names = ", ".join(quoted(column.name) for column in columns)
    upper = "" if pages.end is None else f" AND ctid < '({pages.end},0)'::tid"
    query = f"SELECT {names} FROM {relation} WHERE ctid >= '({pages.start},0)'::tid{upper}"
    schema = arrow_schema(columns)
    with (
        translated(f"read {relation}"),
        session.cursor() as cursor,
        cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)".encode()) as copy,
    ):
        for block in _blocks(iter(copy)):
            yield from _parsed(block, schema).to_batches()


def write_table(session: Session, relation: str, rows: pa.Table) -> None:
    """Append the rows to a relation; PostgreSQL reads each text as its column's own type."""
    names = ", ".join(quoted(name) for name in rows.column_names)
    with (
        translated(f"write {relation}"),
        session.cursor() as cursor,
        cursor.copy(f"COPY {relation} ({names}) FROM STDIN (FORMAT csv)".encode()) as copy,
    ):
        for batch in rows.to_batches(max_chunksize=50_000):
            sink = io.BytesIO()
            # Arrow quotes texts and leaves NULL empty, which is how COPY's CSV keeps them apart.
            pyarrow.csv.write_csv(batch, sink, pyarrow.csv.WriteOptions(include_header=False))
            copy.write(sink.getvalue())


def _blocks(rows: Iterator[bytes | bytearray | memoryview]) -> Iterator[bytes]:
    """COPY sends whole lines: put them together to blocks that are worth parsing."""
    block: list[bytes] = []
    size = 0
    for row in rows:
        block.append(bytes(row))
        size += len(block[-1])
        if size >= _BLOCK_BYTES:
            yield b"".join(block)
            block, size = [], 0
    if block:
        yield b"".join(block)


def _parsed(block: bytes, schema: pa.Schema) -> pa.Table:
    return pyarrow.csv.read_csv(
        io.BytesIO(block),
        read_options=pyarrow.csv.ReadOptions(column_names=schema.names, block_size=2 * _BLOCK_BYTES),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
