"""Tables of a sync at one position, for people who read them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from seamline.domain.position import Position

if TYPE_CHECKING:
    import pyarrow as pa


class PinnedTable(Protocol):
    """A table that reads the same at any time, as long as its cut is kept. May be pickled."""

    @property
    def schema(self) -> "pa.Schema": ...

    @property
    def parts(self) -> int:
        """Into how many parts its rows can be divided at most; 0 of a table without rows."""

    def batches(self, *, part: int = 0, of: int = 1) -> "Iterator[pa.RecordBatch]":
        """The rows of one part of so many, or all."""

    def arrow(self) -> "pa.Table": ...


@dataclass(frozen=True, slots=True)
class SyncTables(Mapping[str, PinnedTable]):
    """By name, all at `position`. `cut`: the tag that each of them has; "" of live tables."""

    sync: str
    position: Position
    tables: Mapping[str, PinnedTable]
    cut: str = ""

    def __getitem__(self, name: str) -> PinnedTable:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def arrow(self) -> "dict[str, pa.Table]":
        """All rows of all tables."""
        return {name: table.arrow() for name, table in self.tables.items()}


@dataclass(frozen=True, slots=True)
class TableChanges:
    """A `PinnedTable` of what a table has at one place and not, or otherwise, at another: first what `until` shows,
    then what `since` has shown of it (`values.row_changes`). Without a `key` rows are added and removed, never changed.
    """

    since: PinnedTable
    until: PinnedTable
    key: tuple[str, ...] = ()

    @property
    def schema(self) -> "pa.Schema":
        from seamline.values.row_changes import changes_schema

        return changes_schema(self.since.schema, self.until.schema)

    @property
    def parts(self) -> int:
        return 1

    def batches(self, *, part: int = 0, of: int = 1) -> "Iterator[pa.RecordBatch]":  # noqa: ARG002 (one part)
        from seamline.values.row_changes import Side, changes_between

        if part:
            return iter(())
        since, until = (Side(one.schema, one.batches) for one in (self.since, self.until))
        return changes_between(since, until, self.key)

    def arrow(self) -> "pa.Table":
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), self.schema)
