"""The Iceberg tables of one stream whose changes Spark writes: `LakeTables` over a session of the stream's own."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.kinds.frames import Frames
from seamline.sinks.iceberg.io import S3_CLIENT, java_client
from seamline.sinks.iceberg.merging import TableMerge
from seamline.sinks.iceberg.options import LakeOptions
from seamline.sinks.iceberg.snapshot import obsolete
from seamline.sinks.iceberg.span_catalogue import SPARK_CATALOG, SpanCatalogue, SpanTable
from seamline.sinks.iceberg.tables import IcebergTables
from seamline.sinks.lake.files import remove
from seamline.sinks.lake.sink import Mark, StagedTable
from seamline.sinks.lake.store import PointerMove, Seen
from seamline.sinks.lake.stores import is_stored
from seamline.values.changes import ChangeBatch

# So many files more than then, and small ones are joined again.
FILES_JOINED = 50
_SETTINGS = {
    # Values mean the same everywhere: UTC, and an error instead of a NULL where one does not fit.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
}


class SparkTables(IcebergTables):
    """Loads, publishes and joins are those of every Iceberg table. Without frames no change is applied."""

    def __init__(self, definitions: Sequence[Table], options: LakeOptions, frames: Frames | None) -> None:
        super().__init__(definitions, options)
        self._frames = frames
        self._catalogue: SpanCatalogue | None = None
        # Where the pointers of tables stand by commits of this very owner.
        self._own: dict[str, str] = {}
        # How many files a table had when small ones were last joined.
        self._files: dict[str, int] = {}

    def forget(self) -> None:
        super().forget()
        self._own, self._files = {}, {}

    def close(self) -> None:
        if self._catalogue is not None:
            self._catalogue.close()
            self._catalogue = None

    def foreign(self, table: str, seen: Seen, stream: StreamId) -> str:
        return "" if self._own.get(table) == seen.heads[table] else super().foreign(table, seen, stream)

    def edited(
        self, name: str, seen: Seen, batches: Iterable[ChangeBatch], *, mark: Mark
    ) -> tuple[StagedTable | None, list[Finding]]:
        frames, catalogue = self._opened(name)
        span = SpanTable(seen.heads[name], str(mark), self._io, java_client(self._options))
        merge = TableMerge(self._definitions[name], span, frames, catalog=catalogue.name)
        catalogue.serve(name, span)
        with ExitStack() as undone:
            undone.callback(merge.drop)
            try:
                findings = merge.apply(batches)
                if merge.files >= self._files.get(name, 0) + FILES_JOINED:
                    merge.join_small_files()
                    self._files[name] = merge.files
            finally:
                # A statement that was given up may still run: from here on it commits nothing.
                catalogue.forget(name)
            staged = merge.staged()
            undone.pop_all()
        return (_StagedTable(self, name, span) if staged else None), findings

    def go_on(self, name: str, location: str) -> None:
        """A commit has moved the pointer there."""
        self._own[name] = location

    def _opened(self, table: str) -> tuple[Frames, SpanCatalogue]:
        if self._frames is None:
            raise Refused(
                "`write: spark` writes changes through Spark alone, and here is no session of it",
                hint="a stream host has one: let it run the stream",
                table=table,
            )
        if self._catalogue is None:
            wanted = [SPARK_CATALOG, *([S3_CLIENT] if is_stored(self._options.warehouse) else [])]
            if lacking := [name for name in wanted if not self._frames.has(name)]:
                raise Refused(
                    f"Spark does not know {lacking[0]}",
                    hint="a host that spark-submit starts is given Iceberg's jars by --jars:"
                    " jars/spark/iceberg-*.jar of its environment",
                    table=table,
                )
            self._catalogue = SpanCatalogue()
            self._frames.configure({**_SETTINGS, **self._catalogue.settings()})
        return self._frames, self._catalogue


@dataclass(frozen=True, slots=True)
class _StagedTable:
    """`lake.sink.StagedTable`."""

    tables: SparkTables
    name: str
    span: SpanTable

    @property
    def move(self) -> PointerMove:
        return PointerMove(self.name, self.span.pointer, self.span.location, self.span.added[-1].snapshot_id)

    def land(self) -> None:
        self.span.files.synced()

    def drop(self) -> None:
        self.span.files.drop()

    def keep(self) -> None:
        self.tables.go_on(self.name, self.span.location)
        # What nobody names any more goes.
        for path in obsolete(self.span.before, self.span.now, self.span.io):
            remove(path)
