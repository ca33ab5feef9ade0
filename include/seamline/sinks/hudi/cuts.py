"""Cuts of Hudi tables: a row of the ledger's database names the instant of each, and nobody removes what it needs.

No tag is written into a table: an instant is found by its name.
"""

from seamline.domain.errors import Refused
from seamline.plan.model import DestinationPlan
from seamline.sinks.hudi.catalogue import HudiCatalogue
from seamline.sinks.hudi.derived import cut_derived
from seamline.sinks.hudi.instants import text_of
from seamline.sinks.hudi.options import options_of
from seamline.sinks.hudi.pointer import Pointer
from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.lake import cuts as lake_cuts
from seamline.sinks.lake.cuts import LakeCuts
from seamline.sinks.lake.tagging import TableTags


class InstantsAsTags:
    """`lake.tagging.Tagging` of tables whose instants need no tag: the rows of the cut are enough."""

    def heads(self, locations: dict[str, str]) -> dict[str, int]:
        return {table: Pointer.parsed(location).instant for table, location in locations.items()}

    def staged(self, table: str, location: str, tags: TableTags, *, mark: str) -> None:
        """Nothing changes. Refused: an instant is gone, or of a table that has left and come again since."""
        timeline = Timeline(Pointer.parsed(location).folder)
        for tag in tags.put:
            if not timeline.has(tag.snapshot_id):
                raise Refused(
                    f"table {table}: its instant {text_of(tag.snapshot_id)} is gone, {tag.name} cannot hold it",
                    hint="nothing was published: run the task `cut` again",
                    table=table,
                )


def open_cuts(destination: DestinationPlan) -> LakeCuts:
    catalogue = HudiCatalogue(options_of(destination).warehouse)
    return lake_cuts.open_cuts(destination, catalogue, InstantsAsTags(), derived=cut_derived(destination))
