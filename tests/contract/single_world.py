"""Iceberg tables in a catalogue that commits single tables, as a destination that the behaviour suite runs over."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Table
from seamline.ports import Failpoints
from seamline.sinks.iceberg.options import HIVE
from seamline.sinks.iceberg.single.catalogue import Entry, SingleCatalogue
from seamline.sinks.iceberg.single.following import Following
from seamline.sinks.iceberg.single.store import SingleLakeStore
from tests.contract.lake_worlds import SINGLE, PostgresLakeWorld

# Between them every call of a sink, and what becomes of a lost answer.
OVER_A_METASTORE = {
    "a_lost_answer_of_an_applied_commit_is_found_again",
    "an_older_lease_can_never_commit_again",
    "a_second_publish_replaces_rows_fences_the_stream_and_begins_a_generation",
    "a_table_enters_a_stream_that_stands_where_its_incremental_snapshot_does_and_the_others_are_untouched",
}


class SingleWorld(PostgresLakeWorld):
    """Its rows are those that the catalogue leads to, whatever the ledger says. `open_catalogue`: the one of a
    namespace, which is emptied first."""

    def __init__(
        self,
        tables: Sequence[Table],
        connection: Connection,
        warehouse: Path,
        open_catalogue: Callable[[str], SingleCatalogue],
        *,
        catalog_type: str = HIVE,
    ) -> None:
        options = (*SINGLE.options, ("catalog_type", catalog_type))
        super().__init__(tables, connection, warehouse, lake=replace(SINGLE, options=options))
        self.open_catalogue = lambda: open_catalogue(self.destination.namespace)
        with closing(self.open_catalogue()) as catalogue:
            for name in catalogue.entries():
                catalogue.drop(name)

    def store(self, *, failpoints: Failpoints | None = None) -> SingleLakeStore:
        made = SingleLakeStore(self.destination, self.following(), resolve=self._resolve, failpoints=failpoints)
        self._stores.append(made)
        return made

    def following(self) -> Following:
        return Following(self.destination, self.open_catalogue)

    def entries(self) -> Mapping[str, Entry]:
        with closing(self.open_catalogue()) as catalogue:
            return catalogue.entries()

    def shown(self) -> dict[str, str]:
        return {name: entry.pointer for name, entry in self.entries().items()}

    def led(self) -> dict[str, str]:
        """Where the ledger leads."""
        found = self.session.execute(
            "SELECT table_name, metadata_location FROM seamline.iceberg_table WHERE table_namespace = 'settlement'"
        )
        return {str(name): str(pointer) for name, pointer in found.fetchall()}

    def heads(self) -> Mapping[str, str]:
        return self.shown()
