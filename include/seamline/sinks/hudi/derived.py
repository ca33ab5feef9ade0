"""Derived tables of Hudi tables: their place when a cut is published."""

from collections.abc import Mapping, Sequence

from seamline.domain.catalogue import Table
from seamline.domain.ledger import StreamId
from seamline.plan.model import DestinationPlan
from seamline.ports import Load
from seamline.sinks.hudi.options import options_of
from seamline.sinks.hudi.placing import Place, changes_of_publish, differing
from seamline.sinks.hudi.pointer import Pointer
from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.lake.cut_derived import CutDerived
from seamline.sinks.lake.loads import StagedFiles
from seamline.sinks.lake.sink import Mark
from seamline.sinks.lake.store import PointerMove

# No stream writes a derived table, so it has no epochs to tell apart.
_NO_EPOCH = 0


def cut_derived(destination: DestinationPlan) -> CutDerived:
    place = Place(options_of(destination).warehouse, destination.namespace)

    def moves(
        stream: StreamId,
        loads: Sequence[Load],
        staged: Mapping[str, StagedFiles],  # noqa: ARG001
        heads: Mapping[str, str],
    ) -> Sequence[PointerMove]:
        return changes_of_publish(place, loads, heads, {}, mark=Mark(stream, _NO_EPOCH)).moves

    def differing_at(table: Table, pointer: str) -> Sequence[str]:
        at = Pointer.parsed(pointer)
        return differing(Timeline(at.folder).at(at.instant), table)

    return CutDerived(place.warehouse, moves, differing_at)
