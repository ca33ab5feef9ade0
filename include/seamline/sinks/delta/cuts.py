"""Cuts of Delta tables: a row of the ledger's database names the version of each, and nobody removes what it needs.

No tag is written into a table: Delta has none, and a version is found by its number.
"""

from seamline.domain.errors import Refused
from seamline.plan.model import DestinationPlan
from seamline.sinks.delta.catalogue import DeltaCatalogue
from seamline.sinks.delta.derived import cut_derived
from seamline.sinks.delta.log import DeltaLog
from seamline.sinks.delta.options import options_of
from seamline.sinks.delta.pointer import Pointer, version_of
from seamline.sinks.lake import cuts as lake_cuts
from seamline.sinks.lake.cuts import LakeCuts
from seamline.sinks.lake.tagging import TableTags


class VersionsAsTags:
    """`lake.tagging.Tagging` of tables whose versions need no tag: the rows of the cut are enough."""

    def heads(self, locations: dict[str, str]) -> dict[str, int]:
        return {table: Pointer.parsed(location).number for table, location in locations.items()}

    def staged(self, table: str, location: str, tags: TableTags, *, mark: str) -> None:
        """Nothing changes. Refused: a version is gone, or of a table that has left and come again since."""
        pointer = Pointer.parsed(location)
        for tag in tags.put:
            if not _has(pointer, tag.snapshot_id):
                raise Refused(
                    f"table {table}: its version {version_of(tag.snapshot_id)} is gone, {tag.name} cannot hold it",
                    hint="nothing was published: run the task `cut` again",
                    table=table,
                )


def _has(pointer: Pointer, number: int) -> bool:
    try:
        version = pointer.at_number(number).version
    except Refused:
        return False
    log = DeltaLog(pointer.folder)
    return log.commit_file(version).exists() or log.checkpoint_file(version).exists()


def open_cuts(destination: DestinationPlan) -> LakeCuts:
    catalogue = DeltaCatalogue(options_of(destination).warehouse)
    return lake_cuts.open_cuts(destination, catalogue, VersionsAsTags(), derived=cut_derived(destination))
