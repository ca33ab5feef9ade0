"""What no instant needs any more leaves: data files, old commits of the timeline, folders of nobody.

Kept is what the ledger's database names: the instant that counts, those of the newest commits, those that a cut or a
run holds. Hudi's own cleaner knows nothing of cuts; it runs within Hudi's writers, and none writes these tables.

Hudi's readers see a data file by its name and the timeline by theirs: a file is in the table if its instant is in the
timeline and no later commit there has replaced it. So a commit stays as long as a file is on the disk that it added or
replaced. The first one always stays: what is older than a timeline's beginning counts as committed.
"""

import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seamline.databases.postgres.client import Session
from seamline.domain.errors import Refused
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.sinks.hudi.catalogue import HudiCatalogue
from seamline.sinks.hudi.instants import text_of
from seamline.sinks.hudi.pointer import Pointer, folders_there, is_folder_of, pointer_in
from seamline.sinks.hudi.state import changed_files
from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.lake import cut_rows
from seamline.sinks.lake import state as lake_state
from seamline.sinks.lake.files import local, namespace_folder
from seamline.sinks.lake.loads import ABANDONED_AFTER_S

# What is younger may be of a commit on its way, or read by somebody who has just looked.
YOUNG_S = 86_400


@dataclass(slots=True)
class Kept:
    """Of one table: where the ledger has it, the instants of recent commits, and those that cuts and runs hold."""

    pointer: Pointer
    recent: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)

    @property
    def oldest(self) -> int:
        """From here on every instant stays."""
        return min({self.pointer.instant, *self.recent})


def sweep(session: Session, catalogue: HudiCatalogue, destination: DestinationPlan) -> int:
    """How many files and folders have left. Refused, and nothing has: the folder is another ledger's, or see
    `kept_instants`."""
    folder = local(namespace_folder(catalogue.warehouse, destination.namespace))
    if folder.is_dir():
        catalogue.claim(session, destination.namespace)
    kept = kept_instants(session, catalogue, destination)
    # A table without recent commits is of another destination with this namespace, whose cuts are not known here.
    mine = [one for one in kept.values() if one.recent and Timeline(one.pointer.folder).is_there]
    count = sum(map(sweep_table, mine))
    return count + _drop_folders(catalogue.warehouse, destination.namespace, named=kept)


def kept_instants(session: Session, catalogue: HudiCatalogue, destination: DestinationPlan) -> dict[Path, Kept]:
    """By folder, of every table of the destination that has a row.

    Refused: an instant is to be kept and no folder has it, though the table's folder is as old.
    """
    with session.transaction():
        found = catalogue.folders(session)
        recent = lake_state.all_of(session, destination.name)
        held = cut_rows.held(session, destination.name)
    namespace = destination.namespace
    kept = {
        pointer.folder: Kept(pointer)
        for name, pointers in found.items()
        if name == namespace or name.startswith(f"{namespace}_incremental_")
        for pointer in pointers
    }
    there: dict[str, list[Path]] = {}
    for instants, is_recent in ((recent, True), (held, False)):
        for stream, table, instant in instants:
            if INCREMENTAL in stream:
                continue
            if table not in there:
                there[table] = folders_there(catalogue.warehouse, namespace, table)
            place = pointer_in(there[table], instant)
            if place is None:
                named = [one for one in kept if is_folder_of(one, catalogue.warehouse, namespace, table)]
                _require_gone(table, instant, named)
            elif place.folder in kept:
                (kept[place.folder].recent if is_recent else kept[place.folder].held).add(instant)
    return kept


def _require_gone(table: str, instant: int, folders: Iterable[Path]) -> None:
    """Refused where one of the table's folders that rows lead to may have been the instant's. One that begins later is
    not: what lay there at the instant has left, with its folder."""
    for folder in folders:
        timeline = Timeline(folder)
        if not timeline.is_there or min(timeline.commits().values(), default=0) <= instant:
            raise Refused(
                f"instant {text_of(instant)} of table {table} is kept, and no folder of the table has it: {folder}",
                hint="nothing of the destination is dropped until it is there again, or the cuts that hold it are over",
                table=table,
            )


def sweep_table(kept: Kept) -> int:
    """Drop what none of these instants needs; how many files."""
    timeline = Timeline(kept.pointer.folder)
    try:
        # Before anything goes: each of them can be read.
        states = [timeline.read(name) for name in timeline.commits()]
    except Refused:
        # Somebody else has written the table, which stops its stream: people look at it first.
        return 0
    commits = sorted(state.instant for state in states)
    named = {instant for instant in commits if instant >= kept.oldest or instant in kept.held}
    files = {name for state in states if state.instant in named for name in state.files}
    _, head = timeline.head()
    files |= set(head.files)
    dropped = _drop_old(path for path in timeline.folder.glob("*.parquet") if path.name not in files)
    dropped += _drop_turns(timeline, head.instant)
    return dropped + _drop_commits(timeline, commits[1:], named=named)


def _drop_turns(timeline: Timeline, newest: int) -> int:
    """Old numbers and reservations. Drafts go first: whoever begins one later sees the newest number, and an older
    number goes only once no draft is left that was begun before it was taken."""
    dropped = _drop_old(timeline.numbers_path.glob(".*.json"))
    dropped += _drop_old(timeline.number_file(number) for number in timeline.numbers()[:-1])
    reserved = timeline.numbers_path.glob("*.taken")
    return dropped + _drop_old(path for path in reserved if int(path.stem) < newest)


def _drop_commits(timeline: Timeline, instants: Iterable[int], *, named: set[int]) -> int:
    there = {path.name.split("_", 1)[0] for path in timeline.folder.glob("*.parquet")}
    unneeded = []
    for instant in instants:
        if instant in named:
            continue
        path = timeline.commit_file(instant)
        added, gone = changed_files(path.read_text(encoding="utf-8"))
        if there.isdisjoint(added | gone):
            unneeded.append(path)
    return _drop_old(unneeded)


def _drop_old(paths: Iterable[Path]) -> int:
    dropped = 0
    for path in list(paths):
        if not _is_young(path):
            path.unlink(missing_ok=True)
            dropped += 1
    return dropped


def _drop_folders(warehouse: str, namespace: str, *, named: Mapping[Path, Kept]) -> int:
    """Tables that no row leads to: of a publish that never came to its ledger, or of an incremental snapshot that is
    over, whose files the live table has by links of its own."""
    place = local(namespace_folder(warehouse, namespace))
    both = [place, *place.parent.glob(f"{place.name}_incremental_*")]
    folders = [folder for one in both if one.is_dir() for folder in one.iterdir() if folder not in named]
    over = [folder for folder in folders if Timeline(folder).is_there and _is_abandoned(Timeline(folder))]
    for folder in over:
        shutil.rmtree(folder, ignore_errors=True)
    return len(over)


def _is_abandoned(timeline: Timeline) -> bool:
    touched = max(path.stat().st_mtime for path in (timeline.numbers_path, *timeline.numbers_path.iterdir()))
    return touched < time.time() - ABANDONED_AFTER_S


def _is_young(path: Path) -> bool:
    """By when its name came there too: a file that is linked into a table keeps the time of its content."""
    found = path.stat()
    return max(found.st_mtime, found.st_ctime) > time.time() - YOUNG_S
