"""Tables of a lake as a destination that the behaviour suite runs over: real files, and a catalogue in memory or in
PostgreSQL."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import Operation, Summary

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.ledger import LedgerRow
from seamline.domain.position import position_to_json
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.kinds.frames import Frames
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Failpoints, Load, Sink
from seamline.sinks.delta.catalogue import DeltaCatalogue
from seamline.sinks.delta.read_back import live as delta_live
from seamline.sinks.delta.sink import DeltaSink
from seamline.sinks.hudi.catalogue import HudiCatalogue
from seamline.sinks.hudi.read_back import live as hudi_live
from seamline.sinks.hudi.sink import HudiSink
from seamline.sinks.iceberg import snapshot
from seamline.sinks.iceberg.manifests import Head
from seamline.sinks.iceberg.read_back import live as iceberg_live
from seamline.sinks.iceberg.read_back import live_in
from seamline.sinks.iceberg.single.pointers import LedgerPointers
from seamline.sinks.iceberg.sink import IcebergSink
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.files import NewFiles
from seamline.sinks.lake.pointers import Pointers
from seamline.sinks.lake.postgres_store import PostgresLakeStore
from seamline.sinks.lake.read_back import Live
from seamline.sinks.lake.sink import LakeSink
from seamline.sinks.lake.store import LakeStore, Seen
from seamline.values.arrow import schema_of
from seamline.values.build import rows_of
from tests.bank_history import text_of
from tests.contract.worlds import Row, end_postgres_session, lose_one_answer
from tests.integration.databases import either_of, postgres
from tests.lake_store import LakeDatabase, MemoryLakeStore
from tests.log_topic import STREAM, sync_plan
from tests.memory_sink import LostAnswer, as_logged
from tests.opened_sink import decoder_of

CATALOG = "lake"
# Connection id of what leads to a warehouse that is a URL.
OBJECTS = "objects"


def compacted(head: Head) -> Head:
    """As Spark's rewrite_data_files leaves a table: another snapshot of the same rows, which says so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "_summary", lambda *_: Summary(Operation.REPLACE, **{"engine-name": "other"}))
        return snapshot.staged_head(head, snapshot.FileChanges(), NewFiles(head.metadata.location, "theirs"))


@dataclass(frozen=True, slots=True)
class Lake:
    """A format of tables. `live` reads a table of a folder where its pointer leads."""

    name: str
    sink: type[IcebergSink] | type[DeltaSink] | type[HudiSink]
    catalogue: Callable[[DestinationPlan], Pointers]
    live: Live
    options: tuple[tuple[str, str], ...] = ()


ICEBERG = Lake(
    "iceberg",
    IcebergSink,
    lambda destination: Catalogue(CATALOG),
    iceberg_live,
    (("catalog", CATALOG),),
)
DELTA = Lake(
    "delta",
    DeltaSink,
    lambda destination: DeltaCatalogue(dict(destination.options)["warehouse"]),
    delta_live,
)
HUDI = Lake(
    "hudi",
    HudiSink,
    lambda destination: HudiCatalogue(dict(destination.options)["warehouse"]),
    hudi_live,
)

SINGLE = Lake(
    "iceberg_single",
    IcebergSink,
    lambda destination: LedgerPointers(CATALOG),
    iceberg_live,
    (("catalog", CATALOG), ("catalog_type", "hive"), ("catalog_connection", "metastore")),
)

LAKES = {lake.name: lake for lake in (ICEBERG, DELTA, HUDI)}


