"""Rows as they stand at one place of the ledger.

Redis has no snapshots: a page is read at a time, and each page says where the ledger stands. What was read is written
into a file of this process and compared from there, so a stream is held only as long as its rows are fetched.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.errors import TransientError
from seamline.domain.position import Position
from seamline.ports import Load
from seamline.sinks.lake.fetched_view import FetchedView, fetched_view
from seamline.sinks.redis.keys import Keyspace, TableKeys
from seamline.sinks.redis.rows import batch_from, names_of
from seamline.sinks.redis.scripts import READ_ROWS
from seamline.sinks.redis.session import Session, packed, translated

# A script of so many rows keeps others waiting for some hundredths of a second. Of large rows there are fewer.
_PAGE, _PAGE_BYTES = 2_000, 8 << 20
# Epoch and offset of a ledger; None where none is asked for.
Place = tuple[bytes | None, bytes | None]


def fetched(
    session: Session,
    tables: Mapping[Table, TableKeys],
    position: Position,
    *,
    ledger: str,
    at: Place = (None, None),
) -> FetchedView:
    """TransientError where the ledger under that key stands elsewhere than `at`, or moves while it is read."""
    return fetched_view(tables, position, lambda table: _rows(session, table, tables[table], ledger=ledger, at=at))


@contextmanager
def staged_view(session: Session, keys: Keyspace, load: Load, position: Position) -> Iterator[FetchedView]:
    view = fetched(session, {load.table: keys.staged(load.staged_as)}, position, ledger=keys.own("nothing"))
    try:
        yield view
    finally:
        view.close()


def _rows(session: Session, table: Table, keys: TableKeys, *, ledger: str, at: Place) -> Iterator[pa.RecordBatch]:
    columns, wanted = packed(names_of(table)), b"-"
    while True:
        with translated("read rows", table=table.name):
            last, rows, *stands = session.run(
                READ_ROWS, [keys.index, ledger], keys.rows, columns, wanted, _PAGE, _PAGE_BYTES
            )
        if tuple(stands) != at:
            raise TransientError(
                f"the ledger moved while table {table.name} was read", hint="hold the stream, and try again"
            )
        if last is None:
            return
        yield batch_from(table, rows)
        wanted = b"(" + last
