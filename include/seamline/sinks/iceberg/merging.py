"""A table staged by Spark: the batches of a commit as DataFrames, and a MERGE and an INSERT of each into a catalogue
that moves no pointer.

Where the rows stand is looked up first, so that what a batch meets is known before anything is written: findings,
values that the log left out, copies that are too few. What follows names rows by file and position.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table.snapshots import Snapshot

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import InvariantViolated
from seamline.kinds.frames import Frames
from seamline.sinks.iceberg.io import WarehouseIO
from seamline.sinks.iceberg.snapshot import let_go
from seamline.sinks.iceberg.span_catalogue import NAMESPACE, SpanTable
from seamline.sinks.iceberg.types import framed, from_frame, storage_schema
from seamline.sinks.lake.batches import findings_of, net_copies, require_copies, require_stored
from seamline.sinks.lake.identity import ROW_HASH
from seamline.sinks.lake.stores import FilePath
from seamline.values.arrow import schema_of
from seamline.values.changes import ChangeBatch

_WANTED, _CHANGES = "seamline_wanted", "seamline_changes"
# Columns of these views, beside k0, k1 … of a key and c0, c1 … of a row: names of the table's own never meet them.
_NUMBER, _FILE, _POSITION = "number", "file", "position"
_BYTES_OF_A_FILE = 128 * 2**20
_JOINING = {"min-input-files": "5", "delete-file-threshold": "5", "remove-dangling-deletes": "true"}


class TableMerge:
    """The statements of one commit over one table. `catalog`: the name of the catalogue that serves it."""

    def __init__(self, table: Table, span: SpanTable, frames: Frames, *, catalog: str) -> None:
        self._table = table
        self._span = span
        self._frames = frames
        self._catalog = catalog
        self._name = ".".join(quoted(part) for part in (catalog, NAMESPACE, table.name))

    def apply(self, batches: Iterable[ChangeBatch]) -> list[Finding]:
        """The batches of a span, in their order. Diverged: a row that must be there is not."""
        findings: list[Finding] = []
        for batch in batches:
            if batch.truncate_first:
                self._empty()
            if batch.rows.num_rows and self._table.is_keyed:
                findings += self._apply_keyed(batch)
            elif batch.rows.num_rows:
                self._apply_keyless(batch)
        return findings

    @property
    def files(self) -> int:
        """How many there are now, of rows and of deletes."""
        snapshot = self._span.now.current_snapshot()
        said: Mapping[str, str | None] = (snapshot.summary if snapshot else None) or {}
        return sum(int(said.get(name) or 0) for name in ("total-data-files", "total-delete-files"))

    def join_small_files(self) -> None:
        """In the stream's own turn: who does it beside the stream meets its deletes. Partition by partition, where
        enough small files or deletes are."""
        options = ", ".join(f"'{name}', '{value}'" for name, value in _JOINING.items())
        table = self._name.replace("'", "\\'")
        self._frames.run(
            f"CALL {self._catalog}.system.rewrite_data_files(table => '{table}', options => map({options}))"
        )

    def staged(self) -> SpanTable | None:
        """The table behind them, whose files are known by name; None where nothing has changed."""
        span = self._span
        if not span.added:
            return None
        if updates := tuple(let_go(span.before)):
            span.commit((), updates)
        span.keep_last()
        self._note_files()
        return span

    def drop(self) -> None:
        """Delete what was written."""
        self._note_files()
        self._span.files.drop()

    def _note_files(self) -> None:
        self._span.files.written(
            dict.fromkeys(path for one in self._span.added for path in _files_of(one, self._span.io))
        )

    def _empty(self) -> None:
        self._run(f"DELETE FROM {self._name}")

    # ---- tables with a key ------------------------------------------------------------------------------------------

    def _apply_keyed(self, batch: ChangeBatch) -> list[Finding]:
        found = self._found(batch.rows)
        is_there = np.zeros(batch.rows.num_rows, np.bool_)
        is_there[found.column(_NUMBER).to_numpy()] = True
        findings = findings_of(self._table, batch, is_there)
        rows = self._filled(batch)
        self._remove(found)
        self._add(rows.filter(pc.invert(batch.deleted)))
        return findings

    def _found(self, rows: pa.RecordBatch, *, columns: Sequence[str] = ()) -> pa.Table:
        """Where the rows of these keys stand, those that are there, with stored values of some columns."""
        alone = replace(self._table, columns=self._table.key_columns)
        keys = framed(alone, rows.select(list(self._table.key)))
        names = [f"k{number}" for number in range(len(keys))]
        self._frames.show(_WANTED, pa.table([pa.array(np.arange(rows.num_rows)), *keys], [_NUMBER, *names]))
        beside = "".join(f", t.{quoted(name)} AS {_stored_name(number)}" for number, name in enumerate(columns))
        equal = " AND ".join(f"t.{quoted(key)} = s.{name}" for key, name in zip(self._table.key, names, strict=True))
        return self._frames.run(
            f"SELECT /*+ BROADCAST(s) */ s.{_NUMBER}, t._file AS {_FILE}, t._pos AS {_POSITION}{beside}"
            f" FROM {self._name} t JOIN {_WANTED} s ON {equal}"
        )

    def _filled(self, batch: ChangeBatch) -> pa.RecordBatch:
        """The rows, with the stored values of what the log left out."""
        if batch.missing is None:
            return batch.rows
        rows, names = batch.rows, batch.missing.schema.names
        found = self._found(_origins(self._table, batch), columns=names)
        place = np.full(rows.num_rows, -1, np.int64)
        place[found.column(_NUMBER).to_numpy()] = np.arange(found.num_rows)
        for number, name in enumerate(names):
            lacking = np.flatnonzero(batch.is_missing(name).to_numpy(zero_copy_only=False))
            require_stored(self._table, lacking=int((place[lacking] < 0).sum()))
            stored = from_frame(self._table.column(name), found.column(_stored_name(number)))
            taken = np.arange(rows.num_rows)
            taken[lacking] = rows.num_rows + place[lacking]
            filled = pa.concat_arrays([rows.column(name), stored]).take(pa.array(taken))
            rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), filled)
        return rows

    # ---- tables without a key ---------------------------------------------------------------------------------------

    def _apply_keyless(self, batch: ChangeBatch) -> None:
        net = net_copies(self._table, batch)
        going = pa.array(net.removed > 0)
        wanted = pa.table(
            {"hash": net.identities.filter(going).cast(pa.binary()), "copies": pa.array(net.removed).filter(going)}
        )
        if wanted.num_rows:
            self._remove(self._copies(wanted))
        self._add(net.added)

    def _copies(self, wanted: pa.Table) -> pa.Table:
        """Where so many copies of each row stand, the first ones in the order of files and positions."""
        self._frames.show(_WANTED, wanted)
        found = self._frames.run(
            f"SELECT {_FILE}, {_POSITION} FROM (SELECT /*+ BROADCAST(s) */ t._file AS {_FILE}, t._pos AS {_POSITION},"
            " s.copies, row_number() OVER (PARTITION BY s.hash ORDER BY t._file, t._pos) AS place"
            f" FROM {self._name} t JOIN {_WANTED} s ON t.{quoted(ROW_HASH)} = s.hash) WHERE place <= copies"
        )
        require_copies(self._table, pc.sum(wanted.column("copies")).as_py(), found=found.num_rows)
        return found

    # ---- statements -------------------------------------------------------------------------------------------------

    def _remove(self, places: pa.Table) -> None:
        """The rows that stand there. Each task gets all places: a MERGE that inserted too would be an outer join, which
        sorts the whole table."""
        if not places.num_rows:
            return
        self._frames.show(_CHANGES, places.select([_FILE, _POSITION]))
        self._run(
            f"MERGE INTO {self._name} t USING (SELECT /*+ BROADCAST({_CHANGES}) */ * FROM {_CHANGES}) s"
            f" ON t._file = s.{_FILE} AND t._pos = s.{_POSITION} WHEN MATCHED THEN DELETE"
        )
        self._require_said("spark.merge-into.num-target-rows-deleted", places.num_rows)

    def _add(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        names = storage_schema(self._table).names
        columns = [f"c{number}" for number in range(len(names))]
        self._frames.show(_CHANGES, pa.table(framed(self._table, rows), columns))
        files = -(-rows.nbytes // _BYTES_OF_A_FILE)
        self._run(
            f"INSERT INTO {self._name} ({', '.join(map(quoted, names))})"
            f" SELECT /*+ COALESCE({files}) */ {', '.join(columns)} FROM {_CHANGES}"
        )
        self._require_said("added-records", rows.num_rows)

    def _run(self, statement: str) -> None:
        """A statement that changes the table: one snapshot."""
        before = len(self._span.added)
        self._frames.run(statement)
        if len(self._span.added) != before + 1:
            raise InvariantViolated(
                f"Spark has staged {len(self._span.added) - before} snapshots of {self._table.name} by one statement",
                table=self._table.name,
            )

    def _require_said(self, number: str, wanted: int) -> None:
        """What Spark says of its newest snapshot, against what it was given."""
        said: Mapping[str, str | None] = self._span.added[-1].summary or {}
        if int(said.get(number) or 0) != wanted:
            raise InvariantViolated(
                f"Spark was given {wanted} rows of {self._table.name}, its snapshot says {number} {said.get(number)}",
                table=self._table.name,
            )


def quoted(name: str) -> str:
    """As Spark's SQL takes any name."""
    return "`" + name.replace("`", "``") + "`"


def _stored_name(number: int) -> str:
    return f"v{number}"


def _origins(table: Table, batch: ChangeBatch) -> pa.RecordBatch:
    """The keys under which the stored values are: the old one of a row that has one."""
    keys = [batch.rows.column(name) for name in table.key]
    if batch.old_key is not None:
        keys = [pc.coalesce(old, new) for old, new in zip(batch.old_key.columns, keys, strict=True)]
    return pa.RecordBatch.from_arrays(keys, schema=schema_of(replace(table, columns=table.key_columns)))


def _files_of(snapshot: Snapshot, io: WarehouseIO) -> Iterator[FilePath]:
    """All that a snapshot has added: its list, its manifests, files of rows and of deletes."""
    yield io.path_of(snapshot.manifest_list)
    for manifest in snapshot.manifests(io):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            yield io.path_of(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(io):
                if entry.status == ManifestEntryStatus.ADDED:
                    yield io.path_of(entry.data_file.file_path)
