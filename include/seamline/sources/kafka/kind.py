"""Topics of others as a source: Debezium's, Maxwell's, Canal's, and rows as plain JSON."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.server_found import ListedTable
from seamline.kinds.bulk import BulkRead, CopyTasks, OpenedSource, TableReaders, Wanted
from seamline.kinds.logins import Logins
from seamline.kinds.source import LoggedKind
from seamline.plan.model import SourcePlan
from seamline.ports import LoggedSource

if TYPE_CHECKING:
    from seamline.adapters.debezium.envelope import Decoder
    from seamline.kinds.source import ConnectorKind
    from seamline.spec.source import DeclaredSource
    from seamline.values.changes import ChangeDecoder


class Kafka:
    """`kinds.source.LoggedKind` with the powers `Drafts`, `ListsTables` and `MayRepeat`."""

    name: ClassVar[str] = "kafka"
    may_repeat: ClassVar[str] = "who writes its topics may send a message twice"

    def spec(self) -> "type[DeclaredSource]":
        from seamline.sources.kafka.spec import KafkaSource

        return KafkaSource

    def open_source(self, source: SourcePlan) -> LoggedSource:
        from seamline.sources.kafka.source import KafkaSource

        return KafkaSource(source)

    def open_for_tasks(
        self, source: SourcePlan, wanted: Wanted, tasks: CopyTasks
    ) -> AbstractContextManager[OpenedSource]:
        from seamline.sources.kafka.source import open_for_tasks

        return open_for_tasks(source, wanted, tasks)

    def open_readers(
        self,
        source: SourcePlan,
        reads: Sequence[BulkRead],
        *,
        barrier: str,
        participant: int,  # noqa: ARG002 (each reads by itself)
    ) -> TableReaders:
        from seamline.sources.kafka.source import KafkaReaders

        return KafkaReaders(source, reads, barrier=barrier)

    def decoder(self, source: SourcePlan, tables: Collection[str]) -> "Decoder":
        from seamline.sources.kafka.layout import layout_of
        from seamline.sources.kafka.log import KafkaLogDecoder

        return KafkaLogDecoder(layout_of(source).of_sync(tables), source.name)

    def change_decoder(self, source: SourcePlan) -> "ChangeDecoder":  # noqa: ARG002 (all images are alike)
        from seamline.sources.kafka.images import DECODER

        return DECODER

    def connector(self) -> "ConnectorKind":
        from seamline.sources.kafka.connector import CONNECTOR

        return CONNECTOR

    def grant_script(self, source: SourcePlan, tables: Sequence[str], *, logins: Logins) -> str:
        from seamline.sources.kafka.grants import grant_script

        return grant_script(source, tables, login=logins.reader)

    def drafted(
        self, source: str, connection: str, *, patterns: str, namespace: str, note: Callable[[str], None]
    ) -> str:
        from seamline.sources.kafka.draft import drafted

        return drafted(source, connection, patterns=patterns, namespace=namespace, note=note)

    def list_tables(self, source: SourcePlan) -> Sequence[ListedTable]:
        """Those that its declaration names."""
        from seamline.sources.kafka.layout import layout_of

        names = sorted(one.definition.name for one in layout_of(source).tables)
        return [ListedTable(source.namespace, name) for name in names]


KIND: LoggedKind = Kafka()
