"""Maintenance of Iceberg tables as a destination: what a lake has, with the files and tags that dead runs have left."""

from contextlib import closing

from seamline.databases.postgres.client import Session
from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.cuts import open_cuts
from seamline.sinks.iceberg.io import warehouse_root
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.orphans import drop_orphans
from seamline.sinks.lake import maintenance
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.loads import drop_abandoned
from seamline.sinks.lake.maintenance import LakeMaintenance


def open_maintenance(destination: DestinationPlan) -> LakeMaintenance:
    options = options_of(destination)
    catalogue = Catalogue(options.catalog)

    def drop() -> int:
        with closing(open_cuts(destination)) as cuts:
            return drop_abandoned(warehouse_root(options), destination.namespace) + cuts.drop_old_pins()

    def orphans(session: Session) -> int:
        with translated("drop the files that no table names"):
            return drop_orphans(session, catalogue, options, destination.namespace)

    return maintenance.open_maintenance(destination, catalogue, drop_abandoned=drop, drop_orphans=orphans)
