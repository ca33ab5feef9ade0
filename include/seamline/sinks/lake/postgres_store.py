"""`LakeStore` in PostgreSQL: ledger, `lake_state` and JDBC catalogue in one database, changed by one transaction."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import psycopg

from seamline.adapters import connections
from seamline.adapters.connections import Connection
from seamline.adapters.hanging import SILENCE_S
from seamline.databases.postgres import ledger as ledger_tables
from seamline.databases.postgres.client import Session, open_session, session_name, translated
from seamline.databases.postgres.commit import abandon, close, send_commit
from seamline.databases.postgres.epoch import taken
from seamline.databases.postgres.kept_open import kept_open
from seamline.domain.changes import Finding
from seamline.domain.errors import Fenced, InvariantViolated, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.kinds.ledger_rules import advanced, fenced_or, resolved
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports import Failpoints, Joining, Lease, Progress, Publication, Unarmed
from seamline.sinks.lake import state as lake_state
from seamline.sinks.lake.pointers import Pointers
from seamline.sinks.lake.store import CatalogueChanges, Outcome, PointerMove, Seen, Staging, repeated, require_carried

# Long enough for a compaction to move its pointer, short enough not to queue a stream behind us.
_LOCK_TIMEOUT = "5s"
# How often a publish or a join stages while the stream goes on. One that commits all the time is ahead of each attempt,
# so it waits for the ones after: they stage within their transaction.
_BESIDE_THE_STREAM = 3


class PostgresLakeStore:
    """One session commits spans; it is opened by `acquire`, or by a commit that lost it."""

    def __init__(
        self,
        destination: DestinationPlan,
        catalogue: Pointers,
        *,
        resolve: Callable[[str], Connection] = connections.resolve,
        failpoints: Failpoints | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._destination = destination
        self._catalogue = catalogue
        self._resolve = resolve
        self._failpoints = failpoints or Unarmed()
        self._silence_s = silence_s
        self._session: Session | None = None

    # ---- LakeStore --------------------------------------------------------------------------------------------------

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        with self._short_session(stream) as session, translated("read the ledger"):
            return ledger_tables.read_ledger(session, stream)

    def acquire(self, stream: StreamId, *, after_epoch: int | None, confirmed: LedgerRow | None) -> Lease:
        self._drop_session()
        session = self._open(session_name(stream, None))
        try:
            with translated("take a new epoch"):
                row = taken(session, stream, self._destination.name, after_epoch=after_epoch, confirmed=confirmed)
        except SeamlineError:
            close(session)
            raise
        self._session = session
        return Lease(stream, row.epoch, row)

    def look(self, stream: StreamId, namespace: str) -> Seen:
        if self._session is not None and not self._session.closed:
            try:
                return look(self._session, self._catalogue, stream, namespace)
            except TransientError:
                self._drop_session()
                raise
        with self._short_session(stream) as session:
            return look(session, self._catalogue, stream, namespace)

    def commit(
        self,
        lease: Lease,
        moves: Sequence[PointerMove],
        findings: Sequence[Finding],
        *,
        progress: Progress,
        confirmed: LedgerRow,
    ) -> Outcome:
        session = self._session_of(lease)
        try:
            self._failpoints.reach("lake.span_written")
            with translated("commit a span"):
                return self._commit(session, lease, moves, findings, progress, confirmed)
        except TransientError as exc:
            abandon(session)
            raise fenced_or(exc, lease, self.read_ledger) from exc
        except SeamlineError as exc:
            abandon(session)
            exc.position = exc.position or f"offsets [{progress.span.start}, {progress.span.end})"
            raise
        except BaseException:
            abandon(session)
            raise

    def keep_foreign(self, lease: Lease, findings: Sequence[Finding]) -> None:
        with translated("keep findings"):
            keep_foreign(self._session_of(lease), lease, findings)

    def published(self, stream: StreamId, run_id: str) -> bool:
        with self._publishing(stream) as session:
            return ledger_tables.is_published(session, stream, run_id)

    def publish(self, stream: StreamId, staging: Staging, *, publication: Publication) -> LedgerRow:
        def staged(seen: Seen) -> CatalogueChanges:
            changes = staging(seen)
            self._failpoints.reach("lake.publish_written")
            return changes

        def place(session: Session, changes: CatalogueChanges) -> None:
            ledger_tables.end_epoch(session, stream)
            ledger_tables.end_life(session, stream, list(changes.set_aside))
            self._catalogue.apply(session, self._destination.namespace, changes)
            names = [boundary.table for boundary in publication.boundaries]
            ledger_tables.write_publication(session, stream, publication, names)
            lake_state.keep(session, stream, _snapshots(changes.moves), gone=list(changes.set_aside))
            self._failpoints.reach("pub.swapped")
            self._send_commit(session, "pub.commit_sent")
            self._failpoints.reach("pub.commit_acked")

        lock = partial(ledger_tables.locked_place, stream=stream)
        with translated("publish tables"):
            return self._placed(stream, staged, run_id=publication.run_id, lock=lock, place=place)

    def join(self, stream: StreamId, staging: Staging, *, joining: Joining) -> LedgerRow:
        def place(session: Session, changes: CatalogueChanges) -> None:
            ledger_tables.end_epoch(session, stream)
            ledger_tables.end_life(session, stream, list(joining.kept_as))
            self._catalogue.apply(session, self._destination.namespace, changes)
            names = [table.name for table in joining.tables]
            ledger_tables.end_findings(session, stream, [*names, *joining.kept_as])
            if joining.incremental_stream is not None:
                ledger_tables.take_over_boundaries(session, stream, joining.incremental_stream, names)
            self._end_incremental_snapshots(session, stream)
            ledger_tables.write_run(session, stream, joining.run_id, names)
            lake_state.keep(session, stream, _snapshots(changes.moves), gone=list(joining.kept_as))
            self._send_commit(session, "addtable.joined")

        lock = partial(ledger_tables.require_caught_up, stream=stream, joining=joining)
        with translated("let tables join"):
            return self._placed(stream, staging, run_id=joining.run_id, lock=lock, place=place)

    def close(self) -> None:
        self._drop_session()

    # ---- transactions -----------------------------------------------------------------------------------------------

    def _commit(
        self,
        session: Session,
        lease: Lease,
        moves: Sequence[PointerMove],
        findings: Sequence[Finding],
        progress: Progress,
        confirmed: LedgerRow,
    ) -> Outcome:
        session.execute("BEGIN")
        self._failpoints.reach("app.dest_begin")
        step = ledger_tables.compare_and_set(session, lease, progress)
        if step is None:
            session.execute("ROLLBACK")
            found = ledger_tables.read_ledger(session, lease.stream)
            return Outcome(resolved(found, lease, progress, confirmed=confirmed), is_new=False)
        self._failpoints.reach("app.position_written")
        self._catalogue.move(
            session,
            self._destination.namespace,
            moves,
            between=lambda: self._failpoints.reach("app.dml_half"),
        )
        if progress.ended:
            ledger_tables.end_boundaries(session, lease.stream, progress.ended)
            self._failpoints.reach("cut.overlap_ended")
        if findings:
            ledger_tables.keep_findings(session, lease.stream, findings, progress)
        if moves:
            lake_state.keep(session, lease.stream, _snapshots(moves))
        self._failpoints.reach("app.dml_done")
        self._send_commit(session, "app.commit_sent")
        return Outcome(advanced(confirmed, progress, *step))

    def _send_commit(self, session: Session, failpoint: str) -> None:
        send_commit(session, to=self._destination.name, sent=lambda: self._failpoints.reach(failpoint))

    def _placed(
        self,
        stream: StreamId,
        staging: Staging,
        *,
        run_id: str,
        lock: Callable[[Session], object],
        place: Callable[[Session, CatalogueChanges], None],
    ) -> LedgerRow:
        """Stage, then move ledger and pointers by one transaction; again where a pointer has moved meanwhile.

        `lock` holds the ledger, so that the stream comes no further; `place` commits.
        """

        def attempt(number: int) -> LedgerRow:
            seen = self.look(stream, self._destination.namespace) if number < _BESIDE_THE_STREAM else None
            staged = staging(seen) if seen is not None else None
            with self._publishing(stream) as session:
                if not ledger_tables.is_published(session, stream, run_id):
                    session.execute("BEGIN")
                    session.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
                    # First, as a stream does: from here on it cannot commit between our statements.
                    lock(session)
                    if seen is not None:
                        require_carried(seen, ledger_tables.carried(session, stream))
                    place(session, staged if staged is not None else self._held(session, stream, staging))
                return _there(stream, ledger_tables.read_ledger(session, stream))

        return repeated(attempt)

    def _held(self, session: Session, stream: StreamId, staging: Staging) -> CatalogueChanges:
        """Staged behind the ledger's lock: what it goes on from still stands when it is placed."""
        namespace = self._destination.namespace
        self._catalogue.held(session, namespace, ledger_tables.carried(session, stream))
        seen = _seen(session, self._catalogue, stream, namespace)
        with kept_open(session):
            return staging(seen)

    def _end_incremental_snapshots(self, session: Session, stream: StreamId) -> None:
        """Also those that were given up: their tables stand still and would hold the log for ever."""
        prefix = f"{stream.sync}{INCREMENTAL}"
        for name in ledger_tables.streams_of(session, prefix, stream.destination):
            end_incremental_snapshot(session, self._catalogue, self._destination, name)

    # ---- sessions ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _publishing(self, stream: StreamId) -> Iterator[Session]:
        """As the login that makes tables and owns them; one publish at a time per namespace."""
        connection = self._resolve(self._destination.connection)
        name = f"seamline publish {stream}"
        session = open_session(connection, application_name=name, silence_s=self._silence_s)
        try:
            with translated("publish tables"):
                lock = f"seamline publish {self._destination.namespace}"
                session.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (lock,))
                create_tables(session, self._catalogue)
                # Before anything of a publish is written into it.
                self._catalogue.claim(session, self._destination.namespace)
            yield session
        finally:
            close(session)

    def _open(self, application_name: str) -> Session:
        """As the writer, who has rows and no tables."""
        connection = self._resolve(self._destination.writer)
        return open_session(connection, application_name=application_name, silence_s=self._silence_s)

    @contextmanager
    def _short_session(self, stream: StreamId) -> Iterator[Session]:
        session = self._open(f"seamline reads the ledger of {stream}")
        try:
            yield session
        finally:
            close(session)

    def _session_of(self, lease: Lease) -> Session:
        if self._session is None or self._session.closed:
            self._session = self._open(session_name(lease.stream, lease.epoch))
        return self._session

    def _drop_session(self) -> None:
        if self._session is not None:
            close(self._session)
            self._session = None


