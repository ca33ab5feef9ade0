"""Hudi tables as a destination."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from seamline.kinds.sink import SinkKind
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem, Sink
from seamline.sinks.lake.kind import CertifiedLakeKind

if TYPE_CHECKING:
    from seamline.sinks.lake.lake import Lake
    from seamline.spec.destination import Destination
    from seamline.values.changes import ChangeDecoder


class Hudi(CertifiedLakeKind):
    name: ClassVar[str] = "hudi"

    def spec(self) -> "type[Destination]":
        from seamline.sinks.hudi.spec import HudiDestination

        return HudiDestination

    def lake(self, destination: DestinationPlan) -> "Lake":
        from seamline.sinks.hudi.lake import lake_of

        return lake_of(destination)

    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink:
        from seamline.sinks.hudi.sink import open_sink

        return open_sink(plan, destination, decoder=decoder)

    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]:
        from seamline.sinks.hudi.preflight import problems

        return problems(plan, destination)


KIND: SinkKind = Hudi()
