"""Hive tables as a destination of cuts."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.domain.names import NameLimit, NameUnit
from seamline.domain.position import Position
from seamline.domain.staged_cut import StagedCut
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

# A metastore's own database takes as many.
_NAME_CHARACTERS = 128


class Hive:
    """`kinds.sink.SinkKind` with the powers `ReadsBack`, `HoldsCuts` and `CopiesRows`. No live tables, no stream."""

    name: ClassVar[str] = "hive"
    powers: ClassVar[SinkPowers] = SinkPowers(
        Atomic.TABLE, streams=False, names=NameLimit(_NAME_CHARACTERS, NameUnit.CHARACTERS)
    )

    def spec(self) -> "type[Destination]":
        from seamline.sinks.hive.spec import HiveDestination

        return HiveDestination

    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink:  # noqa: ARG002
        raise _no_stream(destination)

    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]:
        from seamline.sinks.hive.preflight import problems

        return problems(plan, destination)

    def grant_script(self, destination: DestinationPlan, database: str, *, logins: DestinationLogins) -> str:
        from seamline.sinks.hive.grants import grant_script

        return grant_script(database or f"<database of {destination.name}>", logins=logins)

    def load_area(self, destination: DestinationPlan, *, run_id: str) -> LoadArea:  # noqa: ARG002
        from seamline.sinks.hive.options import options_of
        from seamline.sinks.lake.loads import LakeLoadArea

        return LakeLoadArea(options_of(destination).warehouse, destination.namespace)

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        from seamline.sinks.hive import types
        from seamline.sinks.hive.options import options_of
        from seamline.sinks.lake.loads import load

        return load(options_of(destination).warehouse, place, rows, types)

    def open_maintenance(self, destination: DestinationPlan) -> DestinationMaintenance:
        from seamline.sinks.hive.maintenance import open_maintenance

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
        from seamline.sinks.hive import types
        from seamline.sinks.hive.options import options_of
        from seamline.sinks.lake.read_back import open_staged

        return open_staged(options_of(destination).warehouse, loads, count, position=position, storage=types)

    def open_published(
        self, plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
    ) -> ReadView:
        from seamline.sinks.hive.read_back import open_published

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
        from seamline.sinks.hive.cuts import open_cuts

        return open_cuts(destination)

    def open_cut_expiry(self, destination: DestinationPlan) -> CutStore:
        from seamline.sinks.hive.cuts import open_cuts

        return open_cuts(destination)

    # CopiesRows

    def rows_url(self, destination: DestinationPlan, schema: str) -> str:
        from seamline.databases.postgres.rows_url import rows_url

        return rows_url(destination, schema)

    def copied(
        self, plan: SyncPlan, destination: DestinationPlan, cut: StagedCut, tables: Collection[str]
    ) -> AbstractContextManager[StagedCut]:
        from seamline.sinks.hive.read_back import held_rows
        from seamline.sinks.lake.row_copies import copied

        return copied(plan, destination, cut, tables, held=held_rows(destination))


def _no_stream(destination: DestinationPlan) -> Refused:
    return Refused(
        f"destination {destination.name} (hive) has no live tables: it takes cuts by business date only",
        hint="its cuts are made by the nightly run",
    )


KIND: SinkKind = Hive()
