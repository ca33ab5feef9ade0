"""What keeps Iceberg tables from taking a sync's: the catalogue's database, the warehouse, names of columns."""

from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.iceberg import rest_preflight
from seamline.sinks.iceberg.options import LakeOptions, options_of
from seamline.sinks.iceberg.single import preflight as single_preflight
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.preflight import problems as problems_of_the_catalogue
from seamline.sinks.lake.warehouse import of_all_names, of_namespace, of_warehouse

# Iceberg's metadata columns (`MetadataColumns`, Iceberg 1.12): Spark opens no table that has one of its own.
OF_ICEBERG = frozenset(
    {
        "_file",
        "_pos",
        "_deleted",
        "_spec_id",
        "_partition",
        "_change_type",
        "_change_ordinal",
        "_commit_snapshot_id",
        "_row_id",
        "_last_updated_sequence_number",
    }
)


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    options = options_of(destination)
    connection = options.warehouse_connection
    found = [*of_warehouse(options.warehouse, connection)]
    if not found:
        found += of_namespace(options.warehouse, destination.namespace, others="_delta_log", connection=connection)
    found += of_all_names(plan, reserved=OF_ICEBERG)
    return (
        *(Problem(f"destination {destination.name}: {what}", cure) for what, cure in found),
        *_of_the_catalogue(plan, destination, options),
    )


def _of_the_catalogue(plan: SyncPlan, destination: DestinationPlan, options: LakeOptions) -> tuple[Problem, ...]:
    if options.is_rest:
        return rest_preflight.problems(plan, destination)
    if options.is_single:
        return single_preflight.problems(plan, destination)
    return problems_of_the_catalogue(plan, destination, Catalogue(options.catalog))
