"""What every lake is asked as a destination; each format derives from it."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing
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
from seamline.kinds.live_columns import Misfit
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.reading import SyncTables
from seamline.kinds.sink import Atomic, SinkPowers
from seamline.plan.model import DerivedTablePlan, DestinationPlan, SyncPlan
from seamline.ports import Load, Problem, ReadView, Sink, StagedView
from seamline.ports.cuts import Cuts, CutStore, PinnedTables
from seamline.ports.maintenance import DestinationMaintenance

if TYPE_CHECKING:
    import pyarrow as pa

    from seamline.ports.certificates import ProbeDestination
    from seamline.sinks.lake.derived import LakeDerived
    from seamline.sinks.lake.lake import Lake
    from seamline.spec.destination import Destination
    from seamline.values.changes import ChangeDecoder

# Iceberg's catalogue takes 255; a table that leaves is kept under a longer name.
_NAME_CHARACTERS = 200


class LakeKind(ABC):
    """`kinds.sink.SinkKind` with the powers `ReadsBack`, `KeepsLiveTables`, `CutsLiveTables`, `Derives`,
    `KeepsColumnsOfDerived`, `CopiesRows` and `ReadsAtOnePosition`. `catalogue_schema`: where the format's clients look
    for their catalogue; "" of a format whose catalogue lies in `seamline`."""

    name: ClassVar[str]
    powers: ClassVar[SinkPowers] = SinkPowers(Atomic.TABLE, names=NameLimit(_NAME_CHARACTERS, NameUnit.CHARACTERS))
    catalogue_schema: ClassVar[str] = ""

    @abstractmethod
    def spec(self) -> "type[Destination]": ...

    @abstractmethod
    def lake(self, destination: DestinationPlan) -> "Lake": ...

    @abstractmethod
    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink: ...

    @abstractmethod
    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]: ...

    def grant_script(self, destination: DestinationPlan, database: str, *, logins: DestinationLogins) -> str:
        from seamline.sinks.lake.grants import grant_script

        database = database or f"<database of {destination.name}>"
        return grant_script(database, logins=logins, schema=self.catalogue_schema)

    def load_area(self, destination: DestinationPlan, *, run_id: str) -> LoadArea:  # noqa: ARG002
        from seamline.sinks.lake.loads import LakeLoadArea

        lake = self.lake(destination)
        return LakeLoadArea(lake.warehouse, lake.loads_in)

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        from seamline.sinks.lake.loads import load

        lake = self.lake(destination)
        return load(lake.warehouse, place, rows, lake.storage)

    def open_maintenance(self, destination: DestinationPlan) -> DestinationMaintenance:
        from seamline.sinks.lake.maintenance import open_maintenance

        return open_maintenance(destination, self.lake(destination))

    # ReadsBack

    def open_live(self, plan: SyncPlan, destination: DestinationPlan, count: int) -> Sequence[ReadView]:
        from seamline.sinks.lake.read_back import open_live

        lake = self.lake(destination)
        return open_live(plan, destination, count, catalogue=lake.catalogue, live=lake.live)

    def open_staged(
        self,
        plan: SyncPlan,  # noqa: ARG002
        destination: DestinationPlan,
        loads: Sequence[Load],
        count: int,
        *,
        position: Position,
    ) -> Sequence[StagedView]:
        from seamline.sinks.lake.read_back import open_staged

        lake = self.lake(destination)
        return open_staged(lake.warehouse, loads, count, position=position, storage=lake.storage)

    def open_published(
        self, plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
    ) -> ReadView:
        from seamline.sinks.lake.read_back import open_published

        return open_published(plan, destination, tables, position=position, at=self.lake(destination).at)

    def findings(
        self, destination: DestinationPlan, stream: StreamId, *, after: FindingsReported
    ) -> tuple[tuple[Finding, ...], FindingsReported]:
        from seamline.databases.postgres.findings import findings_of

        return findings_of(destination, stream, after=after)

    # KeepsLiveTables

    def misfits(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Misfit]:
        from seamline.sinks.lake.live_columns import misfits

        return misfits(plan, destination, self.lake(destination))

    # CutsLiveTables

    def open_cuts(self, destination: DestinationPlan) -> Cuts:
        return self.lake(destination).open_cuts()

    def open_cut_expiry(self, destination: DestinationPlan) -> CutStore:
        return self.lake(destination).open_cuts()

    def pin_live(self, plan: SyncPlan, destination: DestinationPlan, count: int, *, run_id: str) -> PinnedTables:
        from seamline.sinks.lake.cuts import pin_live

        lake = self.lake(destination)
        with closing(lake.open_cuts()) as cuts:
            return pin_live(cuts, plan, destination, count, run_id=run_id, live=lake.live)

    # Derives

    def staged_parts(self, destination: DestinationPlan, load: Load, *, parts_max: int) -> Sequence[StagedPart]:
        return self._derived(destination).staged_parts(destination, load, parts_max=parts_max)

    def read_staged(
        self, destination: DestinationPlan, load: Load, columns: Sequence[Column], part: StagedPart
    ) -> "Iterator[pa.RecordBatch]":
        return self._derived(destination).read_staged(destination, load, columns, part)

    def stage_derived(self, destination: DestinationPlan, table: Table, rows: "pa.Table", *, run_id: str) -> Load:
        return self._derived(destination).stage_derived(destination, table, rows, run_id=run_id)

    def read_derived(self, destination: DestinationPlan, made: Load) -> "Iterator[pa.RecordBatch]":
        return self._derived(destination).read_derived(made)

    def compare_derived(
        self, destination: DestinationPlan, derived: DerivedTablePlan, *, base: Load, made: Load, position: str
    ) -> TableVerdict:
        return self._derived(destination).compare_derived(destination, derived, base=base, made=made, position=position)

    # KeepsColumnsOfDerived

    def require_derived(self, destination: DestinationPlan, stream: StreamId, tables: Sequence[Table]) -> None:
        with closing(self.lake(destination).open_cuts()) as cuts:
            cuts.require_derived(stream, tables)

    def _derived(self, destination: DestinationPlan) -> "LakeDerived":
        from seamline.sinks.lake.derived import LakeDerived

        lake = self.lake(destination)
        return LakeDerived(lake.catalogue, lake.warehouse, lake.loads_in, lake.storage, lake.open_table)

    # CopiesRows

    def rows_url(self, destination: DestinationPlan, schema: str) -> str:
        from seamline.databases.postgres.rows_url import rows_url

        return rows_url(destination, schema)

    def copied(
        self, plan: SyncPlan, destination: DestinationPlan, cut: StagedCut, tables: Collection[str]
    ) -> AbstractContextManager[StagedCut]:
        from seamline.sinks.lake.row_copies import HeldRows, copied

        lake = self.lake(destination)
        return copied(plan, destination, cut, tables, held=HeldRows(lake.warehouse, lake.storage, lake.at))

    # ReadsAtOnePosition

    def open_tables(self, destination: DestinationPlan, stream: StreamId, at: date | str) -> SyncTables:
        from seamline.sinks.lake.pinned import open_tables

        lake = self.lake(destination)
        return open_tables(destination, stream, at, catalogue=lake.catalogue, table_of=lake.open_table)


class CertifiedLakeKind(LakeKind):
    """With the power `CertifiesArrivals` beside."""

    def open_probed(self, plan: SyncPlan, destination: DestinationPlan) -> "ProbeDestination":
        from seamline.sinks.lake.probed import LakeProbed

        return LakeProbed(plan, destination, self.lake(destination), self.name)
