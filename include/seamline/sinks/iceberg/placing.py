"""What a publish and a join do to the catalogue: tables come, have their rows replaced, or leave."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.types import NestedField

from seamline.domain.catalogue import Table
from seamline.domain.errors import NotCaughtUp
from seamline.kinds.live_columns import Misfit
from seamline.plan.model import DestinationPlan
from seamline.ports import Joining, Load
from seamline.sinks.iceberg.data_files import data_files
from seamline.sinks.iceberg.edit import replaced
from seamline.sinks.iceberg.io import WarehouseIO, warehouse_io
from seamline.sinks.iceberg.manifests import Head, as_new, read_head
from seamline.sinks.iceberg.options import LakeOptions, options_of
from seamline.sinks.iceberg.partitions import Division
from seamline.sinks.iceberg.snapshot import FileChanges, new_head, staged_head
from seamline.sinks.lake.files import NewFiles
from seamline.sinks.lake.loads import StagedFiles, claim
from seamline.sinks.lake.store import CatalogueChanges, PointerMove
from seamline.sinks.lake.stores import FilePath

_Heads = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Placing:
    """Of one stream's tables. `mark` stands in the names of files."""

    options: LakeOptions
    io: WarehouseIO
    mark: str

    def of_publish(
        self, loads: Sequence[Load], staged: Mapping[str, StagedFiles], heads: _Heads, aside: Mapping[str, str]
    ) -> CatalogueChanges:
        """New tables of the loads' own folders; a table that is there keeps its identity and gets one snapshot more."""
        moves = [self._of_load(load, staged[load.table.name], heads.get(load.table.name, "")) for load in loads]
        return CatalogueChanges(moves, aside)

    def of_join(self, joining: Joining, heads: _Heads, arriving: _Heads) -> CatalogueChanges:
        """The tables of an incremental snapshot become the stream's: as they are, or as the rows of those it has
        already.

        NotCaughtUp: a table is not there yet.
        """
        moves, taken = list[PointerMove](), dict[str, str]()
        for table in joining.tables:
            if table.name not in arriving:
                raise NotCaughtUp(f"table {table.name} is not in its incremental snapshot", table=table.name)
            taken[table.name] = arriving[table.name]
            moves.append(self._of_snapshot(table, read_head(arriving[table.name], self.io), heads.get(table.name, "")))
        there = {name: kept for name, kept in joining.kept_as.items() if name in heads}
        return CatalogueChanges(moves, there, joining.incremental_namespace, taken)

    def _of_load(self, load: Load, staged: StagedFiles, live: str) -> PointerMove:
        found = data_files(staged, self._division(load.table))
        if live:
            before = self._continued(load.table, live)
            claim(staged.location, table=self._folder_of(before))
            files = NewFiles(self._folder_of(before), self.mark)
            after = replaced(before, found, (), files)
        else:
            claim(staged.location)
            before = self._new_head(load.table, staged.location)
            files = NewFiles(staged.location, self.mark)
            after = staged_head(before, FileChanges(found), files)
        files.synced()
        return move_of(load.table.name, before, after)

    def _of_snapshot(self, table: Table, found: Head, live: str) -> PointerMove:
        if not live:
            return move_of(table.name, Head("", found.metadata, (), (), (), self.io), found)
        before = self._continued(table, live)
        claim(self._folder_of(found), table=self._folder_of(before))
        files = NewFiles(self._folder_of(before), self.mark)
        # The stream is held meanwhile: no row is written again.
        data, deletes = ([as_new(entry.data_file) for entry in entries] for entries in (found.data, found.deletes))
        after = replaced(before, data, deletes, files)
        files.synced()
        return move_of(table.name, before, after)

    def _division(self, table: Table) -> Division:
        return Division(table, self.options.layout(table.name))

    def _folder_of(self, head: Head) -> FilePath:
        return self.io.path_of(head.metadata.location)

    def _new_head(self, table: Table, location: FilePath) -> Head:
        layout = self.options.layout(table.name)
        return new_head(table, location, layout=layout, format_version=self.options.format_version, io=self.io)

    def _continued(self, table: Table, live: str) -> Head:
        """SchemaConflict where the table that is there has other columns, or another layout, than the planned one."""
        head = read_head(live, self.io)
        if found := self.misfit(table, head):
            raise found.conflict()
        return head

    def misfit(self, table: Table, there: Head) -> Misfit | None:
        differs = self.differing(table, there)
        return (
            Misfit(
                table.name,
                f"table {table.name} differs from what a load brings: {'; '.join(differs)}",
                f"rename or drop {table.name} in the catalogue, then run the onboarding again",
            )
            if differs
            else None
        )

    def differing(self, table: Table, there: Head) -> list[str]:
        """What is not the same in a table that is there, in words."""
        metadata, wanted = there.metadata, self._new_head(table, self.io.path_of(there.location)).metadata
        found, planned = (_columns(one.schema().fields) for one in (metadata, wanted))
        differs = [f"column {name} (type, NULL)" for name in sorted({name for name, *_ in found ^ planned})]
        return differs + [
            f"{what}: {is_there} there, {asked} declared"
            for what, is_there, asked in (
                ("format", metadata.format_version, wanted.format_version),
                ("partitions", metadata.spec().fields, wanted.spec().fields),
                ("order", metadata.sort_order().fields, wanted.sort_order().fields),
            )
            if is_there != asked
        ]


def misfit_in(destination: DestinationPlan) -> Callable[[Table, str], Misfit | None]:
    """Of a table there, by its metadata file."""
    options = options_of(destination)
    io = warehouse_io(options)
    return lambda table, location: Placing(options, io, "preflight").misfit(table, read_head(location, io))


def move_of(table: str, before: Head, after: Head) -> PointerMove:
    assert after.snapshot_id is not None, "each table has a snapshot, also one without rows"
    return PointerMove(table, before.location, after.location, after.snapshot_id)


def _columns(fields: Sequence[NestedField]) -> set[tuple[str, int, str, bool]]:
    """With their numbers: by those the files of a load name their columns."""
    return {(field.name, field.field_id, str(field.field_type), field.required) for field in fields}
