"""What MariaDB and MySQL are asked as destinations; each derives from it."""

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.catalogue import Column, Table
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import Segment
from seamline.domain.ledger import StreamId
from seamline.domain.load_splits import Split, SplitRead
from seamline.domain.names import NameLimit, NameUnit
from seamline.domain.position import Position
from seamline.domain.verdict import TableVerdict
from seamline.kinds.bulk import LoadArea, SplitArea, StagedPlace, TableRows
from seamline.kinds.derived import StagedPart
from seamline.kinds.live_columns import Misfit
from seamline.kinds.logins import DestinationLogins
from seamline.kinds.reading import SyncTables
from seamline.kinds.sink import Atomic, SinkPowers
from seamline.plan.model import DerivedTablePlan, DestinationPlan, SyncPlan
from seamline.ports import Load, Problem, ReadView, Sink, StagedView
from seamline.ports.cuts import Cuts, CutStore
from seamline.ports.maintenance import DestinationMaintenance
from seamline.sinks.relational.dialect import Dialect

if TYPE_CHECKING:
    import pyarrow as pa

    from seamline.ports.certificates import ProbeDestination
    from seamline.values.changes import ChangeBatch, ChangeDecoder


class RelationalKind:
    """All of `kinds.sink.SinkKind` but its name and its declaration, with every power."""

    dialect: ClassVar[Dialect]
    powers: ClassVar[SinkPowers] = SinkPowers(
        Atomic.SYNC, names=NameLimit(64, NameUnit.FILE_CHARACTERS), keeps_versions=True
    )

    def open_sink(self, plan: SyncPlan, destination: DestinationPlan, *, decoder: "ChangeDecoder") -> Sink:
        from seamline.sinks.relational.sink import open_sink

        return open_sink(plan, destination, decoder=decoder, dialect=self.dialect)

    def problems(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]:
        from seamline.sinks.relational.preflight import problems

        return problems(plan, destination, self.dialect)

    def misfits(self, plan: SyncPlan, destination: DestinationPlan) -> Sequence[Misfit]:
        from seamline.sinks.relational.live_columns import misfits

        return misfits(plan, destination, self.dialect)

    def grant_script(self, destination: DestinationPlan, database: str, *, logins: DestinationLogins) -> str:  # noqa: ARG002
        from seamline.sinks.relational.grants import grant_script

        return grant_script(destination.namespace, logins=logins, server=self.dialect.server)

    def load_area(self, destination: DestinationPlan, *, run_id: str) -> LoadArea:
        from seamline.sinks.relational.staging import open_area

        return open_area(destination, self.dialect, run_id=run_id)

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        from seamline.sinks.relational.staging import load

        return load(destination, place, rows, self.dialect)

    def split_area(self, destination: DestinationPlan, *, run_id: str, attempt: str) -> SplitArea:
        from seamline.sinks.relational.splits import open_split_area

        return open_split_area(destination, self.dialect, run_id=run_id, attempt=attempt)

    def load_split(
        self,
        destination: DestinationPlan,
        place: StagedPlace,
        rows: TableRows,
        split: Split,
        *,
        proof: Callable[[], str],
    ) -> int:
        from seamline.sinks.relational.splits import load_split

        return load_split(destination, place, rows, split, self.dialect, proof=proof)

    def finish_splits(self, destination: DestinationPlan, place: StagedPlace) -> int:
        from seamline.sinks.relational.splits import finish_splits

        return finish_splits(destination, place, self.dialect)

    def bring_forward(
        self,
        destination: DestinationPlan,
        place: StagedPlace,
        changes: "ChangeBatch | None",
        *,
        dates: Segment | None,
        since: SplitRead,
        to: SplitRead,
        attempt: str,
    ) -> None:
        from seamline.sinks.relational.splits import bring_forward

        bring_forward(destination, place, changes, self.dialect, dates=dates, since=since, to=to, attempt=attempt)

    def open_maintenance(self, destination: DestinationPlan) -> DestinationMaintenance:
        from seamline.sinks.relational.maintenance import open_maintenance

        return open_maintenance(destination, self.dialect)

    def open_live(self, plan: SyncPlan, destination: DestinationPlan, count: int) -> Sequence[ReadView]:
        from seamline.sinks.relational.read_back import open_live

        return open_live(plan, destination, count, dialect=self.dialect)

    def open_staged(
        self, plan: SyncPlan, destination: DestinationPlan, loads: Sequence[Load], count: int, *, position: Position
    ) -> Sequence[StagedView]:
        from seamline.sinks.relational.read_back import open_staged

        return open_staged(plan, destination, loads, count, position=position, dialect=self.dialect)

    def open_published(
        self, plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
    ) -> ReadView:
        from seamline.sinks.relational.read_back import open_published

        return open_published(plan, destination, tables, position=position, dialect=self.dialect)

    def findings(
        self, destination: DestinationPlan, stream: StreamId, *, after: FindingsReported
    ) -> tuple[tuple[Finding, ...], FindingsReported]:
        from seamline.sinks.relational.findings import findings_of

        return findings_of(destination, stream, self.dialect, after=after)

    def open_cuts(self, destination: DestinationPlan) -> Cuts:
        from seamline.sinks.relational.cuts import open_cuts

        return open_cuts(destination, self.dialect)

    def open_cut_expiry(self, destination: DestinationPlan) -> CutStore:
        from seamline.sinks.relational.cut_expiry import open_cut_expiry

        return open_cut_expiry(destination, self.dialect)

    def published_tables(
        self, destination: DestinationPlan, sync: str, business_date: date, version: int
    ) -> Sequence[PublishedTable]:
        from seamline.sinks.relational.carry_on import published_tables

        return published_tables(destination, sync, business_date, version, self.dialect)

    def carry_on(
        self,
        destination: DestinationPlan,
        place: StagedPlace,
        base: PublishedTable,
        changes: "ChangeBatch | None",
        *,
        dates: Segment | None,
    ) -> int:
        from seamline.sinks.relational.carry_on import carry_on

        return carry_on(destination, place, base, changes, self.dialect, dates=dates)

    def take_over(self, destination: DestinationPlan, load: Load, base: PublishedTable, *, read: Segment) -> int:
        from seamline.sinks.relational.carry_on import take_over

        return take_over(destination, load, base, self.dialect, read=read)

    def newest_in(self, destination: DestinationPlan, base: PublishedTable, column: Column) -> str:
        from seamline.sinks.relational.carry_on import newest_in

        return newest_in(destination, base, column, self.dialect)

    def open_probed(self, plan: SyncPlan, destination: DestinationPlan) -> "ProbeDestination":
        from seamline.sinks.relational.probed import open_probed

        return open_probed(plan, destination, self.dialect)

    def open_tables(self, destination: DestinationPlan, stream: StreamId, at: date | str) -> SyncTables:
        from seamline.sinks.relational.reading import open_tables

        return open_tables(destination, stream, at, self.dialect)

    def rows_url(self, destination: DestinationPlan, schema: str) -> str:
        from seamline.sinks.relational.rows_url import rows_url

        return rows_url(destination, schema)

    def staged_parts(self, destination: DestinationPlan, load: Load, *, parts_max: int) -> Sequence[StagedPart]:
        return (StagedPart(0, None),)

    def read_staged(
        self, destination: DestinationPlan, load: Load, columns: Sequence[Column], part: StagedPart
    ) -> "Iterator[pa.RecordBatch]":
        from seamline.sinks.relational.derived import read_staged

        return read_staged(destination, load, columns, self.dialect)

    def stage_derived(self, destination: DestinationPlan, table: Table, rows: "pa.Table", *, run_id: str) -> Load:
        from seamline.sinks.relational.derived import stage_derived

        return stage_derived(destination, table, rows, self.dialect, run_id=run_id)

    def read_derived(self, destination: DestinationPlan, made: Load) -> "Iterator[pa.RecordBatch]":
        return self.read_staged(destination, made, made.table.columns, StagedPart(0, None))

    def compare_derived(
        self, destination: DestinationPlan, derived: DerivedTablePlan, *, base: Load, made: Load, position: str
    ) -> TableVerdict:
        from seamline.sinks.relational.derived import compare_derived

        return compare_derived(destination, derived, self.dialect, base=base, made=made, position=position)
