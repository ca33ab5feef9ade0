"""Rows as they stand at one place of the ledger.

Redis has no snapshots: a page is read at a time, and each page says where the ledger stands. What was read is written
into a file of this process and compared from there, so a stream is held only as long as its rows are fetched.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import TransientError
from seamline.domain.position import Position
from seamline.ports import Load
from seamline.sinks.lake.read_view import Batches, LakeView
from seamline.sinks.redis.keys import Keyspace, TableKeys
from seamline.sinks.redis.rows import batch_from, names_of
from seamline.sinks.redis.scripts import READ_ROWS
from seamline.sinks.redis.session import Session, packed, translated
from seamline.values.arrow import schema_of

# A script of so many rows keeps others waiting for some hundredths of a second.
_PAGE = 2_000
# Epoch and offset of a ledger; None where none is asked for.
Place = tuple[bytes | None, bytes | None]


class FetchedView(LakeView):
    """`ports.StagedView` over the files in a folder, which goes when the view is closed."""

    def __init__(
        self, position: Position, tables: Mapping[Table, Batches], folder: "tempfile.TemporaryDirectory[str]"
    ) -> None:
        super().__init__(position, tables)
        self._folder = folder

    def digest_of(self, table: str, *, run_key: str) -> SegmentDigest:
        return sum(self.digests(Segment(table), run_key=run_key).values(), SegmentDigest())

    def batches(self, table: str) -> Iterator[pa.RecordBatch]:
        _, batches = self._tables[table]
        return batches()

    def close(self) -> None:
        self._folder.cleanup()


def fetched(
    session: Session,
    tables: Mapping[Table, TableKeys],
    position: Position,
    *,
    ledger: str,
    at: Place = (None, None),
) -> FetchedView:
    """TransientError where the ledger under that key stands elsewhere than `at`, or moves while it is read."""
    folder = tempfile.TemporaryDirectory(prefix="seamline-redis-")
    try:
        found = dict[Table, Batches]()
        for number, (table, keys) in enumerate(tables.items()):
            path = Path(folder.name) / f"{number}.arrow"
            _fetch(session, table, keys, path, ledger=ledger, at=at)
            found[table] = _batches(path)
    except BaseException:
        folder.cleanup()
        raise
    return FetchedView(position, found, folder)


@contextmanager
def staged_view(session: Session, keys: Keyspace, load: Load, position: Position) -> Iterator[FetchedView]:
    view = fetched(session, {load.table: keys.staged(load.staged_as)}, position, ledger=keys.own("nothing"))
    try:
        yield view
    finally:
        view.close()


def _fetch(session: Session, table: Table, keys: TableKeys, path: Path, *, ledger: str, at: Place) -> None:
    columns, wanted = packed(names_of(table)), b"-"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema_of(table)) as writer:
        while True:
            with translated("read rows", table=table.name):
                last, rows, *stands = session.run(READ_ROWS, [keys.index, ledger], keys.rows, columns, wanted, _PAGE)
            if tuple(stands) != at:
                raise TransientError(
                    f"the ledger moved while table {table.name} was read", hint="hold the stream, and try again"
                )
            if last is None:
                return
            writer.write_batch(batch_from(table, rows))
            wanted = b"(" + last


def _batches(path: Path) -> Batches:
    def read() -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(path)) as file:
            found = pa.ipc.open_file(file)
            for number in range(found.num_record_batches):
                yield found.get_batch(number)

    return read
