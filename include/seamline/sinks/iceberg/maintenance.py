"""Maintenance of Iceberg tables as a destination: what a lake has, with the files and tags that dead runs have left."""

from collections.abc import Sequence
from contextlib import closing

from seamline.databases.postgres import client
from seamline.databases.postgres.client import Session
from seamline.plan.model import DestinationPlan
from seamline.ports.maintenance import DestinationMaintenance
from seamline.sinks.iceberg.cuts import open_cuts
from seamline.sinks.iceberg.io import warehouse_root
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.orphans import drop_orphans
from seamline.sinks.iceberg.rest_maintenance import open_rest_maintenance
from seamline.sinks.lake import maintenance
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.files import translated
from seamline.sinks.lake.loads import drop_abandoned


def open_maintenance(destination: DestinationPlan) -> DestinationMaintenance:
    options = options_of(destination)
    if options.is_rest:
        return open_rest_maintenance(destination)
    catalogue = Catalogue(options.catalog)

    def drop() -> int:
        with closing(open_cuts(destination)) as cuts:
            return drop_abandoned(warehouse_root(options), destination.namespace) + cuts.drop_old_pins()

    def orphans(session: Session) -> int:
        def all_pointers() -> Sequence[str]:
            with client.translated("read the pointers of all tables"):
                return catalogue.all_pointers(session)

        with translated("drop the files that no table names"):
            return drop_orphans(all_pointers, options, destination.namespace)

    return maintenance.open_maintenance(destination, catalogue, drop_abandoned=drop, drop_orphans=orphans)
