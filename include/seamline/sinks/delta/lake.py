"""A lake of Delta tables, as one destination has it."""

from functools import partial

from seamline.plan.model import DestinationPlan
from seamline.sinks.delta import types
from seamline.sinks.delta.catalogue import DeltaCatalogue
from seamline.sinks.delta.cuts import open_cuts
from seamline.sinks.delta.options import options_of
from seamline.sinks.delta.placing import misfit_at
from seamline.sinks.delta.read_back import live, open_at
from seamline.sinks.delta.reading import table_at
from seamline.sinks.delta.retention import sweep
from seamline.sinks.lake.lake import Lake
from seamline.sinks.lake.spark_types import type_name


def lake_of(destination: DestinationPlan) -> Lake:
    warehouse = options_of(destination).warehouse
    catalogue = DeltaCatalogue(warehouse)
    return Lake(
        catalogue,
        warehouse,
        # Not among the tables, whose folders stay.
        loads_in=f"loads_of_{destination.namespace}",
        storage=types,
        live=live,
        at=open_at(destination),
        open_table=table_at,
        misfit=misfit_at,
        open_cuts=partial(open_cuts, destination),
        sweep=partial(sweep, catalogue=catalogue, destination=destination),
        type_of=type_name,
    )
