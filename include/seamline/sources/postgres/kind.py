"""PostgreSQL as a source."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.catalogue import Table
from seamline.domain.server_found import ListedTable
from seamline.kinds.bulk import BulkRead, CopyTasks, OpenedSource, TableReaders, Wanted
from seamline.kinds.logins import Logins
from seamline.kinds.source import LoggedKind, SeenOrigins
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan
from seamline.ports import HeartbeatPayload, LoggedSource, SchemaGuard
from seamline.ports.separate import OpenedSide

if TYPE_CHECKING:
    from seamline.adapters.debezium.envelope import Decoder
    from seamline.kinds.source import ConnectorKind
    from seamline.ports.certificates import ProbeSource
    from seamline.spec.source import DatabaseSource
    from seamline.values.changes import ChangeDecoder


class Postgres:
    """`kinds.source.LoggedKind`, with certificates; its log reports no DDL, so its catalogue is guarded."""

    name: ClassVar[str] = "postgres"

    def spec(self) -> "type[DatabaseSource]":
        from seamline.sources.postgres.spec import PostgresSource

        return PostgresSource

    def open_source(self, source: SourcePlan) -> LoggedSource:
        from seamline.sources.postgres.source import open_source

        return open_source(source)

    def open_for_tasks(
        self, source: SourcePlan, wanted: Wanted, tasks: CopyTasks
    ) -> AbstractContextManager[OpenedSource]:
        from seamline.sources.postgres.bulk import open_source_for_tasks

        return open_source_for_tasks(source, wanted, tasks)

    def open_readers(
        self, source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str, participant: int
    ) -> TableReaders:
        from seamline.sources.postgres.bulk import open_readers

        return open_readers(source, reads, barrier=barrier, participant=participant)

    def decoder(self, source: SourcePlan, tables: Collection[str]) -> "Decoder":  # noqa: ARG002 (a record names its own)
        from seamline.sources.postgres.decode import WalDecoder

        return WalDecoder(source.connector, source.database, source.places)

    def change_decoder(self, source: SourcePlan) -> "ChangeDecoder":
        from seamline.sources.postgres.row_decoder import DECODER

        return DECODER

    def connector(self) -> "ConnectorKind":
        from seamline.sources.postgres.connector import CONNECTOR

        return CONNECTOR

    def grant_script(self, source: SourcePlan, tables: Sequence[str], *, logins: Logins) -> str:
        from seamline.sources.postgres.grants import grant_script

        return grant_script(source, tables, logins=logins)

    def as_source(self, destination: DestinationPlan, of: SourcePlan) -> SourcePlan:
        from seamline.adapters.connections import resolve

        return replace(
            of,
            name=destination.name,
            kind=self.name,
            database=resolve(destination.connection).database,
            reader=destination.connection,
            schema=destination.namespace,
            elsewhere=(),
            databases=(),
        )

    def open_separately(self, source: SourcePlan, tables: Sequence[Table], count: int) -> OpenedSide:
        from seamline.sources.postgres.separate import open_separately

        return open_separately(source, tables, count)

    def open_guard(self, plan: SyncPlan, seen: SeenOrigins) -> SchemaGuard:
        from seamline.sources.postgres.schema_guard import open_guard

        return open_guard(plan, seen)

    def open_payload(self, source: SourcePlan) -> HeartbeatPayload:
        from seamline.sources.postgres.heartbeat_payload import open_payload

        return open_payload(source)

    def open_probes(self, source: SourcePlan) -> "ProbeSource":
        from seamline.sources.postgres.probes import open_probes

        return open_probes(source)

    def list_tables(self, source: SourcePlan) -> Sequence[ListedTable]:
        from seamline.sources.postgres.listed import list_tables

        return list_tables(source)


KIND: LoggedKind = Postgres()
