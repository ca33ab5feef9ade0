"""Maintenance of a Hive destination: folders that no partition leads to any more, and what dead runs have left."""

import shutil
from collections.abc import Sequence
from datetime import timedelta

from seamline.databases.postgres.client import translated
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import DestinationPlan
from seamline.ports.maintenance import LetGo
from seamline.sinks.hive import cut_rows
from seamline.sinks.hive.cuts import HiveCuts, open_cuts
from seamline.sinks.hive.options import options_of
from seamline.sinks.lake.files import local
from seamline.sinks.lake.files import translated as on_disk
from seamline.sinks.lake.loads import drop_abandoned, location_of

# A query reads the folders that its partitions led to when it was planned.
GRACE = timedelta(hours=24)


class HiveMaintenance:
    """`ports.maintenance.DestinationMaintenance` of one destination."""

    def __init__(self, destination: DestinationPlan, cuts: HiveCuts) -> None:
        self._destination = destination
        self._cuts = cuts

    def ledgers(self) -> Sequence[LedgerPlace]:
        """None: no stream writes here."""
        return ()

    def let_go(self) -> LetGo:
        warehouse = options_of(self._destination).warehouse
        session = self._cuts.session
        with translated("let go what nobody reads any more"), self._cuts.taking_turns():
            for location in cut_rows.folders_to_remove(session, self._destination.name, older_than=GRACE):
                with on_disk(f"remove {location}"):
                    folder = local(location_of(warehouse, location))
                    if folder.exists():
                        shutil.rmtree(folder)
                cut_rows.forget_folder(session, location)
        staged = drop_abandoned(warehouse, self._destination.namespace)
        return LetGo(findings=0, incremental_snapshots=(), staged=staged)

    def close(self) -> None:
        self._cuts.close()


def open_maintenance(destination: DestinationPlan) -> HiveMaintenance:
    return HiveMaintenance(destination, open_cuts(destination))
