"""Iceberg tables in a REST catalogue as a destination that the behaviour suite runs over."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.ledger import LedgerRow
from seamline.ports import Failpoints, Sink
from seamline.sinks.iceberg.io import warehouse_io, warehouse_root
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.rest_client import RestClient
from seamline.sinks.iceberg.rest_store import RestStore
from tests.contract.lake_worlds import CATALOG, LakeWorld
from tests.log_topic import STREAM
from tests.memory_sink import LostAnswer
from tests.rest_catalogue import Catalogue, serving


class RestWorld(LakeWorld):
    def __init__(self, tables: Sequence[Table], warehouse: Path) -> None:
        super().__init__(tables, warehouse)
        self.catalogue = Catalogue()
        self._opened = ExitStack()
        self._uri = self._opened.enter_context(serving(self.catalogue))

    def store(self, *, failpoints: Failpoints | None = None) -> RestStore:
        options = options_of(self.destination)
        client = RestClient(CATALOG, {"uri": self._uri})
        self._opened.callback(client.close)
        return RestStore(
            self.destination, client, warehouse_root(options), warehouse_io(options), failpoints=failpoints
        )

    def sink_losing_its_answer(self, lost: LostAnswer) -> Sink:
        self.catalogue.lose = lost
        return self.sink()

    def findings(self) -> list[Finding]:
        return sorted(self.store().findings(STREAM), key=lambda finding: finding.offset)

    def put_back(self, ledger: LedgerRow) -> None:
        """The ledger's table at a snapshot that says so."""
        store = self.store()
        found, state = store._published(ledger.stream)  # noqa: SLF001
        store._send(found, replace(state, row=ledger))  # noqa: SLF001

    def close(self) -> None:
        self._opened.close()
