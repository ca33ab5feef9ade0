"""What keeps Hudi tables from taking a sync's: the ledger's database, the warehouse, names of columns."""

import re
from collections.abc import Iterator

from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem
from seamline.sinks.hudi.catalogue import HudiCatalogue
from seamline.sinks.hudi.options import options_of
from seamline.sinks.lake.preflight import problems as problems_of_the_ledger
from seamline.sinks.lake.warehouse import of_all_names, of_links, of_namespace, of_warehouse

# As Avro has names, by which Hudi's clients know the columns of a table.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_HUDI = frozenset(
    {
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
        "_hoodie_is_deleted",
        "_hoodie_operation",
    }
)


def problems(plan: SyncPlan, destination: DestinationPlan) -> tuple[Problem, ...]:
    options = options_of(destination)
    found = [*of_warehouse(options.warehouse), *of_links(options.warehouse)]
    found += [*of_all_names(plan, reserved=_OF_HUDI), *_of_names(plan)]
    for others in ("metadata", "_delta_log"):
        found += of_namespace(options.warehouse, destination.namespace, others=others)
    return (
        *(Problem(f"destination {destination.name}: {what}", cure) for what, cure in found),
        *problems_of_the_ledger(plan, destination, HudiCatalogue(options.warehouse)),
    )


def _of_names(plan: SyncPlan) -> Iterator[tuple[str, str]]:
    for entry in plan.tables:
        for column in entry.table.columns if entry.table is not None else ():
            if not _NAME.fullmatch(column.name):
                yield (
                    f"column {column.name!r} of table {entry.name} has a name that Hudi does not take: letters from A"
                    " to Z, digits and _",
                    "rename the column at the source, or leave the table out of the sync",
                )
