"""Memory as a destination. Its methods import what they need: whoever only asks for the name loads nothing else."""

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


class Memory:
    """`SinkKind`, with the power `ReadsBack`."""

    name: ClassVar[str] = "memory"
    powers: ClassVar[SinkPowers] = SinkPowers(Atomic.SYNC)

    def spec(self) -> "type[Destination]":
        from seamline_memory.spec import MemoryDestination

        return MemoryDestination

    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink:
        from seamline_memory.sink import MemorySink
        from seamline_memory.store import store

        return MemorySink(plan, destination, store=store(destination.connection), decoder=decoder)

    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]:  # noqa: ARG002
        return ()

    def grant_script(self, destination: DestinationPlan, database: str, *, logins: DestinationLogins) -> str:  # noqa: ARG002
        return f"-- {destination.name} lies in memory: there is nothing to grant\n"

    def load_area(self, destination: DestinationPlan, *, run_id: str) -> LoadArea:  # noqa: ARG002
        from seamline_memory.loads import MemoryLoadArea
        from seamline_memory.store import store

        return MemoryLoadArea(store(destination.connection))

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        from seamline_memory.loads import load
        from seamline_memory.store import store

        return load(store(destination.connection), place, rows)

    def open_maintenance(self, destination: DestinationPlan) -> DestinationMaintenance:
        from seamline_memory.loads import MemoryMaintenance
        from seamline_memory.store import store

        return MemoryMaintenance(store(destination.connection))

    # ReadsBack

    def open_live(self, plan: SyncPlan, destination: DestinationPlan, count: int) -> Sequence[ReadView]:
        from seamline_memory.read_back import open_live
        from seamline_memory.store import store

        return open_live(plan, plan.stream_id(destination.name), store(destination.connection), count)

    def open_staged(
        self,
        plan: SyncPlan,  # noqa: ARG002
        destination: DestinationPlan,
        loads: Sequence[Load],
        count: int,
        *,
        position: Position,
    ) -> Sequence[StagedView]:
        from seamline_memory.read_back import open_staged
        from seamline_memory.store import store

        return open_staged(store(destination.connection), loads, count, position=position)

    def findings(
        self, destination: DestinationPlan, stream: StreamId, *, after: FindingsReported
    ) -> tuple[tuple[Finding, ...], FindingsReported]:
        from seamline_memory.read_back import findings_of
        from seamline_memory.store import store

        return findings_of(store(destination.connection), stream, after=after)


KIND: SinkKind = Memory()
