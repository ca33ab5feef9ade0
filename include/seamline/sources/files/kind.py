"""Files that somebody delivers as a source: one set for each business date, and no log."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar

from seamline.kinds.bulk import BulkRead, CopyTasks, OpenedSource, TableReaders, Wanted
from seamline.kinds.logins import Logins
from seamline.kinds.source import SourceKind
from seamline.plan.model import SourcePlan
from seamline.ports import Source

if TYPE_CHECKING:
    from seamline.spec.source import DeclaredSource


class Files:
    """`kinds.source.SourceKind`. It has no log."""

    name: ClassVar[str] = "files"

    def spec(self) -> "type[DeclaredSource]":
        from seamline.sources.files.spec import FilesSource

        return FilesSource

    def open_source(self, source: SourcePlan) -> Source:
        from seamline.sources.files.source import FilesSource

        return FilesSource(source)

    def open_for_tasks(
        self, source: SourcePlan, wanted: Wanted, tasks: CopyTasks
    ) -> AbstractContextManager[OpenedSource]:
        from seamline.sources.files.reading import open_for_tasks

        return open_for_tasks(source, wanted, tasks)

    def open_readers(
        self,
        source: SourcePlan,
        reads: Sequence[BulkRead],
        *,
        barrier: str,
        participant: int,  # noqa: ARG002
    ) -> TableReaders:
        from seamline.sources.files.reading import FilesReaders

        return FilesReaders(source, reads, barrier=barrier)

    def grant_script(self, source: SourcePlan, tables: Sequence[str], *, logins: Logins) -> str:  # noqa: ARG002
        return (
            f"-- {source.name} is a place for files, {source.namespace}: there is no database to grant in.\n"
            "-- Its login lists folders and reads files there, and needs to write nothing.\n"
        )


KIND: SourceKind = Files()
