"""Where the tables of a source lie, and what a sync calls them.

A table has one name in a sync: in its plan, its ledgers, its reports and its destinations. Where it lies, only the
adapter of its source asks (ADR 42).
"""

from collections.abc import Iterable
from typing import NamedTuple

# Between the parts of a place; no name of a table that can be declared has it.
SEPARATOR = "."


class TablePlace(NamedTuple):
    """`namespace` is the schema of a table in PostgreSQL, its database in MariaDB."""

    namespace: str
    table: str

    @property
    def text(self) -> str:
        return f"{self.namespace}{SEPARATOR}{self.table}"

    @classmethod
    def declared(cls, written: str, namespace: str) -> "TablePlace":
        """Of a table as a sync names it: `namespace.table`, or `table` alone for the source's own namespace."""
        before, _, table = written.rpartition(SEPARATOR)
        return cls(before or namespace, table)


class TablePlaces:
    """The tables of one sync. `elsewhere`: name and place of each that does not lie in `namespace` under its own
    name."""

    def __init__(self, namespace: str, elsewhere: Iterable[tuple[str, str]] = ()) -> None:
        self.namespace = namespace
        self._place = {name: TablePlace.declared(place, namespace) for name, place in elsewhere}
        self._name = {place: name for name, place in self._place.items()}

    @property
    def namespaces(self) -> frozenset[str]:
        """Every one that a table of the sync may lie in."""
        return frozenset((self.namespace, *(place.namespace for place in self._place.values())))

    def of(self, name: str) -> TablePlace:
        """Where the table lies that the sync calls so."""
        return self._place.get(name) or TablePlace(self.namespace, name)

    def name(self, namespace: str, table: str) -> str:
        """What the sync calls the table of this place. One that it does not carry gets a name that none of its own
        has."""
        place = TablePlace(namespace, table)
        if place in self._name:
            return self._name[place]
        return table if namespace == self.namespace and table not in self._place else place.text

    def names_like(self, namespace: str, table: str) -> tuple[str, ...]:
        """As `name`, of a place as somebody typed it: a server may take either case for the same."""
        exact = self.name(namespace, table)
        if TablePlace(namespace, table) in self._name:
            return (exact,)
        typed = TablePlace(namespace, table).text.casefold()
        alike = [name for place, name in self._name.items() if place.text.casefold() == typed]
        is_own = namespace.casefold() == self.namespace.casefold()
        return tuple(dict.fromkeys((self.name(self.namespace, table) if is_own else exact, *alike)))

    def captured(self, name: str) -> str:
        """What the capture, which is shared by all syncs of the source, calls the table."""
        place = self.of(name)
        return place.table if place.namespace == self.namespace else place.text

    def of_captured(self, captured: str) -> TablePlace:
        return TablePlace.declared(captured, self.namespace)
