"""What a publish and a join do to Hudi tables, and how a table gets earlier rows again.

A table's files lie in its own folder, under names that carry the instant of the commit. Those of a load, of an
incremental snapshot or of an earlier instant come there by hard links: what was staged may go at any time.
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seamline.domain.catalogue import Table
from seamline.domain.errors import NotCaughtUp, Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.kinds.live_columns import Misfit
from seamline.ports import Joining, Load
from seamline.sinks.hudi.data_files import new_name, written_file
from seamline.sinks.hudi.pointer import Pointer, folders_named, folders_of
from seamline.sinks.hudi.state import DataFile, TableState
from seamline.sinks.hudi.timeline import NumberTaken, Timeline
from seamline.sinks.hudi.types import avro_schema
from seamline.sinks.lake import live_columns
from seamline.sinks.lake.files import NewFiles, local, sync, url_of
from seamline.sinks.lake.loads import staged_files
from seamline.sinks.lake.sink import Mark
from seamline.sinks.lake.store import CatalogueChanges, PointerMove

_ATTEMPTS = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tables of a destination lie."""

    warehouse: str
    namespace: str


def changes_of_publish(
    place: Place, loads: Sequence[Load], heads: Mapping[str, str], aside: Mapping[str, str], *, mark: Mark
) -> CatalogueChanges:
    """A commit of each table that is there before the ledger names it."""
    moves, known = list[PointerMove](), dict(heads)
    for load in loads:
        paths = map(local, staged_files(place.warehouse, load).paths)
        moves.append(_placed(place, load.table, known, paths, mark=mark))
        known[load.table.name] = moves[-1].new
    return CatalogueChanges(moves, aside)


def changes_of_join(
    place: Place, joining: Joining, heads: Mapping[str, str], arriving: Mapping[str, str], *, mark: Mark
) -> CatalogueChanges:
    """NotCaughtUp: a table is not in its incremental snapshot yet."""
    moves, taken, known = list[PointerMove](), dict[str, str](), dict(heads)
    for table in joining.tables:
        if table.name not in arriving:
            raise NotCaughtUp(f"table {table.name} is not in its incremental snapshot", table=table.name)
        taken[table.name] = arriving[table.name]
        pointer = Pointer.parsed(arriving[table.name])
        paths = [pointer.folder / name for name in Timeline(pointer.folder).at(pointer.instant).files]
        moves.append(_placed(place, table, known, paths, mark=mark))
        known[table.name] = moves[-1].new
    there = {name: kept for name, kept in joining.kept_as.items() if name in heads}
    return CatalogueChanges(moves, there, joining.incremental_namespace, taken)


def put_back(timeline: Timeline, head: TableState, named: TableState, mark: Mark) -> TableState:
    """What follows the head so that the rows are those of an earlier instant. A file that has left never comes back
    under its own name: it is linked under another one."""
    instant = timeline.reserve(head.instant)
    files = {name: one for name, one in named.files.items() if name in head.files}
    left = [timeline.folder / name for name in named.files if name not in head.files]
    added = _linked(left, timeline.folder, instant, mark.epoch, str(mark))
    return replace(
        named, instant=instant, stream=str(mark.stream), epoch=mark.epoch, files={**files, **_by_name(added)}
    )


def _placed(place: Place, table: Table, heads: Mapping[str, str], paths: Iterable[Path], *, mark: Mark) -> PointerMove:
    """One commit whose rows are these files alone."""
    old = heads.get(table.name, "")
    named = {Pointer.parsed(text).folder for text in heads.values()}
    if old:
        timeline, floor = Timeline(Pointer.parsed(old).folder), 0
    else:
        timeline, floor = _free(place, table, named, mark.stream)
    _, head = timeline.head()
    _require_same_columns(head, table)
    instant = timeline.reserve(max(head.instant, floor))
    if not head.instant:
        timeline.describe(table.name, table.key, instant)
    # Whoever publishes ends the epoch that the ledger has: streams of it find themselves over.
    epoch = mark.epoch + 1
    added = _linked(paths, timeline.folder, instant, epoch, str(mark))
    state = TableState(instant, instant, str(mark.stream), epoch, avro_schema(table), _by_name(added), table.name)
    for _ in range(_ATTEMPTS):
        number, head = timeline.head()
        if head.instant >= instant:
            raise TransientError(f"somebody has just written {table.name}", hint="it is tried again", table=table.name)
        try:
            timeline.put(number + 1, state, head)
        except NumberTaken:
            continue
        pointer = Pointer(timeline.folder, instant)
        return PointerMove(table.name, old, pointer.text, instant)
    raise TransientError(f"somebody writes {table.name} all the time", hint="let that end", table=table.name)


def differing(head: TableState, table: Table) -> list[str]:
    """As `live_columns.differing`."""
    return live_columns.differing(head.schema, avro_schema(table))


def misfit(head: TableState, table: Table) -> Misfit | None:
    return live_columns.misfit(table, differing(head, table), listed_in="seamline.hudi_table")


def misfit_at(table: Table, pointer: str) -> Misfit | None:
    """Of a table there, by its pointer."""
    at = Pointer.parsed(pointer)
    return misfit(Timeline(at.folder).at(at.instant), table)


def _require_same_columns(head: TableState, table: Table) -> None:
    """SchemaConflict where a table that is there has other columns."""
    if found := misfit(head, table) if head.instant else None:
        raise found.conflict()


def _free(place: Place, table: Table, named: set[Path], stream: StreamId) -> tuple[Timeline, int]:
    """A new table's folder: one that no table has or had, but for an attempt of this stream to publish the very table.
    And the newest instant of all that are there.

    Refused: somebody else's table lies there.
    """
    there = map(Timeline, folders_named(place.warehouse, place.namespace, table.name))
    floor = max((timeline.newest().instant for timeline in there if timeline.is_there), default=0)
    for folder in folders_of(place.warehouse, place.namespace, table.name):
        timeline = Timeline(folder)
        head = _earlier(timeline, table, stream)
        is_its_own = head is None or (head.is_of_table(table.name) and head.schema == avro_schema(table))
        if folder not in named and is_its_own:
            timeline.make()
            return timeline, floor
    raise AssertionError("folders have no end")


def _earlier(timeline: Timeline, table: Table, stream: StreamId) -> TableState | None:
    """What a folder holds that the stream has made, or another table; None where nothing is there yet."""
    if not timeline.folder.exists():
        return None
    _, head = timeline.head() if timeline.is_there else (-1, TableState(instant=-1))
    if not head.instant:
        return None
    if head.is_of_table(table.name) and not head.is_of(stream):
        raise Refused(
            f"folder {timeline.folder} is there, and {stream} did not make it",
            hint="move it away, or choose another namespace",
            sync=stream.sync,
            table=table.name,
        )
    return head


def _linked(paths: Iterable[Path], folder: Path, instant: int, epoch: int, mark: str) -> list[DataFile]:
    files, added = NewFiles(url_of(folder), mark), list[DataFile]()
    for path in paths:
        name = local(files.beside(new_name(instant, epoch)))
        _link(path, name)
        added.append(written_file(name))
    files.synced()
    return added


def _by_name(files: Iterable[DataFile]) -> dict[str, DataFile]:
    return {one.name: one for one in files}


def _link(path: Path, name: Path) -> None:
    try:
        os.link(path, name)
    except OSError:
        # Another file system, or one without links.
        shutil.copyfile(path, name)
        sync(name)
