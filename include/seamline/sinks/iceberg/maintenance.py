"""Maintenance of Iceberg tables as a destination: what a lake has, with the files and tags that dead runs have left."""

from contextlib import closing

from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.cuts import open_cuts
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.lake import maintenance
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.loads import drop_abandoned
from seamline.sinks.lake.maintenance import LakeMaintenance


def open_maintenance(destination: DestinationPlan) -> LakeMaintenance:
    options = options_of(destination)

    def drop() -> int:
        with closing(open_cuts(destination)) as cuts:
            return drop_abandoned(options.warehouse, destination.namespace) + cuts.drop_old_pins()

    return maintenance.open_maintenance(destination, Catalogue(options.catalog), drop_abandoned=drop)
