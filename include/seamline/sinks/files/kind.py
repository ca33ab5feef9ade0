"""Files for partners as a destination of cuts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.domain.names import NameLimit, NameUnit
from seamline.domain.phrase import phrase
from seamline.domain.position import Position
from seamline.kinds.bulk import LoadArea, StagedPlace, TableRows
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.sink import Atomic, SinkKind, SinkPowers
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load, Problem, ReadView, Sink, StagedView
from seamline.ports.cuts import Cuts, CutStore
from seamline.ports.maintenance import DestinationMaintenance

if TYPE_CHECKING:
    from seamline.spec.destination import Destination
    from seamline.values.changes import ChangeDecoder

# With the ending, a file system takes no more of letters that have three bytes.
NAME_CHARACTERS = 64
_PUBLISHED = phrase("a publish shows files one by one, and its flag once all of a date are there")


class Files:
    """`kinds.sink.SinkKind` with the powers `ReadsBack` and `HoldsCuts`. No live tables, no stream."""

    name: ClassVar[str] = "files"
    powers: ClassVar[SinkPowers] = SinkPowers(
        Atomic.SYNC,
        streams=False,
        names=NameLimit(NAME_CHARACTERS, NameUnit.CHARACTERS),
        published=_PUBLISHED,
    )

    def spec(self) -> "type[Destination]":
        from seamline.sinks.files.spec import FilesDestination

        return FilesDestination

    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink:  # noqa: ARG002
        raise _no_stream(destination)

    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]:
        from seamline.sinks.files.preflight import problems

        return problems(plan, destination)

    def grant_script(self, destination: DestinationPlan, database: str, *, logins: DestinationLogins) -> str:  # noqa: ARG002
        return grants(destination)

    def load_area(self, destination: DestinationPlan, *, run_id: str) -> LoadArea:  # noqa: ARG002
        from seamline.sinks.files.staging import load_area

        return load_area(destination)

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        from seamline.sinks.files.staging import load

        return load(destination, place, rows)

    def open_maintenance(self, destination: DestinationPlan) -> DestinationMaintenance:
        from seamline.sinks.files.maintenance import open_maintenance

        return open_maintenance(destination)

    # ReadsBack

    def open_live(self, plan: SyncPlan, destination: DestinationPlan, count: int) -> Sequence[ReadView]:  # noqa: ARG002
        raise _no_stream(destination)

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

    def open_published(
        self, plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
    ) -> ReadView:
        from seamline.sinks.files.read_back import open_published

        return open_published(plan, destination, tables, position=position)

    def findings(
        self,
        destination: DestinationPlan,
        stream: StreamId,
        *,
        after: FindingsReported,  # noqa: ARG002
    ) -> tuple[tuple[Finding, ...], FindingsReported]:
        return (), after

    # HoldsCuts

    def open_cuts(self, destination: DestinationPlan) -> Cuts:
        from seamline.sinks.files.cuts import open_cuts

        return open_cuts(destination)

    def open_cut_expiry(self, destination: DestinationPlan) -> CutStore:
        from seamline.sinks.files.cuts import open_cuts

        return open_cuts(destination)


def grants(destination: DestinationPlan) -> str:
    return (
        f"-- {destination.name} is a place for files, {destination.namespace}: there is no database to grant in.\n"
        "-- Its login reads, writes, renames and removes there, and makes folders.\n"
    )


def _no_stream(destination: DestinationPlan) -> Refused:
    return Refused(
        f"destination {destination.name} (files) has no live tables: it takes cuts by business date only",
        hint="its cuts are made by the nightly run; with `mode: changes` a stream writes files of changes",
    )


KIND: SinkKind = Files()
