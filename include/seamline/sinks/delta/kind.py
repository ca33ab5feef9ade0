"""Delta tables as a destination."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from seamline.kinds.sink import SinkKind
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem, Sink
from seamline.ports.separate import SeparateSide
from seamline.sinks.lake.kind import CertifiedLakeKind

if TYPE_CHECKING:
    from seamline.sinks.lake.lake import Lake
    from seamline.spec.destination import Destination
    from seamline.values.changes import ChangeDecoder


class Delta(CertifiedLakeKind):
    """With the power `ReadsAlone` beside."""

    name: ClassVar[str] = "delta"

    def spec(self) -> "type[Destination]":
        from seamline.sinks.delta.spec import DeltaDestination

        return DeltaDestination

    def lake(self, destination: DestinationPlan) -> "Lake":
        from seamline.sinks.delta.lake import lake_of

        return lake_of(destination)

    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink:
        from seamline.sinks.delta.sink import open_sink

        return open_sink(plan, destination, decoder=decoder)

    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]:
        from seamline.sinks.delta.preflight import problems

        return problems(plan, destination)

    # ReadsAlone

    def separate_side(self, destination: DestinationPlan) -> SeparateSide:
        from seamline.sinks.delta.separate import DeltaSide

        return DeltaSide(destination)

    def separate_rights(self, destination: DestinationPlan, tables: Sequence[str]) -> str:
        from seamline.sinks.delta.options import options_of

        folder = f"{options_of(destination).warehouse}/{destination.namespace}"
        return f"no right in its database; the files of these tables in {folder} must be readable: {', '.join(tables)}"


KIND: SinkKind = Delta()
