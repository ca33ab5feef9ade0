"""Maintenance of Hudi tables as a destination: what a lake has, with the files that no instant needs any more."""

from contextlib import closing

from seamline.databases.postgres.client import Session
from seamline.plan.model import DestinationPlan
from seamline.sinks.hudi.catalogue import HudiCatalogue
from seamline.sinks.hudi.cuts import open_cuts
from seamline.sinks.hudi.options import loads_namespace, options_of
from seamline.sinks.hudi.retention import sweep
from seamline.sinks.lake import maintenance
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.loads import drop_abandoned
from seamline.sinks.lake.maintenance import LakeMaintenance


def open_maintenance(destination: DestinationPlan) -> LakeMaintenance:
    catalogue = HudiCatalogue(options_of(destination).warehouse)

    def drop() -> int:
        with closing(open_cuts(destination)) as cuts:
            return drop_abandoned(catalogue.warehouse, loads_namespace(destination.namespace)) + cuts.drop_old_pins()

    def orphans(session: Session) -> int:
        with translated("drop the files that no instant needs"):
            return sweep(session, catalogue, destination)

    return maintenance.open_maintenance(destination, catalogue, drop_abandoned=drop, drop_orphans=orphans)
