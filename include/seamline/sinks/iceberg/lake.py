"""A lake of Iceberg tables, as one destination has it."""

from collections.abc import Sequence
from functools import partial

from seamline.databases.postgres.client import Session, translated
from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg import types
from seamline.sinks.iceberg.cuts import open_cuts
from seamline.sinks.iceberg.io import warehouse_root
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.orphans import drop_orphans
from seamline.sinks.iceberg.placing import misfit_in
from seamline.sinks.iceberg.read_back import live_in, open_at
from seamline.sinks.iceberg.reading import table_at
from seamline.sinks.iceberg.single.pointers import pointers_of
from seamline.sinks.lake.lake import Lake


def lake_of(destination: DestinationPlan) -> Lake:
    options = options_of(destination)
    catalogue = pointers_of(options)

    def sweep(session: Session) -> int:
        def all_pointers() -> Sequence[str]:
            with translated("read the pointers of all tables"):
                return catalogue.all_pointers(session)

        return drop_orphans(all_pointers, options, destination.namespace)

    return Lake(
        catalogue,
        warehouse_root(options),
        loads_in=destination.namespace,
        storage=types,
        live=live_in(destination),
        at=open_at(destination),
        open_table=partial(table_at, connection=options.warehouse_connection),
        misfit=misfit_in(destination),
        open_cuts=partial(open_cuts, destination),
        sweep=sweep,
        type_of=lambda column: str(types.iceberg_type(column)),
    )
