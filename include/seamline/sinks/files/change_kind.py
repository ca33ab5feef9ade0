"""Files of changes as a destination: what `mode: changes` makes of a destination of files."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.ledger import StreamId
from seamline.domain.names import NameLimit, NameUnit
from seamline.domain.phrase import phrase
from seamline.domain.position import Position
from seamline.kinds.bulk import LoadArea, StagedPlace, TableRows
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import EACH_CHANGE_KEPT, Atomic, SinkKind, SinkPowers
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load, Problem, ReadView, Sink, StagedView
from seamline.ports.maintenance import DestinationMaintenance
from seamline.sinks.files.kind import NAME_CHARACTERS, grants

if TYPE_CHECKING:
    from seamline.spec.destination import Destination
    from seamline.values.changes import ChangeDecoder

_AT_LEAST_ONCE = phrase(
    "each change at least once: files are not read back before they count; a comparison finds a loss"
)


class ChangeFiles:
    """`kinds.sink.SinkKind` with the power `ReadsBack`. It holds no cuts: what it has is every change."""

    name: ClassVar[str] = "change_files"
    powers: ClassVar[SinkPowers] = SinkPowers(
        Atomic.SYNC,
        names=NameLimit(NAME_CHARACTERS, NameUnit.CHARACTERS),
        at_least_once=_AT_LEAST_ONCE,
        over_repeats=EACH_CHANGE_KEPT,
    )

    def spec(self) -> "type[Destination]":
        from seamline.sinks.files.spec import ChangeFilesDestination

        return ChangeFilesDestination

    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink:
        from seamline.sinks.files.changes.sink import open_sink

        return open_sink(plan, destination, decoder=decoder)

    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]:
        from seamline.sinks.files.preflight import problems_of_changes

        return problems_of_changes(plan, destination)

    def grant_script(self, destination: DestinationPlan, database: str, *, logins: DestinationLogins) -> str:  # noqa: ARG002
        return grants(destination)

    def load_area(self, destination: DestinationPlan, *, run_id: str) -> LoadArea:  # noqa: ARG002
        from seamline.sinks.files.staging import load_area

        return load_area(destination)

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        from seamline.sinks.files.staging import load

        return load(destination, place, rows)

    def open_maintenance(self, destination: DestinationPlan) -> DestinationMaintenance:
        from seamline.sinks.files.changes.maintenance import open_maintenance

        return open_maintenance(destination)

    # ReadsBack

    def open_live(self, plan: SyncPlan, destination: DestinationPlan, count: int) -> Sequence[ReadView]:
        from seamline.sinks.files.changes.read_back import open_live

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
        from seamline.sinks.files.staging import open_staged

        return open_staged(destination, loads, count, position=position)

    def findings(
        self,
        destination: DestinationPlan,  # noqa: ARG002
        stream: StreamId,  # noqa: ARG002
        *,
        after: FindingsReported,
    ) -> tuple[tuple[Finding, ...], FindingsReported]:
        """None: a commit does not look at what its changes meet. The comparison does."""
        return (), after


KIND: SinkKind = ChangeFiles()
