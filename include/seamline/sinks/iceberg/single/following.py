"""A catalogue that commits single tables follows the ledger, and what others have done there comes to the ledger.

The ledger's rows are the truth: they move in one transaction with it. Whoever looks at the tables, or has committed,
lets each entry of the catalogue lead where its row does, by compare-and-set. So a table is behind for moments, and
never ahead. A repeat, by anybody at any time, finds done what is done: the target is always the row as it stands now.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import psycopg

from seamline.databases.postgres.client import Session, translated
from seamline.domain.errors import Diverged, TransientError
from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.io import warehouse_io, warehouse_root
from seamline.sinks.iceberg.manifests import read_metadata
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.single.catalogue import NAME, Entry, SingleCatalogue, folder_of
from seamline.sinks.iceberg.single.pointers import LedgerPointers
from seamline.sinks.iceberg.single.relation import Relation, is_behind, relation
from seamline.sinks.lake.files import namespace_folder, url_of
from seamline.sinks.lake.files import translated as on_disk
from seamline.sinks.lake.pointers import Pointers
from seamline.sinks.lake.store import PointerMove, PointerMoved

# How often the tables are looked at again because somebody has moved one meanwhile.
_ATTEMPTS = 50


@dataclass(slots=True)
class Settled:
    """What a look has found. `others`: name → metadata file of tables that are not the ledger's, "" of what is no
    Iceberg table. `foreign`: the ledger's tables that somebody else has changed beside it, each with where the
    catalogue leads."""

    others: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)


class Following:
    """Of one destination. Nothing is kept between two calls."""

    def __init__(
        self,
        destination: DestinationPlan,
        open_catalogue: Callable[[], SingleCatalogue],
        *,
        pointers: Pointers | None = None,
    ) -> None:
        options = options_of(destination)
        self._destination = destination
        self._open = open_catalogue
        self._pointers = pointers or LedgerPointers(options.catalog)
        self._io = warehouse_io(options)
        self._folder = url_of(namespace_folder(warehouse_root(options), destination.namespace))

    def settled(self, session: Session) -> Settled:
        """Once every entry leads where the ledger does, but for those of `foreign`."""
        with closing(self._open()) as catalogue:
            return self._settled(session, catalogue)

    def require_settled(self, session: Session) -> None:
        """Diverged where somebody else has changed a table beside the ledger."""
        if found := self.settled(session).foreign:
            raise Diverged(
                f"somebody else has written tables of {self._destination.namespace} beside the ledger:"
                f" {', '.join(sorted(found))}",
                hint="put them back by rollback_to_snapshot of Spark, or onboard the sync again",
                table=",".join(sorted(found)),
            )

    def renamed(self, session: Session) -> None:
        """As `settled`, and entries under names that the ledger does not know any more go. For publishers, who take
        turns."""
        with closing(self._open()) as catalogue:
            entries, pointers = catalogue.entries(), self._led(session)
            folders = {folder_of(pointer) for pointer in pointers.values()}
            for name, entry in entries.items():
                if name not in pointers and entry.pointer and entry.folder in folders:
                    catalogue.drop(name)
            self._settled(session, catalogue)

    def made_ready(self, session: Session) -> None:
        """Before a publish, which brings other rows: what somebody else has done to the tables is gone on from."""
        with closing(self._open()) as catalogue:
            catalogue.make_namespace(self._folder)
            for name, entry in self._settled(session, catalogue).foreign.items():
                self._taken(session, name, self._led(session)[name], entry)

    # ---- one look ---------------------------------------------------------------------------------------------------

    def _settled(self, session: Session, catalogue: SingleCatalogue) -> Settled:
        for _ in range(_ATTEMPTS):
            # Before the rows: a row that is older than its entry would look as if somebody else had gone on.
            entries = catalogue.entries()
            pointers = self._led(session)
            folders = {folder_of(pointer) for pointer in pointers.values()}
            found = Settled()
            is_done = True
            # A name that the catalogue cannot have is of a table that left, whose run has given it that one.
            for name, pointer in sorted((n, p) for n, p in pointers.items() if NAME.fullmatch(n)):
                is_done &= self._is_led(session, catalogue, found, name, pointer, entries.get(name), folders)
            if is_done:
                # A name that the ledger has left behind is nobody else's.
                left = {name for name, one in entries.items() if one.pointer and one.folder in folders}
                found.others = {n: one.pointer for n, one in entries.items() if n not in pointers and n not in left}
                return found
        raise TransientError(f"somebody moves tables of {self._destination.namespace} all the time", hint="try again")

    def _is_led(
        self,
        session: Session,
        catalogue: SingleCatalogue,
        found: Settled,
        name: str,
        pointer: str,
        entry: Entry | None,
        folders: set[str],
    ) -> bool:
        """Whether nothing is left to do for a table. False: its entry or its row has moved meanwhile."""
        if entry is not None and entry.pointer == pointer:
            return True
        with on_disk(f"read the metadata of table {name}"):
            ledger = read_metadata(pointer, self._io)
            if entry is None:
                return catalogue.add(name, pointer, ledger)
            if is_behind(ledger, entry.pointer):
                return catalogue.move(name, entry.pointer, pointer, ledger)
            if entry.folder != folder_of(pointer):
                # Of a table that has left its name to this one.
                self._require_own(name, entry, folders)
                return catalogue.move(name, entry.pointer, pointer, ledger)
            stands = relation(ledger, pointer, read_metadata(entry.pointer, self._io), entry.pointer)
        if stands is Relation.AHEAD:
            return self._taken(session, name, pointer, entry.pointer)
        if stands is Relation.APART:
            found.foreign[name] = entry.pointer
            return True
        return catalogue.move(name, entry.pointer, pointer, ledger)

    def _require_own(self, name: str, entry: Entry, folders: set[str]) -> None:
        if entry.folder not in folders:
            raise Diverged(
                f"{self._destination.namespace}.{name} is another table in the catalogue than the ledger's"
                f" ({entry.pointer or 'no Iceberg table'})",
                hint="drop or rename it there: the stream's own table comes back at its next look",
                table=name,
            )

    def _taken(self, session: Session, name: str, pointer: str, entry: str) -> bool:
        """The ledger's row leads to what somebody else has made of the table, whose stream judges it."""
        with translated(f"go on from what the catalogue has of {name}"):
            try:
                # One statement.
                self._pointers.move(session, self._destination.namespace, [PointerMove(name, pointer, entry, 0)])
            except PointerMoved:
                return False
        return True

    def _led(self, session: Session) -> Mapping[str, str]:
        """Name → metadata file, by the ledger; none where nothing was ever published."""
        with translated("read where the tables lead"):
            try:
                return self._pointers.pointers(session, self._destination.namespace)
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                return {}
