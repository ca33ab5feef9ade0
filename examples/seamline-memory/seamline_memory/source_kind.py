"""A bank in memory as a source. Its methods import what they need, as those of the sink's kind do."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.errors import Refused
from seamline.kinds.bulk import BulkRead, CopyTasks, OpenedSource, TableReaders, Wanted
from seamline.kinds.logins import Logins
from seamline.kinds.source import LoggedKind
from seamline.plan.model import SourcePlan
from seamline.ports import LoggedSource

if TYPE_CHECKING:
    from seamline.adapters.debezium.envelope import Decoder
    from seamline.kinds.source import ConnectorKind
    from seamline.spec.source import DatabaseSource
    from seamline.values.changes import ChangeDecoder


class Memory:
    """`LoggedKind`."""

    name: ClassVar[str] = "memory"

    def spec(self) -> "type[DatabaseSource]":
        from seamline_memory.spec import MemorySource

        return MemorySource

    def open_source(self, source: SourcePlan) -> LoggedSource:
        from seamline_memory.bank import bank
        from seamline_memory.source import MemorySource

        return MemorySource(bank(source.database))

    def open_for_tasks(
        self, source: SourcePlan, wanted: Wanted, tasks: CopyTasks
    ) -> AbstractContextManager[OpenedSource]:
        from seamline_memory.bank import bank
        from seamline_memory.source import open_for_tasks

        return open_for_tasks(bank(source.database), wanted, tasks)

    def open_readers(
        self,
        source: SourcePlan,  # noqa: ARG002
        reads: Sequence[BulkRead],
        *,
        barrier: str,
        participant: int,  # noqa: ARG002
    ) -> TableReaders:
        from seamline_memory.source import MemoryReaders

        return MemoryReaders(reads, barrier)

    def decoder(self, source: SourcePlan, tables: Collection[str]) -> "Decoder":  # noqa: ARG002 (a record names its own)
        from seamline_memory.bank import bank
        from seamline_memory.log import MemoryLogDecoder

        return MemoryLogDecoder(bank(source.database).tables)

    def change_decoder(self, source: SourcePlan) -> "ChangeDecoder":  # noqa: ARG002
        from seamline_memory.images import MemoryDecoder

        return MemoryDecoder()

    def connector(self) -> "ConnectorKind":
        raise Refused("no connector captures a bank in memory", hint="read its log by `seamline_memory.log`")

    def grant_script(self, source: SourcePlan, tables: Sequence[str], *, logins: Logins) -> str:  # noqa: ARG002
        return f"-- {source.database} lies in memory: there is nothing to grant\n"


KIND: LoggedKind = Memory()
