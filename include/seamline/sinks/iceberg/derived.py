"""Derived tables of Iceberg tables: their place when a cut is published."""

from collections.abc import Mapping, Sequence

from seamline.domain.ledger import StreamId
from seamline.ports import Load
from seamline.sinks.iceberg.io import warehouse_io
from seamline.sinks.iceberg.options import LakeOptions
from seamline.sinks.iceberg.placing import Placing
from seamline.sinks.lake.cut_derived import Placed
from seamline.sinks.lake.loads import StagedFiles
from seamline.sinks.lake.store import PointerMove


def placed(options: LakeOptions) -> Placed:
    """What makes tables of the files of derived ones."""

    def moves(
        stream: StreamId, loads: Sequence[Load], staged: Mapping[str, StagedFiles], heads: Mapping[str, str]
    ) -> Sequence[PointerMove]:
        return (
            Placing(options, warehouse_io(options), f"{stream.sync}-derived").of_publish(loads, staged, heads, {}).moves
        )

    return moves
