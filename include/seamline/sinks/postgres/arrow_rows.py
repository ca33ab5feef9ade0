"""Rows of a PostgreSQL relation as Arrow and back, by COPY in CSV: exact decimals, NULL and '' kept apart.

The types are those of `kinds.derived.frame_schema`. A part is a range of the relation's pages.
"""

import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.csv

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session, translated
from seamline.domain.catalogue import Column
from seamline.kinds.derived import StagedPart, frame_schema

# Bytes of CSV per record batch: a task holds one of them, and the Arrow form of it.
_BLOCK_BYTES = 8 << 20
_PAGE_BYTES = 8192


def page_ranges(session: Session, relation: str, *, parts: int) -> list[StagedPart]:
    """The relation's pages in at most `parts` ranges that touch and leave nothing out. `relation` is quoted."""
    with translated(f"measure {relation}"):
        row = session.execute("SELECT pg_relation_size(%s::regclass)", (relation,)).fetchone()
    pages = int(row[0]) // _PAGE_BYTES if row else 0
    step = max(1, -(-pages // max(parts, 1)))
    starts = list(range(0, max(pages, 1), step))
    return [StagedPart(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]


def read_batches(
    session: Session, relation: str, columns: Sequence[Column], pages: StagedPart
) -> Iterator[pa.RecordBatch]:
    """The columns of these pages' rows. One COPY, read while it comes; memory is bounded by a block."""
    names = ", ".join(quoted(column.name) for column in columns)
    upper = "" if pages.end is None else f" AND ctid < '({pages.end},0)'::tid"
    query = f"SELECT {names} FROM {relation} WHERE ctid >= '({pages.start},0)'::tid{upper}"
    schema = frame_schema(columns)
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
