"""Maintenance of Iceberg tables in a REST catalogue: its ledgers, and what nobody needs any more there."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing

from seamline.domain.errors import Refused, TransientError
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import DestinationPlan
from seamline.ports.maintenance import INCREMENTAL_KEPT_DAYS, LetGo
from seamline.sinks.iceberg.io import warehouse_root
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.orphans import drop_orphans
from seamline.sinks.iceberg.rest_client import RestClient
from seamline.sinks.iceberg.rest_cuts import open_rest_cuts
from seamline.sinks.iceberg.rest_opening import open_client, open_store
from seamline.sinks.iceberg.rest_store import RestStore
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.loads import drop_abandoned

_DAY_MS = 86_400_000
_ATTEMPTS = 5


class RestMaintenance:
    """`DestinationMaintenance` of one destination. Findings stay: the ledger's own snapshots are what holds them."""

    def __init__(self, destination: DestinationPlan, client: RestClient, store: RestStore) -> None:
        self._destination = destination
        self._client = client
        self._store = store

    def ledgers(self) -> Sequence[LedgerPlace]:
        rows = [ledger.state.row for ledger in self._store.ledgers() if ledger.state is not None]
        return [LedgerPlace(str(row.stream), row.topic, row.topic_id, row.next_offset) for row in rows]

    def let_go(self) -> LetGo:
        """Incremental snapshots that nobody goes on with, and files that nothing names any more."""
        options, namespace = options_of(self._destination), self._destination.namespace
        before_ms = int(time.time() * 1000) - INCREMENTAL_KEPT_DAYS * _DAY_MS
        ended = self._store.end_dead_snapshots(before_ms=before_ms)
        with translated("drop the files that no table names"):
            staged = drop_abandoned(warehouse_root(options), namespace) + self._drop_old_pins()
            orphans, kept = self._drop_orphans()
        return LetGo(0, tuple(map(str, ended)), staged, orphan_files=orphans, orphans_kept=kept)

    def _drop_orphans(self) -> tuple[int, str]:
        """How many, and why none. A table that this login may not read may have any file as its own."""
        unread: list[Refused] = []

        def pointers() -> Sequence[str]:
            try:
                return all_pointers(self._client)
            except Refused as exc:
                unread.append(exc)
                raise

        try:
            return drop_orphans(pointers, options_of(self._destination), self._destination.namespace), ""
        except Refused as exc:
            if exc not in unread:
                raise
            return 0, f"{exc.message}. Let this login read every table of the catalogue, or drop old files by hand"

    def _drop_old_pins(self) -> int:
        with closing(open_rest_cuts(self._destination)) as cuts:
            return cuts.drop_old_pins()

    def close(self) -> None:
        self._client.close()
        self._store.close()


def open_rest_maintenance(destination: DestinationPlan) -> RestMaintenance:
    return RestMaintenance(destination, open_client(destination), open_store(destination))


def all_pointers(client: RestClient) -> Sequence[str]:
    """Where those of all tables of the catalogue lead.

    No call reads them at once, and a table that gets another name while they are read would be missed: so they are read
    until the same names were found twice. TransientError: they change all the time.
    """
    before: Mapping[tuple[str, ...], str] = {}
    for attempt in range(_ATTEMPTS):
        found = {
            (*namespace, name): location
            for namespace in client.namespaces()
            for name, location in client.locations(namespace).items()
        }
        if attempt and found.keys() == before.keys():
            return list({*before.values(), *found.values()})
        before = found
    raise TransientError(
        "tables of the catalogue have come or gone each time that they were read",
        hint="no file was dropped; it is tried again",
    )
