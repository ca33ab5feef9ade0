"""Derived tables of Iceberg tables: `lake.derived` over pyiceberg's scans, and their place when a cut is published."""

from collections.abc import Mapping, Sequence
from functools import partial

from seamline.domain.ledger import StreamId
from seamline.plan.model import DestinationPlan
from seamline.ports import Load
from seamline.sinks.iceberg import types
from seamline.sinks.iceberg.io import warehouse_io, warehouse_root
from seamline.sinks.iceberg.options import LakeOptions, options_of
from seamline.sinks.iceberg.placing import Placing
from seamline.sinks.iceberg.reading import IcebergTable
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.cut_derived import Placed
from seamline.sinks.lake.derived import LakeDerived
from seamline.sinks.lake.loads import StagedFiles
from seamline.sinks.lake.store import PointerMove


def derived_tables(destination: DestinationPlan) -> LakeDerived:
    options = options_of(destination)
    root, opened = warehouse_root(options), partial(_opened, connection=options.warehouse_connection)
    return LakeDerived(Catalogue(options.catalog), root, destination.namespace, types, opened)


def placed(options: LakeOptions) -> Placed:
    """What makes tables of the files of derived ones."""

    def moves(
        stream: StreamId, loads: Sequence[Load], staged: Mapping[str, StagedFiles], heads: Mapping[str, str]
    ) -> Sequence[PointerMove]:
        return (
            Placing(options, warehouse_io(options), f"{stream.sync}-derived").of_publish(loads, staged, heads, {}).moves
        )

    return moves


def _opened(name: str, location: str, snapshot_id: int, columns: Sequence[str], *, connection: str) -> IcebergTable:
    return IcebergTable(name, location, snapshot_id, tuple(columns), connection)
