"""What no version needs any more leaves: data files, deletion vectors, the log's old entries, folders of nobody.

Kept is what the ledger's database names: the version that counts, those of the newest commits, those that a cut or a
run holds. Delta's own VACUUM knows nothing of cuts, so tables say in their properties that it is to leave them alone.
"""

import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from seamline.databases.postgres.client import Session
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.sinks.delta.catalogue import DeltaCatalogue
from seamline.sinks.delta.log import DeltaLog, hadoop_checksum
from seamline.sinks.delta.pointer import Pointer, folder_of_number, version_of
from seamline.sinks.delta.state import DataFile, TableState
from seamline.sinks.lake import cut_rows
from seamline.sinks.lake import state as lake_state
from seamline.sinks.lake.files import local, namespace_folder
from seamline.sinks.lake.loads import ABANDONED_AFTER_S

# What is younger may be of a commit on its way, or read by somebody who has just looked.
YOUNG_S = 86_400


@dataclass(slots=True)
class Kept:
    """Of one table: where the ledger has it, the versions of recent commits, and those that cuts and runs hold."""

    pointer: Pointer
    recent: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)

    @property
    def oldest(self) -> int:
        """From here on every version stays."""
        return min({self.pointer.version, *self.recent})


def sweep(session: Session, catalogue: DeltaCatalogue, destination: DestinationPlan) -> int:
    """How many files and folders have left. Refused, and nothing has: the folder is another ledger's."""
    folder = local(namespace_folder(catalogue.warehouse, destination.namespace))
    if folder.is_dir():
        catalogue.claim(session, destination.namespace)
    kept, left = kept_versions(session, catalogue, destination)
    # A table without recent commits is of another destination with this namespace, whose cuts are not known here.
    mine = [one for one in kept.values() if one.recent and DeltaLog(one.pointer.folder).is_there]
    count = sum(map(sweep_table, mine))
    return count + _drop_folders(catalogue.warehouse, destination.namespace, named={*kept, *left})


def kept_versions(
    session: Session, catalogue: DeltaCatalogue, destination: DestinationPlan
) -> tuple[dict[Path, Kept], set[Path]]:
    """By folder, of every table of the destination that has a row; and the folders that have none, though a commit of
    the last days or a cut names a version of theirs. If one of these went, another table would get its name, and
    numbers that mean the earlier one."""
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
    left = set[Path]()
    for numbers, is_recent in ((recent, True), (held, False)):
        for stream, table, number in numbers:
            folder = folder_of_number(catalogue.warehouse, namespace, table, number)
            if INCREMENTAL in stream:
                continue
            if folder not in kept:
                left.add(folder)
            else:
                (kept[folder].recent if is_recent else kept[folder].held).add(version_of(number))
    return kept, left


def sweep_table(kept: Kept) -> int:
    """Drop what none of these versions needs; how many files."""
    log = DeltaLog(kept.pointer.folder)
    older = sorted(version for version in kept.held if version < kept.oldest)
    # Before anything goes: each version that is held stands on a checkpoint of its own.
    states = [log.at(version) for version in older]
    oldest = log.at(kept.oldest)
    for state in states:
        if not log.checkpoint_file(state.version).exists():
            log.write_checkpoint(state)
    named = {path for state in (*states, oldest) for path in _files_of(state, log.folder)}
    named |= set(_files_since(log, oldest))
    named |= {hadoop_checksum(path) for path in named}
    return _drop_files(log.folder, named) + _drop_entries(log, oldest, held=set(older))


def _files_of(state: TableState, folder: Path) -> Iterator[Path]:
    for file in state.files.values():
        yield from _paths_of(file, folder)


def _files_since(log: DeltaLog, oldest: TableState) -> Iterator[Path]:
    """What any version after the oldest one has, or has taken out but lately: somebody may be reading it."""
    version, young_ms = oldest.version + 1, (time.time() - YOUNG_S) * 1000
    while (actions := log.actions(version)) is not None:
        for action in actions:
            if "add" in action:
                yield from _paths_of(DataFile(action["add"]), log.folder)
            elif "remove" in action and action["remove"].get("deletionTimestamp", 0) > young_ms:
                yield from _paths_of(DataFile(action["remove"]), log.folder)
        version += 1


def _paths_of(file: DataFile, folder: Path) -> Iterator[Path]:
    yield file.path_in(folder)
    place = file.vector.file_in(folder) if file.vector else None
    if place is not None:
        yield place


def _drop_files(folder: Path, named: set[Path]) -> int:
    dropped = 0
    for path in list(folder.rglob("*")):
        if "_delta_log" in path.relative_to(folder).parts or path in named or not path.is_file():
            continue
        if not _is_young(path):
            path.unlink(missing_ok=True)
            dropped += 1
    return dropped


def _drop_entries(log: DeltaLog, oldest: TableState, *, held: set[int]) -> int:
    """Those before the newest checkpoint from which the oldest version can still be made."""
    checkpoints = log.checkpoints()
    begins = max((number for number in checkpoints if number <= oldest.version), default=0)
    unneeded = [log.commit_file(number) for number in log.versions() if number < begins and number not in held]
    unneeded += [log.checkpoint_file(number) for number in checkpoints if number < begins and number not in held]
    old = [path for path in unneeded if not _is_young(path)]
    for path in old:
        log.drop(path)
    return len(old)


def _drop_folders(warehouse: str, namespace: str, *, named: Collection[Path]) -> int:
    """Tables that no row leads to: of a publish that never came to its ledger, or of an incremental snapshot that is
    over, whose files the live table has by links of its own."""
    place = local(namespace_folder(warehouse, namespace))
    both = [place, *place.parent.glob(f"{place.name}_incremental_*")]
    folders = [folder for one in both if one.is_dir() for folder in one.iterdir() if folder not in named]
    over = [folder for folder in folders if (folder / "_delta_log").is_dir() and _is_abandoned(folder / "_delta_log")]
    for folder in over:
        shutil.rmtree(folder, ignore_errors=True)
    return len(over)


def _is_abandoned(log: Path) -> bool:
    return max(path.stat().st_mtime for path in (log, *log.iterdir())) < time.time() - ABANDONED_AFTER_S


def _is_young(path: Path) -> bool:
    """By when its name came there too: a file that is linked into a table keeps the time of its content."""
    found = path.stat()
    return max(found.st_mtime, found.st_ctime) > time.time() - YOUNG_S