class LakeWorld:
    """What both have in common. A plan that a test puts in place of the first gets the destination of a lake too."""

    def __init__(
        self,
        tables: Sequence[Table],
        warehouse: Path | str,
        lake: Lake = ICEBERG,
        *,
        frames: Frames | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._warehouse = warehouse
        self._options = options or {}
        self._lake = lake
        # With them, Spark writes the changes.
        self._frames = frames
        self.plan = sync_plan(tables)

    @property
    def plan(self) -> SyncPlan:
        return self._plan

    @plan.setter
    def plan(self, plan: SyncPlan) -> None:
        write = "native" if self._frames is None else "spark"
        said = {**dict(self._lake.options), "warehouse": str(self._warehouse), "write": write, **self._options}
        if isinstance(self._warehouse, str):
            said["warehouse_connection"] = OBJECTS
        options = tuple(said.items())
        lakes = tuple(replace(one, kind=self._lake.name, options=options) for one in plan.destinations)
        self._plan = replace(plan, destinations=lakes)

    @property
    def destination(self) -> DestinationPlan:
        return self.plan.destinations[0]

    def store(self, *, failpoints: Failpoints | None = None) -> LakeStore:
        raise NotImplementedError

    def sink(self, *, failpoints: Failpoints | None = None) -> Sink:
        return self.sink_over(self.store(failpoints=failpoints), failpoints=failpoints)

    def sink_over(self, store: LakeStore, *, failpoints: Failpoints | None = None) -> LakeSink:
        decoder = decoder_of(self.plan)
        more = {} if self._frames is None else {"frames": self._frames}
        return self._lake.sink(self.plan, self.destination, decoder=decoder, store=store, failpoints=failpoints, **more)

    def load(self, table: Table, rows: Sequence[Row]) -> Load:
        batch, _ = decoder_of(self.plan).rows(table, [json.dumps(row).encode() for row in rows])
        kind = sink_kind(self._lake.name)
        place = kind.load_area(self.destination, run_id="a run").create([table])[table.name]
        count = kind.load(self.destination, place, ArrowRows(batch.schema, iter([batch])))
        return Load(table, place.name, count)

    def seen(self) -> Seen:
        return self.store().look(STREAM, "settlement")

    def heads(self) -> Mapping[str, str]:
        return self.seen().heads

    def rows(self, table: Table) -> list[str]:
        """As other clients read them, written as the log writes them; only for the plain test tables."""
        location = self.heads().get(table.name)
        if location is None:
            return []
        live = live_in(self.destination) if isinstance(self._warehouse, str) else self._lake.live
        found = pa.Table.from_batches(live(table, location)(), schema_of(table)).combine_chunks()
        names = [column.name for column in table.columns]
        return sorted(
            text_of({name: as_logged(value) for name, value in zip(names, row, strict=True)})
            for batch in found.to_batches()
            for row in rows_of(table, batch)
        )


class MemoryCatalogueWorld(LakeWorld):
    def __init__(
        self,
        tables: Sequence[Table],
        warehouse: Path | str,
        *,
        lake: Lake = ICEBERG,
        frames: Frames | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(tables, warehouse, lake, frames=frames, options=options)
        self.database = LakeDatabase()

    def store(self, *, failpoints: Failpoints | None = None) -> LakeStore:
        return MemoryLakeStore(self.database, self.destination.namespace, failpoints=failpoints)

    def sink_losing_its_answer(self, lost: LostAnswer) -> Sink:
        self.database.lose_answer = lost
        return self.sink()

    def findings(self) -> list[Finding]:
        return sorted(self.database.findings, key=lambda finding: finding.offset)

    def put_back(self, ledger: LedgerRow) -> None:
        self.database.ledgers[ledger.stream] = ledger

    def close(self) -> None:
        return


class PostgresLakeWorld(LakeWorld):
    """Its catalogue in a database of the test session, whose publisher `connection` is."""

    def __init__(
        self,
        tables: Sequence[Table],
        connection: Connection,
        warehouse: Path | str,
        *,
        lake: Lake = ICEBERG,
        resolve: Callable[[str], Connection] | None = None,
    ) -> None:
        super().__init__(tables, warehouse, lake)
        self.publisher = connection
        self._resolve = resolve or either_of(connection)
        self._stores: list[PostgresLakeStore] = []
        self.session: psycopg.Connection[Any] = postgres(connection)
        self.session.execute("DROP SCHEMA IF EXISTS seamline CASCADE")
        for table in ("iceberg_tables", "iceberg_namespace_properties"):
            self.session.execute(f"DROP TABLE IF EXISTS public.{table}")
        if isinstance(warehouse, Path):
            shutil.rmtree(warehouse, ignore_errors=True)
            warehouse.mkdir()

    def store(self, *, failpoints: Failpoints | None = None) -> PostgresLakeStore:
        catalogue = self._lake.catalogue(self.destination)
        made = PostgresLakeStore(self.destination, catalogue, resolve=self._resolve, failpoints=failpoints)
        self._stores.append(made)
        return made

    def sink_losing_its_answer(self, lost: LostAnswer) -> Sink:
        store = self.store()
        lose_one_answer(store, lost, end_at_server=end_postgres_session, close=psycopg.Connection.close)
        return self.sink_over(store)

    def findings(self) -> list[Finding]:
        found = self.session.execute(
            "SELECT table_name, kind, row_key, log_offset FROM seamline.finding ORDER BY log_offset"
        )
        return [Finding(*row) for row in found.fetchall()]

    def put_back(self, ledger: LedgerRow) -> None:
        self.session.execute(
            "UPDATE seamline.ledger SET next_offset = %s, position = %s, epoch = %s WHERE stream = %s",
            (ledger.next_offset, json.dumps(position_to_json(ledger.position)), ledger.epoch, str(ledger.stream)),
        )

    def close(self) -> None:
        for store in self._stores:
            store.close()
        self.session.close()
