"""MariaDB as a source."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.catalogue import Table
from seamline.domain.server_found import ListedTable
from seamline.kinds.bulk import BulkRead, CopyTasks, OpenedSource, TableReaders, Wanted
from seamline.kinds.logins import Logins
from seamline.kinds.source import LoggedKind
from seamline.plan.model import DestinationPlan, SourcePlan
from seamline.ports import LoggedSource
from seamline.ports.separate import OpenedSide

if TYPE_CHECKING:
    from seamline.adapters.debezium.envelope import Decoder
    from seamline.kinds.source import ConnectorKind
    from seamline.ports.certificates import ProbeSource
    from seamline.spec.source import DatabaseSource
    from seamline.values.changes import ChangeDecoder


class MariaDb:
    """`kinds.source.LoggedKind`, with certificates; its readers wait inside connectorx."""

    name: ClassVar[str] = "mariadb"

    def spec(self) -> "type[DatabaseSource]":
        from seamline.sources.mariadb.spec import MariadbSource

        return MariadbSource

    def open_source(self, source: SourcePlan) -> LoggedSource:
        from seamline.sources.mariadb.source import open_source

        return open_source(source)

    def open_for_tasks(
        self, source: SourcePlan, wanted: Wanted, tasks: CopyTasks
    ) -> AbstractContextManager[OpenedSource]:
        from seamline.databases.mysql.parallel_snapshot import open_source_for_tasks
        from seamline.sources.mariadb.sessions import READING

        return open_source_for_tasks(READING, source, wanted, tasks)

    def open_readers(
        self, source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str, participant: int
    ) -> TableReaders:
        from seamline.sources.mariadb.readers import open_readers

        return open_readers(source, reads, barrier=barrier, participant=participant)

    def why_a_reader_hangs(self, source: SourcePlan, waits_for: str) -> str:
        from seamline.sources.mariadb.readers import why_it_hangs

        return why_it_hangs(source, waits_for)

    def decoder(self, source: SourcePlan, tables: Collection[str]) -> "Decoder":  # noqa: ARG002 (a record names its own)
        from seamline.sources.mariadb.decode import MariaDbDecoder

        return MariaDbDecoder(source.connector, source.places, source.limits)

    def change_decoder(self, source: SourcePlan) -> "ChangeDecoder":
        from seamline.databases.mysql.row_decoder import DECODER

        return DECODER

    def connector(self) -> "ConnectorKind":
        from seamline.sources.mariadb.connector import CONNECTOR

        return CONNECTOR

    def grant_script(self, source: SourcePlan, tables: Sequence[str], *, logins: Logins) -> str:
        from seamline.sources.mariadb.grants import script_of

        return script_of(source, tables, logins=logins)

    def as_source(self, destination: DestinationPlan, of: SourcePlan) -> SourcePlan:
        from seamline.databases.mysql.separate import as_source

        return as_source(destination, of)

    def open_separately(self, source: SourcePlan, tables: Sequence[Table], count: int) -> OpenedSide:  # noqa: ARG002
        from seamline.sources.mariadb.separate import open_separately

        return open_separately(source, tables)

    def open_probes(self, source: SourcePlan) -> "ProbeSource":
        from seamline.sources.mariadb.probes import open_probes

        return open_probes(source)

    def list_tables(self, source: SourcePlan) -> Sequence[ListedTable]:
        from seamline.databases.mysql.client import MARIADB as server
        from seamline.databases.mysql.listed import list_tables

        return list_tables(server, source)


KIND: LoggedKind = MariaDb()