def create_tables(session: Session, catalogue: Pointers) -> None:
    """The ledger's, the catalogue's and `lake_state`, where they are missing."""
    ledger_tables.create_tables(session)
    with session.transaction():
        catalogue.create_tables(session)
        lake_state.create_table(session)


def look(session: Session, catalogue: Pointers, stream: StreamId, namespace: str) -> Seen:
    """Ledger, pointers and newest state in one consistent read; nothing where nothing was ever published."""
    with translated("read ledger and catalogue"):
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            return _seen(session, catalogue, stream, namespace)
        except (psycopg.errors.UndefinedTable, psycopg.errors.InFailedSqlTransaction):
            return Seen()
        finally:
            session.rollback()


def _seen(session: Session, catalogue: Pointers, stream: StreamId, namespace: str) -> Seen:
    ledger = ledger_tables.read_ledger(session, stream)
    return Seen(ledger, catalogue.pointers(session, namespace), lake_state.newest(session, stream))


def keep_foreign(session: Session, lease: Lease, findings: Sequence[Finding]) -> None:
    """Once each, as long as the lease is the stream's."""
    with session.transaction():
        row = session.execute(
            "SELECT epoch FROM seamline.ledger WHERE stream = %s FOR UPDATE", (str(lease.stream),)
        ).fetchone()
        if row is None or row[0] != lease.epoch:
            raise Fenced(f"{lease.stream}: epoch {lease.epoch} is over", sync=lease.stream.sync)
        for one in findings:
            session.execute(
                "INSERT INTO seamline.finding (stream, table_name, kind, row_key, log_offset, position)"
                " SELECT l.stream, %(table)s, %(kind)s, %(key)s, %(offset)s, l.position FROM seamline.ledger l"
                " WHERE l.stream = %(stream)s AND NOT EXISTS (SELECT FROM seamline.finding f WHERE f.stream = l.stream"
                " AND f.table_name = %(table)s AND f.kind = %(kind)s AND f.row_key = %(key)s AND f.over_at IS NULL)",
                {
                    "table": one.table,
                    "kind": one.kind,
                    "key": one.key,
                    "offset": one.offset,
                    "stream": str(lease.stream),
                },
            )


def end_incremental_snapshot(
    session: Session, catalogue: Pointers, destination: DestinationPlan, stream: StreamId
) -> None:
    """Inside the caller's transaction. Its files stay: those of tables that joined are live."""
    ledger_tables.forget(session, stream)
    lake_state.forget(session, stream)
    mark = stream.sync.partition(INCREMENTAL)[2]
    catalogue.drop_namespace(session, destination.incremental_namespace(mark))


def _snapshots(moves: Sequence[PointerMove]) -> dict[str, int]:
    return {move.table: move.snapshot_id for move in moves}


def _there(stream: StreamId, row: LedgerRow | None) -> LedgerRow:
    if row is None:
        raise InvariantViolated(f"{stream} is published but has no ledger")
    return row
