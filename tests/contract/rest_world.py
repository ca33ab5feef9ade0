"""Iceberg tables in a REST catalogue as a destination that the behaviour suite runs over."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.ledger import LedgerRow
from seamline.ports import Failpoints, Sink
from seamline.sinks.iceberg.options import REST
from seamline.sinks.iceberg.rest_opening import open_store
from seamline.sinks.iceberg.rest_store import RestStore
from tests.contract.lake_worlds import LakeWorld
from tests.log_topic import STREAM
from tests.memory_sink import LostAnswer
from tests.rest_catalogue import Catalogue, serving


class RestWorld(LakeWorld):
    """`address`: host, port and path of a catalogue; where it is left out, that of a server of the tests' own,
    `catalogue`."""

    def __init__(self, tables: Sequence[Table], warehouse: Path, address: str = "") -> None:
        super().__init__(tables, warehouse, options={"catalog_type": REST})
        self.catalogue = Catalogue()
        self._opened = ExitStack()
        self._address = address or self._opened.enter_context(serving(self.catalogue)).removeprefix("http://")
        self._patch = self._opened.enter_context(pytest.MonkeyPatch.context())
        self.connect()

    def connect(self, login: str = "", kind: str = "iceberg", address: str = "") -> None:
        """Let the destination's connection lead there, or to another address. `login`: as a URI has it."""
        address = address or self._address
        where = f"{login}@{address}" if login else address
        uri = f"{kind}://{where}{'?scheme=http' if kind == 'iceberg' else ''}"
        self._patch.setenv(f"SEAMLINE_CONNECTION_{self.destination.connection.upper()}", uri)

    def store(self, *, failpoints: Failpoints | None = None) -> RestStore:
        store = open_store(self.destination, failpoints=failpoints)
        self._opened.callback(store.close)
        return store

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
