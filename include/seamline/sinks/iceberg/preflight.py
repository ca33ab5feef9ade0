"""What keeps Iceberg tables from taking a sync's: the catalogue's database, the warehouse, names of columns."""

from collections.abc import Iterator

from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.preflight import problems as problems_of_the_catalogue
from seamline.sinks.lake.warehouse import CURE_OF_NAMES, of_all_names, of_namespace, of_warehouse

# Iceberg's metadata columns (`MetadataColumns`, Iceberg 1.12): Spark opens no table that has one of its own.
_OF_ICEBERG = frozenset(
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
    found = [*of_warehouse(options.warehouse), *of_all_names(plan), *of_reserved_names(plan)]
    found += of_namespace(options.warehouse, destination.namespace, others="_delta_log")
    return (
        *(Problem(f"destination {destination.name}: {what}", cure) for what, cure in found),
        *problems_of_the_catalogue(plan, destination, Catalogue(options.catalog)),
    )


def of_reserved_names(plan: SyncPlan) -> Iterator[tuple[str, str]]:
    for table in (entry.table for entry in plan.tables if entry.table is not None):
        for column in table.columns:
            if column.name.lower() in _OF_ICEBERG:
                yield (
                    f"column {column.name} of table {table.name} has a name that Iceberg's clients keep for themselves",
                    CURE_OF_NAMES,
                )
