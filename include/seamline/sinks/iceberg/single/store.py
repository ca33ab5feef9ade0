"""`LakeStore` beside a catalogue that commits single tables: ledger and its rows first, then the catalogue."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from seamline.adapters import connections
from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import Session
from seamline.domain.changes import Finding
from seamline.domain.errors import CommitUnknown, TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports import Failpoints, Joining, Lease, Progress, Publication
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.single.following import Following
from seamline.sinks.iceberg.single.pointers import LedgerPointers
from seamline.sinks.lake.postgres_store import PostgresLakeStore
from seamline.sinks.lake.store import Outcome, PointerMove, Seen, Staging


class SingleLakeStore(PostgresLakeStore):
    """`PostgresLakeStore` that lets the catalogue follow."""

    def __init__(
        self,
        destination: DestinationPlan,
        following: Following,
        *,
        resolve: Callable[[str], Connection] = connections.resolve,
        failpoints: Failpoints | None = None,
    ) -> None:
        pointers = LedgerPointers(options_of(destination).catalog)
        super().__init__(destination, pointers, resolve=resolve, failpoints=failpoints)
        self._following = following

    def look(self, stream: StreamId, namespace: str) -> Seen:
        """What an owner that died has left to do in the catalogue is done first."""
        if not _is_shown(stream):
            return super().look(stream, namespace)
        with self._any_session(stream) as session:
            found = self._following.settled(session)
        seen = super().look(stream, namespace)
        return replace(seen, heads={**found.others, **seen.heads, **found.foreign})

    def commit(
        self,
        lease: Lease,
        moves: Sequence[PointerMove],
        findings: Sequence[Finding],
        *,
        progress: Progress,
        confirmed: LedgerRow,
    ) -> Outcome:
        outcome = super().commit(lease, moves, findings, progress=progress, confirmed=confirmed)
        if moves and _is_shown(lease.stream):
            self._follow(lease.stream)
        return outcome

    def published(self, stream: StreamId, run_id: str) -> bool:
        if not super().published(stream, run_id):
            return False
        self._follow_names(stream)
        return True

    def publish(self, stream: StreamId, staging: Staging, *, publication: Publication) -> LedgerRow:
        self._make_ready(stream)
        row = super().publish(stream, staging, publication=publication)
        self._follow_names(stream)
        return row

    def join(self, stream: StreamId, staging: Staging, *, joining: Joining) -> LedgerRow:
        self._make_ready(stream)
        row = super().join(stream, staging, joining=joining)
        self._follow_names(stream)
        return row

    def _follow(self, stream: StreamId) -> None:
        """CommitUnknown: the span is committed, and the catalogue does not show all of it yet. Whoever takes the stream
        next lets it."""
        try:
            with self._any_session(stream) as session:
                self._following.settled(session)
        except TransientError as exc:
            raise CommitUnknown(
                f"{stream} has committed, and its catalogue does not show it: {exc.message}", hint=exc.hint
            ) from exc

    def _follow_names(self, stream: StreamId) -> None:
        if not _is_shown(stream):
            return
        with self._publishing(stream) as session:
            self._following.renamed(session)

    def _make_ready(self, stream: StreamId) -> None:
        if not _is_shown(stream):
            return
        with self._publishing(stream) as session:
            self._following.made_ready(session)

    @contextmanager
    def _any_session(self, stream: StreamId) -> Iterator[Session]:
        """That of the stream, where it has one."""
        if self._session is not None and not self._session.closed:
            yield self._session
            return
        with self._short_session(stream) as session:
            yield session


def _is_shown(stream: StreamId) -> bool:
    """Tables of an incremental snapshot are in no catalogue until they join."""
    return INCREMENTAL not in stream.sync
