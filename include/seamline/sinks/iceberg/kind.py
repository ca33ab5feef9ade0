"""Iceberg tables as a destination."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.date_before import PublishedTable
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.kinds.bulk import StagedPlace, TableRows
from seamline.kinds.frames import Frames
from seamline.kinds.live_columns import Misfit
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.reading import SyncTables
from seamline.kinds.sink import Atomic, SinkKind, SinkPowers
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Problem, ReadView, Sink
from seamline.ports.cuts import Cuts, CutStore, PinnedTables
from seamline.ports.maintenance import DestinationMaintenance
from seamline.ports.separate import SeparateSide
from seamline.sinks.lake.kind import CertifiedLakeKind, LakeKind

if TYPE_CHECKING:
    from seamline.ports.certificates import ProbeDestination
    from seamline.sinks.lake.lake import Lake
    from seamline.spec.destination import Destination
    from seamline.values.changes import ChangeDecoder


class Iceberg(LakeKind):
    """With the powers `WritesFrames` and `ReadsAlone` beside."""

    name: ClassVar[str] = "iceberg"
    powers: ClassVar[SinkPowers] = replace(LakeKind.powers, atomic=Atomic.SYNC)
    catalogue_schema: ClassVar[str] = "public"

    def spec(self) -> "type[Destination]":
        from seamline.sinks.iceberg.spec import IcebergDestination

        return IcebergDestination

    def lake(self, destination: DestinationPlan) -> "Lake":
        from seamline.sinks.iceberg.lake import lake_of

        return lake_of(destination)

    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink:
        from seamline.sinks.iceberg.sink import open_sink

        return open_sink(plan, destination, decoder=decoder)

    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]:
        from seamline.sinks.iceberg.preflight import problems

        return problems(plan, destination)

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        """Each file in one partition of the table's layout."""
        from seamline.sinks.iceberg.options import options_of
        from seamline.sinks.iceberg.partitions import load

        return load(options_of(destination), place, rows)

    def open_published(
        self, plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
    ) -> ReadView:
        """By the tags of the cut, as any other client."""
        from seamline.sinks.iceberg.read_back import open_published

        return open_published(plan, destination, tables, position=position)

    # A catalogue behind a REST server is reached another way than one in PostgreSQL.

    def grant_script(self, destination: DestinationPlan, database: str, *, logins: DestinationLogins) -> str:
        from seamline.sinks.iceberg.options import REST
        from seamline.sinks.iceberg.rest_opening import rights

        # The destination of a script may have no other option.
        if dict(destination.options).get("catalog_type") == REST:
            return rights(destination)
        return super().grant_script(destination, database, logins=logins)

    def misfits(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Misfit]:
        if _is_rest(destination):
            from seamline.sinks.iceberg.rest_preflight import misfits

            return misfits(plan, destination)
        return super().misfits(plan, destination)

    def open_maintenance(self, destination: DestinationPlan) -> DestinationMaintenance:
        if _is_rest(destination):
            from seamline.sinks.iceberg.rest_maintenance import open_rest_maintenance

            return open_rest_maintenance(destination)
        return super().open_maintenance(destination)

    def open_cuts(self, destination: DestinationPlan) -> Cuts:
        if _is_rest(destination):
            from seamline.sinks.iceberg.rest_cuts import open_rest_cuts

            return open_rest_cuts(destination)
        return super().open_cuts(destination)

    def open_cut_expiry(self, destination: DestinationPlan) -> CutStore:
        if _is_rest(destination):
            from seamline.sinks.iceberg.rest_cuts import open_rest_cuts

            return open_rest_cuts(destination)
        return super().open_cut_expiry(destination)

    def pin_live(self, plan: SyncPlan, destination: DestinationPlan, count: int, *, run_id: str) -> PinnedTables:
        if _is_rest(destination):
            from seamline.sinks.iceberg.rest_cuts import pin_live_by_rest

            return pin_live_by_rest(plan, destination, count, run_id=run_id)
        return super().pin_live(plan, destination, count, run_id=run_id)

    def open_live(self, plan: SyncPlan, destination: DestinationPlan, count: int) -> Sequence[ReadView]:
        if _is_rest(destination):
            from seamline.sinks.iceberg.read_back import open_live_by_rest

            return open_live_by_rest(plan, destination, count)
        return super().open_live(plan, destination, count)

    def findings(
        self, destination: DestinationPlan, stream: StreamId, *, after: FindingsReported
    ) -> tuple[tuple[Finding, ...], FindingsReported]:
        if _is_rest(destination):
            from seamline.sinks.iceberg.read_back import findings_by_rest

            return findings_by_rest(destination, stream, after=after)
        return super().findings(destination, stream, after=after)

    def open_tables(self, destination: DestinationPlan, stream: StreamId, at: date | str) -> SyncTables:
        if _is_rest(destination):
            from seamline.sinks.iceberg.reading import open_tables_by_rest

            return open_tables_by_rest(destination, stream, at)
        return super().open_tables(destination, stream, at)

    # ReadsAlone

    def separate_side(self, destination: DestinationPlan) -> SeparateSide:
        from seamline.sinks.iceberg.separate import IcebergSide

        return IcebergSide(destination)

    def separate_rights(self, destination: DestinationPlan, tables: Sequence[str]) -> str:
        from seamline.sinks.iceberg.options import options_of

        names = ", ".join(f"{destination.namespace}.{table}" for table in tables)
        catalogue = "to list and load tables" if _is_rest(destination) else "SELECT on public.iceberg_tables"
        return f"{catalogue}, and to read the files of these tables in {options_of(destination).warehouse}: {names}"

    # WritesFrames

    def needs_frames(self, destination: DestinationPlan) -> bool:
        from seamline.sinks.iceberg.options import SPARK, options_of

        return options_of(destination).write == SPARK

    def open_sink_over(
        self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder", frames: Frames
    ) -> Sink:
        from seamline.sinks.iceberg.sink import open_sink

        return open_sink(plan, destination, decoder=decoder, frames=frames)


class CertifiedIceberg(Iceberg, CertifiedLakeKind):
    """With the power `CertifiesArrivals` beside, where the catalogue lies in PostgreSQL and no Spark writes."""

    def open_probed(self, plan: SyncPlan, destination: DestinationPlan) -> "ProbeDestination":
        from seamline.sinks.iceberg.options import require_certifiable

        require_certifiable(destination)
        return super().open_probed(plan, destination)


def _is_rest(destination: DestinationPlan) -> bool:
    from seamline.sinks.iceberg.options import options_of

    return options_of(destination).is_rest


KIND: SinkKind = CertifiedIceberg()
