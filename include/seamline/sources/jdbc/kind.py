"""A database with a JDBC driver as a source."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar

from seamline.domain.errors import InvariantViolated
from seamline.kinds.bulk import BulkRead, CopyTasks, OpenedSource, TableReaders, Wanted
from seamline.kinds.logins import Logins
from seamline.kinds.source import SourceKind
from seamline.plan.model import SourcePlan
from seamline.ports import Source

if TYPE_CHECKING:
    from seamline.spec.source import UnloggedDatabase


class Jdbc:
    """`kinds.source.SourceKind` without a log."""

    name: ClassVar[str] = "jdbc"

    def spec(self) -> "type[UnloggedDatabase]":
        from seamline.sources.jdbc.spec import JdbcSource

        return JdbcSource

    def open_source(self, source: SourcePlan) -> Source:
        from seamline.sources.jdbc.source import open_source

        return open_source(source)

    def open_for_tasks(
        self, source: SourcePlan, wanted: Wanted, tasks: CopyTasks
    ) -> AbstractContextManager[OpenedSource]:
        from seamline.sources.jdbc.read import open_source_for_tasks

        return open_source_for_tasks(source, wanted, tasks)

    def open_readers(
        self, source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str, participant: int
    ) -> TableReaders:
        raise InvariantViolated("a JDBC source is read by the one session that holds its transaction")

    def grant_script(self, source: SourcePlan, tables: Sequence[str], *, logins: Logins) -> str:
        """In words: every server has statements of its own."""
        listed = "".join(f"--   {source.namespace}.{table}\n" for table in tables)
        return f"-- Login {logins.reader} needs the right to connect, and SELECT on:\n{listed}"


KIND: SourceKind = Jdbc()
