"""Derived tables of Iceberg tables: their place when a cut is published."""

from collections.abc import Mapping, Sequence

from seamline.domain.catalogue import Table
from seamline.domain.ledger import StreamId
from seamline.ports import Load
from seamline.sinks.iceberg.io import warehouse_io, warehouse_root
from seamline.sinks.iceberg.manifests import read_head
from seamline.sinks.iceberg.options import LakeOptions
from seamline.sinks.iceberg.placing import Placing
from seamline.sinks.lake.cut_derived import CutDerived
from seamline.sinks.lake.loads import StagedFiles
from seamline.sinks.lake.store import PointerMove


def cut_derived(options: LakeOptions) -> CutDerived:
    io = warehouse_io(options)

    def moves(
        stream: StreamId, loads: Sequence[Load], staged: Mapping[str, StagedFiles], heads: Mapping[str, str]
    ) -> Sequence[PointerMove]:
        return Placing(options, io, f"{stream.sync}-derived").of_publish(loads, staged, heads, {}).moves

    def differing(table: Table, pointer: str) -> Sequence[str]:
        return Placing(options, io, "derived").differing(table, read_head(pointer, io))

    return CutDerived(warehouse_root(options), moves, differing)
