"""How the metadata file that a catalogue leads to stands to the one that the ledger leads to."""

from collections.abc import Iterator
from enum import Enum

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation

from seamline.domain.cut_names import is_tag
from seamline.sinks.lake.tagging import OF_RUNS


class Relation(Enum):
    BEHIND = "behind"  # the ledger goes on from it
    AHEAD = "ahead"  # it goes on from the ledger's
    LOST = "lost"  # both go on from one before, and of the catalogue's side nothing is missed
    APART = "apart"  # both go on from one before, and the catalogue's side has more or less than its compactions


def relation(ledger: TableMetadata, pointer: str, there: TableMetadata, entry: str) -> Relation:
    """`pointer` and `entry`: the files of `ledger` and of `there`, which differ. Both are of one table."""
    if is_behind(ledger, entry):
        return Relation.BEHIND
    if any(one.metadata_file == pointer for one in there.metadata_log) or _goes_on(there, ledger):
        return Relation.AHEAD
    return Relation.LOST if _adds_nothing(there, ledger) else Relation.APART


def is_behind(ledger: TableMetadata, entry: str) -> bool:
    return any(one.metadata_file == entry for one in ledger.metadata_log)


def _goes_on(there: TableMetadata, ledger: TableMetadata) -> bool:
    """Whether it has the head and all tags of the ledger's, whose name has left its log since. With a tag of ours more
    it goes on from a file before that one: the tag was dropped since."""
    ours, theirs = _beside_main(ledger), _beside_main(there)
    has_names = ours.items() <= theirs.items() and not {name for name in theirs if _is_ours(name)} - ours.keys()
    head = ledger.current_snapshot_id
    return has_names and head is not None and head in _line(there)


def _adds_nothing(there: TableMetadata, ledger: TableMetadata) -> bool:
    """Whether its side holds compactions alone, and has let go of no snapshot that the ledger's side has from before:
    with one its files may be gone. Tags of ours are as the ledger has them."""
    if not _are_alike(there, ledger):
        return False
    line = list(_line(ledger))
    number = there.current_snapshot_id
    while number is not None and number not in line:
        snapshot = there.snapshot_by_id(number)
        if snapshot is None or snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE:
            return False
        number = snapshot.parent_snapshot_id
    if number is None:
        return False
    own = set(line[: line.index(number)])
    known = {one.snapshot_id for one in there.snapshots}
    return all(one.snapshot_id in known | own for one in ledger.snapshots)


def _are_alike(there: TableMetadata, ledger: TableMetadata) -> bool:
    """In all that somebody may change beside rows: a change of it would be lost with its side."""
    others = [
        {name: ref for name, ref in one.refs.items() if name != MAIN_BRANCH and not _is_ours(name)}
        for one in (there, ledger)
    ]
    said = [
        (one.properties, one.current_schema_id, one.default_spec_id, one.default_sort_order_id)
        for one in (there, ledger)
    ]
    return others[0] == others[1] and said[0] == said[1]


def _is_ours(name: str) -> bool:
    return is_tag(name) or name.startswith(OF_RUNS)


def _beside_main(metadata: TableMetadata) -> dict[str, int]:
    """The snapshots of tags and branches."""
    return {name: ref.snapshot_id for name, ref in metadata.refs.items() if name != MAIN_BRANCH}


def _line(metadata: TableMetadata) -> Iterator[int]:
    """The head and the snapshots before it, the newest first."""
    number = metadata.current_snapshot_id
    while number is not None and (snapshot := metadata.snapshot_by_id(number)) is not None:
        yield number
        number = snapshot.parent_snapshot_id
