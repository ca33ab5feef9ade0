"""Both ends of a certificate's probe rows."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import Finding
from seamline.domain.probe import Default, Probe, ProbePath, StoredUnlike


class ProbeSource(Protocol):
    """The probe tables in the source, made by the owner of its tables. One certificate of a sync at a time."""

    def version(self) -> str: ...

    def edge_values(self, table: Table) -> Mapping[str, Sequence[str]]:
        """Literals by column."""

    def refusals(self, table: Table, column: Column, literals: Sequence[str]) -> Mapping[str, str]:
        """Those that the source itself does not take, each with its reason."""

    def defaults(self, table: Table) -> Mapping[str, Default]:
        """Of the columns that have one."""

    def limits(self) -> Mapping[Kind, Sequence[tuple[str, str]]]:
        """By kind of column: values that are known not to go through and are not sent, and what becomes of them."""

    def make(self, probes: Sequence[Probe]) -> None:
        """The tables, the marker table, and what a capture of them needs. Refused where a table is in the way."""

    def write(self, probe: Probe, path: ProbePath) -> None: ...

    def close(self) -> None: ...

    def drop(self) -> None:
        """Everything that `make` made, now or before; a repeat is a no-op. The connector is gone already."""


class ProbeDestination(Protocol):
    """Where the probes arrive."""

    def version(self) -> str: ...

    def type_of(self, column: Column) -> str: ...

    def without_place(self, column: Column, literals: Sequence[str]) -> Mapping[str, str]:
        """Those of the source's literals that a load or a stream refuses by name, each with its reason. They are sent
        to no destination: all have the same rows."""

    def prepare(self) -> None: ...

    def unlike(self, probe: Probe) -> Sequence[StoredUnlike]:
        """Every value whose stored bytes are not those that came with the snapshot."""

    def findings(self) -> Sequence[Finding]:
        """What the probes' stream met that its log did not promise."""

    def remove(self) -> None:
        """All that was made there; a repeat is a no-op."""
