"""The Iceberg tables of one stream: `LakeTables` by data files and position deletes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import Refused, SeamlineError
from seamline.domain.ledger import StreamId
from seamline.ports import Joining, Load
from seamline.sinks.iceberg import types
from seamline.sinks.iceberg.edit import TableEdit
from seamline.sinks.iceberg.io import warehouse_io, warehouse_root
from seamline.sinks.iceberg.layout import TableLayout
from seamline.sinks.iceberg.manifests import Head, read_head, read_metadata
from seamline.sinks.iceberg.options import FORMAT, LakeOptions
from seamline.sinks.iceberg.partitions import Division, spec_of
from seamline.sinks.iceberg.placing import Placing, move_of
from seamline.sinks.iceberg.rows import RowIndex
from seamline.sinks.iceberg.snapshot import obsolete, own_snapshot
from seamline.sinks.lake.files import NewFiles, remove
from seamline.sinks.lake.loads import StagedFiles, require_as_compared, staged_files
from seamline.sinks.lake.rows import FileRows
from seamline.sinks.lake.sink import Mark, StagedTable
from seamline.sinks.lake.store import CatalogueChanges, PointerMove, Seen
from seamline.values.changes import ChangeBatch


class IcebergTables:
    """`lake.sink.LakeTables`."""

    undoing: ClassVar[str] = "rollback_to_snapshot of Spark, to the snapshot of before"

    def __init__(self, definitions: Sequence[Table], options: LakeOptions) -> None:
        self._definitions = {table.name: table for table in definitions}
        self._options = options
        self._io = warehouse_io(options)
        self._heads: dict[str, Head] = {}
        self._indexes: dict[str, RowIndex] = {}

    def forget(self) -> None:
        self._heads, self._indexes = {}, {}

    def close(self) -> None:
        return

    def take_over(self, tables: Sequence[str], seen: Seen, *, mark: Mark) -> None:
        """Nothing to do: what leads to files is in the catalogue, and moves with the ledger."""

    def foreign(self, table: str, seen: Seen, stream: StreamId) -> str:  # noqa: ARG002
        known = self._heads.get(table)
        if known is not None and known.location == seen.heads[table]:
            return ""
        return own_snapshot(read_metadata(seen.heads[table], self._io), seen.snapshots.get(table))

    def edited(
        self, name: str, seen: Seen, batches: Iterable[ChangeBatch], *, mark: Mark
    ) -> tuple[StagedTable | None, list[Finding]]:
        head = self._head_of(name, seen)
        files = NewFiles(self._io.path_of(head.metadata.location), str(mark))
        index = self._indexes.setdefault(name, RowIndex(self._definitions[name]))
        division = Division(self._definitions[name], self._options.layout(name))
        edit = TableEdit(self._definitions[name], head, index, files, division)
        try:
            findings = edit.apply(batches)
            staged = edit.staged()
        except SeamlineError:
            files.drop()
            raise
        if staged is None:
            return None, findings
        after, rows = staged
        return _StagedTable(self, name, head, after, rows, files), findings

    def go_on_from(self, name: str, head: Head, rows: Mapping[str, FileRows]) -> None:
        """What is committed: nothing of it is read again."""
        self._heads[name] = head
        self._indexes[name].keep(head, rows)

    def require_staged(self, loads: Sequence[Load]) -> None:
        for staged, load in zip(self._staged(loads).values(), loads, strict=True):
            require_as_compared(staged, load, types)

    def changes_of_publish(
        self, loads: Sequence[Load], heads: Mapping[str, str], aside: Mapping[str, str], *, mark: Mark
    ) -> CatalogueChanges:
        return Placing(self._options, self._io, str(mark)).of_publish(loads, self._staged(loads), heads, aside)

    def changes_of_join(
        self, joining: Joining, heads: Mapping[str, str], arriving: Mapping[str, str], *, mark: Mark
    ) -> CatalogueChanges:
        return Placing(self._options, self._io, str(mark)).of_join(joining, heads, arriving)

    def _staged(self, loads: Sequence[Load]) -> dict[str, StagedFiles]:
        return {load.table.name: staged_files(warehouse_root(self._options), load) for load in loads}

    def _head_of(self, table: str, seen: Seen) -> Head:
        known = self._heads.get(table)
        if known is None or known.location != seen.heads[table]:
            known = read_head(seen.heads[table], self._io)
            require_as_declared(known, self._options.layout(table))
            self._heads[table] = known
        return known


def require_as_declared(head: Head, layout: TableLayout) -> None:
    """Refused: a table that only Spark writes, or one that lies in other partitions."""
    metadata = head.metadata
    there, declared = metadata.spec().fields, spec_of(layout, metadata.schema()).fields
    if metadata.format_version != FORMAT or there != declared:
        raise Refused(
            f"the table at {metadata.location} has format {metadata.format_version} and the partitions"
            f" {[field.name for field in there]}, declared are {[field.name for field in declared]}",
            hint=f"`write: native` continues tables of format {FORMAT} as they are declared: undo that, or onboard"
            " again",
        )


@dataclass(frozen=True, slots=True)
class _StagedTable:
    """`lake.sink.StagedTable`. `rows`: by file, for the index."""

    tables: IcebergTables
    name: str
    before: Head
    after: Head
    rows: Mapping[str, FileRows]
    files: NewFiles

    @property
    def move(self) -> PointerMove:
        return move_of(self.name, self.before, self.after)

    def land(self) -> None:
        self.files.synced()

    def drop(self) -> None:
        self.files.drop()

    def keep(self) -> None:
        self.tables.go_on_from(self.name, self.after, self.rows)
        # What nobody names any more goes.
        for path in obsolete(self.before.metadata, self.after.metadata, self.after.io):
            remove(path)
