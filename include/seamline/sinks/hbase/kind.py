"""HBase as a destination."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.kinds.bulk import LoadArea, StagedPlace, TableRows
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import Atomic, SinkKind, SinkPowers
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load, Problem, ReadView, Sink, StagedView
from seamline.ports.maintenance import DestinationMaintenance

if TYPE_CHECKING:
    from seamline.spec.destination import Destination
    from seamline.values.changes import ChangeDecoder


class HBaseKind:
    """`kinds.sink.SinkKind` with the power `ReadsBack`. No cuts, and no table without a key."""

    name: ClassVar[str] = "hbase"
    powers: ClassVar[SinkPowers] = SinkPowers(Atomic.NONE, keyless=False)

    def spec(self) -> "type[Destination]":
        from seamline.sinks.hbase.spec import HBaseDestination

        return HBaseDestination

    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink:
        from seamline.sinks.hbase.sink import open_sink

        return open_sink(plan, destination, decoder=decoder)

    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]:
        from seamline.sinks.hbase.preflight import problems

        return problems(plan, destination)

    def grant_script(self, destination: DestinationPlan, database: str, *, logins: DestinationLogins) -> str:  # noqa: ARG002
        from seamline.sinks.hbase.grants import grant_script

        return grant_script(destination.namespace, logins=logins)

    def load_area(self, destination: DestinationPlan, *, run_id: str) -> LoadArea:
        from seamline.sinks.hbase.loads import open_area

        return open_area(destination, run_id=run_id)

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        from seamline.sinks.hbase.loads import load

        return load(destination, place, rows)

    def open_maintenance(self, destination: DestinationPlan) -> DestinationMaintenance:
        from seamline.sinks.hbase.maintenance import open_maintenance

        return open_maintenance(destination)

    # ReadsBack

    def open_live(self, plan: SyncPlan, destination: DestinationPlan, count: int) -> Sequence[ReadView]:
        from seamline.sinks.hbase.read_back import open_live

        return open_live(plan, destination, count)

    def open_staged(
        self,
        plan: SyncPlan,  # noqa: ARG002
        destination: DestinationPlan,
        loads: Sequence[Load],
        count: int,
        *,
        position: Position,
    ) -> Sequence[StagedView]:
        from seamline.sinks.hbase.read_back import open_staged

        return open_staged(destination, loads, count, position=position)

    def findings(
        self, destination: DestinationPlan, stream: StreamId, *, after: FindingsReported
    ) -> tuple[tuple[Finding, ...], FindingsReported]:
        from seamline.sinks.hbase.read_back import findings_of

        return findings_of(destination, stream, after=after)


KIND: SinkKind = HBaseKind()
