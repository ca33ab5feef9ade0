"""Iceberg tables as a destination."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import date
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.catalogue import Column, Table
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.date_before import PublishedTable
from seamline.domain.ledger import StreamId
from seamline.domain.names import NameLimit, NameUnit
from seamline.domain.position import Position
from seamline.domain.staged_cut import StagedCut
from seamline.domain.verdict import TableVerdict
from seamline.kinds.bulk import LoadArea, StagedPlace, TableRows
from seamline.kinds.derived import StagedPart
from seamline.kinds.frames import Frames
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.reading import SyncTables
from seamline.kinds.sink import Atomic, SinkKind, SinkPowers
from seamline.plan.model import DerivedTablePlan, DestinationPlan, SyncPlan
from seamline.ports import Load, Problem, ReadView, Sink, StagedView
from seamline.ports.cuts import Cuts, CutStore, PinnedTables
from seamline.ports.maintenance import DestinationMaintenance

if TYPE_CHECKING:
    import pyarrow as pa

    from seamline.spec.destination import Destination
    from seamline.values.changes import ChangeDecoder

# The catalogue takes 255; a table that leaves is kept under a longer name.
_NAME_CHARACTERS = 200


class Iceberg:
    """`kinds.sink.SinkKind` with the powers `ReadsBack`, `CutsLiveTables`, `Derives`, `CopiesRows`,
    `ReadsAtOnePosition` and `WritesFrames`."""

    name: ClassVar[str] = "iceberg"
    powers: ClassVar[SinkPowers] = SinkPowers(Atomic.SYNC, names=NameLimit(_NAME_CHARACTERS, NameUnit.CHARACTERS))

    def spec(self) -> "type[Destination]":
        from seamline.sinks.iceberg.spec import IcebergDestination

        return IcebergDestination

    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink:
        from seamline.sinks.iceberg.sink import open_sink

        return open_sink(plan, destination, decoder=decoder)

    # WritesFrames

    def needs_frames(self, destination: DestinationPlan) -> bool:
        from seamline.sinks.iceberg.options import SPARK, options_of

        return options_of(destination).write == SPARK

    def open_sink_over(
        self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder", frames: Frames
    ) -> Sink:
        from seamline.sinks.iceberg.sink import open_sink

        return open_sink(plan, destination, decoder=decoder, frames=frames)

    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]:
        from seamline.sinks.iceberg.preflight import problems

        return problems(plan, destination)

    def grant_script(self, destination: DestinationPlan, database: str, *, logins: DestinationLogins) -> str:
        from seamline.sinks.iceberg.options import REST
        from seamline.sinks.iceberg.rest_opening import rights
        from seamline.sinks.lake.grants import grant_script

        if dict(destination.options).get("catalog_type") == REST:
            return rights(destination)
        return grant_script(database or f"<database of {destination.name}>", logins=logins)

    def load_area(self, destination: DestinationPlan, *, run_id: str) -> LoadArea:  # noqa: ARG002
        from seamline.sinks.iceberg.io import warehouse_root
        from seamline.sinks.iceberg.options import options_of
        from seamline.sinks.lake.loads import LakeLoadArea

        return LakeLoadArea(warehouse_root(options_of(destination)), destination.namespace)

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        from seamline.sinks.iceberg.options import options_of
        from seamline.sinks.iceberg.partitions import load

        return load(options_of(destination), place, rows)

    def open_maintenance(self, destination: DestinationPlan) -> DestinationMaintenance:
        from seamline.sinks.iceberg.maintenance import open_maintenance

        return open_maintenance(destination)

    # ReadsBack

    def open_live(self, plan: SyncPlan, destination: DestinationPlan, count: int) -> Sequence[ReadView]:
        from seamline.sinks.iceberg.read_back import open_live

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
        from seamline.sinks.iceberg import types
        from seamline.sinks.iceberg.io import warehouse_root
        from seamline.sinks.iceberg.options import options_of
        from seamline.sinks.lake.read_back import open_staged

        return open_staged(warehouse_root(options_of(destination)), loads, count, position=position, storage=types)

    def open_published(
        self, plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
    ) -> ReadView:
        from seamline.sinks.iceberg.read_back import open_published

        return open_published(plan, destination, tables, position=position)

    def findings(
        self, destination: DestinationPlan, stream: StreamId, *, after: FindingsReported
    ) -> tuple[tuple[Finding, ...], FindingsReported]:
        from seamline.sinks.iceberg.read_back import findings

        return findings(destination, stream, after=after)

    # CutsLiveTables

    def open_cuts(self, destination: DestinationPlan) -> Cuts:
        from seamline.sinks.iceberg.cuts import open_cuts

        return open_cuts(destination)

    def open_cut_expiry(self, destination: DestinationPlan) -> CutStore:
        from seamline.sinks.iceberg.cuts import open_cuts

        return open_cuts(destination)

    def pin_live(self, plan: SyncPlan, destination: DestinationPlan, count: int, *, run_id: str) -> PinnedTables:
        from seamline.sinks.iceberg.cuts import pin_live

        return pin_live(plan, destination, count, run_id=run_id)

    # Derives

    def staged_parts(self, destination: DestinationPlan, load: Load, *, parts_max: int) -> Sequence[StagedPart]:
        from seamline.sinks.iceberg.derived import derived_tables

        return derived_tables(destination).staged_parts(destination, load, parts_max=parts_max)

    def read_staged(
        self, destination: DestinationPlan, load: Load, columns: Sequence[Column], part: StagedPart
    ) -> "Iterator[pa.RecordBatch]":
        from seamline.sinks.iceberg.derived import derived_tables

        return derived_tables(destination).read_staged(destination, load, columns, part)

    def stage_derived(self, destination: DestinationPlan, table: Table, rows: "pa.Table", *, run_id: str) -> Load:
        from seamline.sinks.iceberg.derived import derived_tables

        return derived_tables(destination).stage_derived(destination, table, rows, run_id=run_id)

    def compare_derived(
        self, destination: DestinationPlan, derived: DerivedTablePlan, *, base: Load, made: Load, position: str
    ) -> TableVerdict:
        from seamline.sinks.iceberg.derived import derived_tables

        return derived_tables(destination).compare_derived(
            destination, derived, base=base, made=made, position=position
        )

    # CopiesRows

    def rows_url(self, destination: DestinationPlan, schema: str) -> str:
        from seamline.databases.postgres.rows_url import rows_url

        return rows_url(destination, schema)

    def copied(
        self, plan: SyncPlan, destination: DestinationPlan, cut: StagedCut, tables: Collection[str]
    ) -> AbstractContextManager[StagedCut]:
        from seamline.sinks.iceberg.read_back import held_rows
        from seamline.sinks.lake.row_copies import copied

        return copied(plan, destination, cut, tables, held=held_rows(destination))

    # ReadsAtOnePosition

    def open_tables(self, destination: DestinationPlan, stream: StreamId, at: date | str) -> SyncTables:
        from seamline.sinks.iceberg.reading import open_tables

        return open_tables(destination, stream, at)


KIND: SinkKind = Iceberg()
