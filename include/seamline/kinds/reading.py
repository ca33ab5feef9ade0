"""Tables of a sync at one position, for people who read them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from seamline.domain.cut_names import is_tag
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.position import Position

if TYPE_CHECKING:
    import pyarrow as pa


# The newest cut that reconciled or was signed, and the tables as the newest commit has left them.
PROVEN, LIVE = "proven", "live"


def place_of(at: date | str) -> date | str | None:
    """A date, the tag of a cut, or None of the newest proven one. ConfigError: it is none of them. `live` is for the
    caller."""
    if isinstance(at, date) or is_tag(at):
        return at
    if at == PROVEN:
        return None
    try:
        return date.fromisoformat(at)
    except ValueError as exc:
        raise ConfigError(
            f"{at!r} is no place to read a sync at",
            hint=f"a business date as 2026-11-27, a tag as cut_2026_11_27_v1, `{PROVEN}` or `{LIVE}`",
        ) from exc


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


@runtime_checkable
class ReadsInAnyOrder(Protocol):
    """A `PinnedTable` whose rows may come in another order each time."""

    @property
    def is_in_any_order(self) -> bool: ...


@runtime_checkable
class KnowsKey(Protocol):
    """A `PinnedTable` that says by what a row of it is known; () where it has no key."""

    @property
    def key(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class SyncTables(Mapping[str, PinnedTable]):
    """By name, all at `position`. `cut`: the tag that each of them has; "" of live tables. `left_out`: by table of the
    sync why it is not among them, as far as that is known."""

    sync: str
    position: Position
    tables: Mapping[str, PinnedTable]
    cut: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)

    def table(self, name: str) -> PinnedTable:
        """As `[name]`. Refused: it is not among them; the reason where it is known."""
        if name in self.tables:
            return self.tables[name]
        where = f"cut {self.cut} of {self.sync}" if self.cut else f"what {self.sync} has now"
        why = f": {self.left_out[name]}" if name in self.left_out else ""
        raise Refused(
            f"table {name!r} is not in {where}{why}",
            hint=f"there are {', '.join(self.tables)}" if self.tables else "read another date",
            sync=self.sync,
            table=name,
        )

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
        from seamline.kinds.kept_rows import read_in_one_order
        from seamline.values.row_changes import Side, changes_between

        if part:
            return
        with ExitStack() as kept:
            since, until = (
                Side(one.schema, kept.enter_context(read_in_one_order(one))) for one in (self.since, self.until)
            )
            yield from changes_between(since, until, self.key)

    def arrow(self) -> "pa.Table":
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), self.schema)
