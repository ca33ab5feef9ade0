"""Views over the cuts of a lake, for people who ask by name: `<table>_proven` and `<table>_<date>` in a namespace of
their own.

Which views there are follows from the rows of the cuts alone: whoever changes these rows lets the views follow in the
same transaction.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from seamline.databases.postgres.client import Session
from seamline.domain.ledger import StreamId
from seamline.sinks.lake import cut_rows
from seamline.sinks.lake.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class CutView:
    """What a view shows: `table` as its tag `tag` holds it. `stream`: whose cut that is."""

    stream: str
    table: str
    tag: str


# A store takes some requests per file, and the server ends a transaction that asks nothing of it for 15 s.
FILES_AT_ONCE = 16


class ViewFiles(Protocol):
    """How a format of tables writes views down. Safe to share between threads."""

    def read(self, location: str) -> CutView | None:
        """What the view of a metadata file shows; None where somebody else has written it."""

    def tags(self, table_location: str) -> Collection[str]:
        """The tags that the table of that metadata file has."""

    def write(self, name: str, view: CutView, table_location: str) -> str:
        """The metadata file of a new view over the table of that metadata file."""

    def drop(self, location: str) -> None:
        """No view has this metadata file any more. A repeat changes nothing."""


@dataclass(frozen=True, slots=True)
class Followed:
    """Metadata files: those of new views, and those that no view has once the transaction is committed."""

    added: Sequence[str] = ()
    unneeded: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CutViews:
    """The views of one destination, in a namespace of their own."""

    catalogue: Catalogue
    namespace: str
    files: ViewFiles
    # What a metadata file says never changes.
    known: dict[str, CutView | None] = field(default_factory=dict)

    def look(self, session: Session) -> None:
        """Read the views that are there, before the transaction of `follow`: it reads only what has come since."""
        self._shown(self.catalogue.views(session, self.namespace))

    def follow(self, session: Session, stream: StreamId, heads: Mapping[str, str]) -> "Followed":
        """Let the stream's views show what the rows of its cuts say now, inside the caller's transaction.

        `heads`: table → metadata file. A view of somebody else's stays, also under a name that is wanted.
        """
        found = self.catalogue.views(session, self.namespace)
        shown = self._shown(found)
        wanted = self._that_can_be_read(_wanted(session, stream), heads)
        unneeded = [
            name for name, view in shown.items() if view and view.stream == str(stream) and view != wanted.get(name)
        ]
        for name in unneeded:
            self.catalogue.drop_view(session, self.namespace, name)
        names = sorted(wanted.keys() - (found.keys() - unneeded))
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            made = pool.map(lambda name: self.files.write(name, wanted[name], heads[wanted[name].table]), names)
            added = dict(zip(names, made, strict=True))
        for name, location in added.items():
            self.catalogue.add_view(session, self.namespace, name, location)
        return Followed(list(added.values()), [found[name] for name in unneeded])

    def _that_can_be_read(self, wanted: Mapping[str, CutView], heads: Mapping[str, str]) -> dict[str, CutView]:
        """Those whose table has the tag: one that has left its sync and come back is another table, without the cuts of
        before."""
        tables = sorted({view.table for view in wanted.values()} & heads.keys())
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            found = pool.map(lambda table: self.files.tags(heads[table]), tables)
            tags = dict(zip(tables, found, strict=True))
        return {name: view for name, view in wanted.items() if view.tag in tags.get(view.table, ())}

    def _shown(self, found: Mapping[str, str]) -> dict[str, CutView | None]:
        unread = [location for location in found.values() if location not in self.known]
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            self.known.update(zip(unread, pool.map(self.files.read, unread), strict=True))
        return {name: self.known[location] for name, location in found.items()}

    def drop_files(self, locations: Iterable[str]) -> None:
        for location in locations:
            self.files.drop(location)


def _wanted(session: Session, stream: StreamId) -> dict[str, CutView]:
    """By name: each table's newest proven cut, and of each date the version that counts."""
    shown = {
        f"{table}_{day:%Y_%m_%d}": CutView(str(stream), table, tag)
        for table, day, tag in cut_rows.tags_that_count(session, stream)
    }
    proven = cut_rows.newest_proven(session, stream)
    if proven is None:
        return shown
    return shown | {f"{table}_proven": CutView(str(stream), table, proven.tag) for table in proven.snapshots}
