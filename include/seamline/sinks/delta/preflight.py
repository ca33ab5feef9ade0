"""What keeps Delta tables from taking a sync's: the ledger's database, the warehouse, names of columns."""

from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.delta.catalogue import DeltaCatalogue
from seamline.sinks.delta.options import options_of
from seamline.sinks.lake.preflight import problems as problems_of_the_ledger
from seamline.sinks.lake.warehouse import of_all_names, of_links, of_namespace, of_warehouse

# Delta's own writers refuse these in the name of a column of a table without column mapping.
_REFUSED = " ,;{}()\n\t="


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    options = options_of(destination)
    found = [*of_warehouse(options.warehouse), *of_links(options.warehouse)]
    found += of_all_names(plan, refused=_REFUSED)
    found += of_namespace(options.warehouse, destination.namespace, others="metadata")
    return (
        *(Problem(f"destination {destination.name}: {what}", cure) for what, cure in found),
        *problems_of_the_ledger(plan, destination, DeltaCatalogue(options.warehouse)),
    )
