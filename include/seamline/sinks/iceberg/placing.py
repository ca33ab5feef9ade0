"""What a publish and a join do to the catalogue: tables come, have their rows replaced, or leave."""

from collections.abc import Mapping, Sequence

from pyiceberg.types import NestedField

from seamline.domain.catalogue import Table
from seamline.domain.errors import NotCaughtUp, SchemaConflict
from seamline.ports import Joining, Load
from seamline.sinks.iceberg.data_files import data_files
from seamline.sinks.iceberg.edit import replaced
from seamline.sinks.iceberg.manifests import Head, read_head
from seamline.sinks.iceberg.snapshot import FileChanges, new_head, staged_head
from seamline.sinks.iceberg.types import iceberg_schema
from seamline.sinks.lake.files import NewFiles, path_of, url_of
from seamline.sinks.lake.loads import StagedFiles, claim
from seamline.sinks.lake.store import CatalogueChanges, PointerMove

_Heads = Mapping[str, str]


def changes_of_publish(
    loads: Sequence[Load], staged: Mapping[str, StagedFiles], heads: _Heads, aside: Mapping[str, str], *, mark: str
) -> CatalogueChanges:
    """New tables of the loads' own folders; a table that is there keeps its identity and gets one snapshot more."""
    moves = [_of_load(load, staged[load.table.name], heads.get(load.table.name, ""), mark) for load in loads]
    return CatalogueChanges(moves, aside)


def changes_of_join(joining: Joining, heads: _Heads, arriving: _Heads, *, mark: str) -> CatalogueChanges:
    """The tables of an incremental snapshot become the stream's: as they are, or as the rows of those it has already.

    NotCaughtUp: a table is not there yet.
    """
    moves, taken = list[PointerMove](), dict[str, str]()
    for table in joining.tables:
        if table.name not in arriving:
            raise NotCaughtUp(f"table {table.name} is not in its incremental snapshot", table=table.name)
        taken[table.name] = arriving[table.name]
        moves.append(_of_snapshot(table, read_head(arriving[table.name]), heads.get(table.name, ""), mark))
    there = {name: kept for name, kept in joining.kept_as.items() if name in heads}
    return CatalogueChanges(moves, there, joining.incremental_namespace, taken)


def _of_load(load: Load, staged: StagedFiles, live: str, mark: str) -> PointerMove:
    if live:
        before = _continued(load.table, live)
        claim(staged.location, table=path_of(before.metadata.location))
        files = NewFiles(before.metadata.location, mark)
        after = replaced(before, data_files(staged), (), files)
    else:
        claim(staged.location)
        before = new_head(load.table, staged.location)
        files = NewFiles(url_of(staged.location), mark)
        after = staged_head(before, FileChanges(data_files(staged)), files)
    files.synced()
    return move_of(load.table.name, before, after)


def _of_snapshot(table: Table, found: Head, live: str, mark: str) -> PointerMove:
    if not live:
        return move_of(table.name, Head("", found.metadata, (), (), ()), found)
    before = _continued(table, live)
    claim(path_of(found.metadata.location), table=path_of(before.metadata.location))
    files = NewFiles(before.metadata.location, mark)
    data, deletes = ([entry.data_file for entry in entries] for entries in (found.data, found.deletes))
    after = replaced(before, data, deletes, files)
    files.synced()
    return move_of(table.name, before, after)


def move_of(table: str, before: Head, after: Head) -> PointerMove:
    assert after.snapshot_id is not None, "each table has a snapshot, also one without rows"
    return PointerMove(table, before.location, after.location, after.snapshot_id)


def _continued(table: Table, live: str) -> Head:
    """SchemaConflict where the table that is there has other columns than the planned one."""
    head = read_head(live)
    found, wanted = (_columns(one) for one in (head.metadata.schema().fields, iceberg_schema(table).fields))
    if found != wanted:
        names = sorted({name for name, *_ in found ^ wanted})
        raise SchemaConflict(
            f"table {table.name} differs from the source now: columns {', '.join(names)} (types, NULL)",
            hint=f"rename or drop {table.name} in the catalogue, then run the onboarding again",
            table=table.name,
        )
    return head


def _columns(fields: Sequence[NestedField]) -> set[tuple[str, int, str, bool]]:
    """With their numbers: by those the files of a load name their columns."""
    return {(field.name, field.field_id, str(field.field_type), field.required) for field in fields}
