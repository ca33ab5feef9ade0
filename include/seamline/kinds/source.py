"""What a kind of source is: all that the rest of Seamline asks of it by name.

A kind's class imports its clients inside its methods: a stream's worker needs none of what a snapshot needs, and the
DAG processor nothing at all.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from seamline.domain.catalogue import Table
from seamline.domain.position import Position
from seamline.domain.server_found import ListedTable
from seamline.kinds.bulk import BulkRead, CopyTasks, OpenedSource, TableReaders, Wanted
from seamline.kinds.logins import Logins
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan
from seamline.ports import HeartbeatPayload, LoggedSource, SchemaGuard, Source
from seamline.ports.separate import OpenedSide

if TYPE_CHECKING:
    from seamline.adapters.connect.endpoint import CaptureEndpoint, Start
    from seamline.adapters.debezium.envelope import Decoder
    from seamline.ports.certificates import ProbeSource
    from seamline.spec.source import DeclaredSource
    from seamline.values.changes import ChangeDecoder


class SourceKind(Protocol):
    """What tables are read from, all of them at one position."""

    name: ClassVar[str]

    def spec(self) -> "type[DeclaredSource]":
        """The model of its declaration."""

    def open_source(self, source: SourcePlan) -> Source: ...

    def open_for_tasks(
        self, source: SourcePlan, wanted: Wanted, tasks: CopyTasks
    ) -> AbstractContextManager[OpenedSource]:
        """The source at one position, here and for tasks that copy, for as long as the context is open."""

    def open_readers(
        self, source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str, participant: int
    ) -> TableReaders:
        """What a task reads tables with."""

    def grant_script(self, source: SourcePlan, tables: Sequence[str], *, logins: Logins) -> str:
        """What the owner of its database runs once; of a source that is declared without a log the rights to read."""


@runtime_checkable
class LoggedKind(SourceKind, Protocol):
    """A source whose log a connector can capture. Whether it does, a source's plan says (`has_log`)."""

    def open_source(self, source: SourcePlan) -> LoggedSource: ...

    def decoder(self, source: SourcePlan, tables: Collection[str]) -> "Decoder":
        """Of the records of its log topic, which all syncs of the source share. `tables`: those of the sync that reads;
        of others it may leave out what their records say."""

    def change_decoder(self, source: SourcePlan) -> "ChangeDecoder":
        """Of the row images in those records."""

    def connector(self) -> "ConnectorKind": ...


class ConnectorKind(Protocol):
    """The connector of a kind of source."""

    @property
    def plugin(self) -> str:
        """Its class, as Connect lists it."""

    @property
    def tested_versions(self) -> tuple[str, ...]:
        """Those that were run against kill -9, stop and resume, and huge transactions without loss."""

    @property
    def keeps_schema_history(self) -> bool:
        """Whether it needs a topic of its own for the tables' structure."""

    def settings(
        self, source: SourcePlan, tables: Sequence[str], endpoint: "CaptureEndpoint", start: "Start"
    ) -> Mapping[str, str]:
        """Those that no other kind has."""

    def first_offset(self, position: Position) -> Mapping[str, Any]:
        """The offset by which it begins at `position`, as it stores it itself."""


class SeenOrigins(Protocol):
    """Keeps, beside the plan, what a table was last seen to be. Anybody who looks at the source may write it."""

    def read(self, planned: Sequence[Table]) -> Mapping[str, str]:
        """`Table.origin` as it was last seen, of the tables that are still those of the plan."""

    def keep(self, planned: Table, seen: str) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class HidesSchemaChanges(Protocol):
    """A kind whose log reports no DDL: its catalogue has to be asked (ADR 9, 37)."""

    def open_guard(self, plan: SyncPlan, seen: SeenOrigins) -> SchemaGuard: ...

    def open_payload(self, source: SourcePlan) -> HeartbeatPayload: ...


@runtime_checkable
class MayRepeat(Protocol):
    """A kind whose log may say a change twice, as who writes it may. Each record of the log counts once all the same,
    and nobody knows which ones say the same: rows by a key end in the same state, without one there is one more."""

    may_repeat: ClassVar[str]
    """Who repeats, for people."""


@runtime_checkable
class ExplainsHangingReaders(Protocol):
    """A kind whose readers wait inside a client that nobody can look into."""

    def why_a_reader_hangs(self, source: SourcePlan, waits_for: str) -> str:
        """ "" where it does not hang."""


@runtime_checkable
class ReadsSeparately(Protocol):
    """A kind whose tables can be compared although nothing of ours writes or captures them. Its logins need SELECT."""

    def as_source(self, destination: DestinationPlan, of: SourcePlan) -> SourcePlan:
        """A destination of a kind of this name, as a source that is read: its tables lie in its namespace, under the
        names that they have in the sync. `of`: the sync's own source."""

    def open_separately(self, source: SourcePlan, tables: Sequence[Table], count: int) -> OpenedSide:
        """As `SeparateSide.open`."""


@runtime_checkable
class Certifies(Protocol):
    """A kind of source that a certificate can write probe rows to."""

    def open_probes(self, source: SourcePlan) -> "ProbeSource": ...


@runtime_checkable
class ListsTables(Protocol):
    """A kind of source whose tables can be listed before any is declared."""

    def list_tables(self, source: SourcePlan) -> Sequence[ListedTable]:
        """Every table of its database that its reader sees, in the order of names; none of the server's own."""


@runtime_checkable
class Drafts(Protocol):
    """A kind whose declaration lists its tables with their columns, as its server keeps no catalogue of them."""

    def drafted(
        self, source: str, connection: str, *, patterns: str, namespace: str, note: Callable[[str], None]
    ) -> str:
        """The text of a declaration, by what the server holds now; nothing is changed there. `patterns`: of tables,
        which commas divide; `namespace`: where they lie, "" for anywhere; `note` hears what is left out, and why.
        ConfigError: nothing there can be declared."""
