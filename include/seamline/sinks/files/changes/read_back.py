"""A destination's tables as views of a comparison: the rows that their change files make, at the ledger's position.

One manifest says which files these are, so the stream and maintenance may go on meanwhile: what a newer manifest does
not name any more stays for a day. The rows are folded once per table and comparison, when a view is first asked for
them, into a file of the temporary folder.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from threading import Lock
from typing import IO

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused
from seamline.domain.position import Position
from seamline.files.stores.store import Store
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.files.changes.change_files import reader_of
from seamline.sinks.files.changes.fold import folded
from seamline.sinks.files.changes.log import ChangesLog, open_changes_store, sync_of
from seamline.sinks.files.changes.state import HeldTable, StreamState
from seamline.sinks.lake.read_view import LakeView
from seamline.values.arrow import schema_of


class FoldedRows:
    """The rows of one table. Each call reads the same ones, also from other threads."""

    def __init__(self, opened: Callable[[], Store], table: Table, held: HeldTable) -> None:
        self._opened = opened
        self._table = table
        self._held = held
        self._lock = Lock()
        self._folded: IO[bytes] | None = None

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """GateFailed: a file is gone, or is not the one that was written. Diverged: of a row without a key more copies
        went than had come."""
        with pa.memory_map(self._file().name) as mapped, pa.ipc.open_file(mapped) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)

    def close(self) -> None:
        with self._lock:
            if self._folded is not None:
                self._folded.close()
            self._folded = None

    def _file(self) -> IO[bytes]:
        with self._lock:
            if self._folded is None:
                with ExitStack() as opened:
                    made = opened.enter_context(tempfile.NamedTemporaryFile(prefix="seamline-folded-"))
                    self._fold(made)
                    opened.pop_all()
                self._folded = made
            return self._folded

    def _fold(self, into: IO[bytes]) -> None:
        with (
            closing(self._opened()) as store,
            reader_of(store, self._held) as read,
            pa.ipc.new_file(into.name, schema_of(self._table)) as writer,
        ):
            for rows in folded(self._table, self._held.files, read):
                writer.write_batch(rows)


class LiveFiles(LakeView):
    """`ports.ReadView` over change files; closed once, the temporary files of all tables go."""

    def __init__(self, position: Position, rows: Mapping[Table, FoldedRows]) -> None:
        super().__init__(position, rows)
        self._rows = list(rows.values())

    def close(self) -> None:
        for rows in self._rows:
            rows.close()


def open_live(plan: SyncPlan, destination: DestinationPlan, count: int) -> list[LiveFiles]:
    stream = plan.stream_id(destination.name)
    with closing(open_changes_store(destination)) as store:
        state = ChangesLog(store, sync_of(plan.sync)).look().state.streams.get(stream)
    if state is None:
        raise Refused(f"{stream} was never published", hint="onboard the sync first", sync=plan.sync)
    return [live_of(destination, [entry.definition for entry in plan.tables], state)] * count


def live_of(destination: DestinationPlan, tables: Sequence[Table], state: StreamState) -> LiveFiles:
    """Refused: the stream does not carry one of them, or with other columns."""
    found = {}
    for table in tables:
        held = state.tables.get(table.name)
        if held is None:
            raise Refused(f"table {table.name} is not in the stream", hint="onboard it again", table=table.name)
        if held.definition.columns != table.columns:
            raise Refused(f"the columns of {table.name} were altered since it was loaded", table=table.name)
        found[table] = FoldedRows(lambda: open_changes_store(destination), table, held)
    return LiveFiles(state.row.position, found)
