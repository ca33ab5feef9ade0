"""PostgresSink: a PostgreSQL database (17 or newer) as the destination of one stream."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from seamline import settings
from seamline.adapters import connections, failpoints
from seamline.adapters.connections import Connection
from seamline.adapters.hanging import SILENCE_S
from seamline.databases.postgres import ledger as ledger_tables
from seamline.databases.postgres.client import (
    Session,
    open_session,
    session_name,
    translated,
)
from seamline.databases.postgres.commit import abandon, close, send_commit
from seamline.databases.postgres.epoch import taken
from seamline.domain.changes import TableChanges
from seamline.domain.errors import (
    Diverged,
    SchemaConflict,
    SeamlineError,
    TransientError,
)
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.kinds.ledger_rules import advanced, commit_in_any_order, commit_of_publish, fenced_or, resolved
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Commit, Failpoints, Joining, Lease, Load, Progress, Publication, Staged, Unarmed
from seamline.sinks.postgres import joining as together
from seamline.sinks.postgres import publish as publishing
from seamline.sinks.postgres.apply import SpanApplier
from seamline.sinks.postgres.encode_changes import Encoded, encoded
from seamline.sinks.postgres.statements import TableStatements
from seamline.values.changes import ChangeDecoder, change_batch


def open_sink(plan: SyncPlan, destination: DestinationPlan, *, decoder: ChangeDecoder) -> "PostgresSink":
    """The sink of a plan's destination; failpoints as the process environment arms them."""
    armed = failpoints.from_environment(settings.process_environment())
    return PostgresSink(plan, destination, decoder=decoder, failpoints=armed)


class PostgresSink:
    """ports.Sink. One session applies; it is opened by `acquire`, or by a commit that lost it.

    The connection id is resolved at each connect, so a changed password needs no restart.
    """

    def __init__(
        self,
        plan: SyncPlan,
        destination: DestinationPlan,
        *,
        decoder: ChangeDecoder,
        resolve: Callable[[str], Connection] = connections.resolve,
        failpoints: Failpoints | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._destination = destination
        self._decoder = decoder
        self._silence_s = silence_s
        self._resolve = resolve
        self._failpoints = failpoints or Unarmed()
        self._statements = {
            entry.name: TableStatements(entry.definition, schema=destination.namespace, number=number)
            for number, entry in enumerate(plan.tables)
            if entry.table is not None
        }
        self._applier: SpanApplier | None = None
        self._row: LedgerRow | None = None

    # ---- ports.Sink -----------------------------------------------------------------------------------------------

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        with self._short_session(stream) as session, translated("read the ledger"):
            return ledger_tables.read_ledger(session, stream)

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        self._drop_session()
        session = self._open(session_name(stream, None))
        try:
            with translated("take a new epoch"):
                confirmed = self._row if after_epoch is not None else None
                row = taken(session, stream, self._destination.name, after_epoch=after_epoch, confirmed=confirmed)
        except SeamlineError:
            close(session)
            raise
        self._applier, self._row = SpanApplier(session, self._statements), row
        return Lease(stream, row.epoch, row)

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:
        on = self._statements[changes.table]
        batch = encoded(on, change_batch(on.table, changes, self._decoder))
        if batch.chunk:
            self._spill(lease, on, batch)
            batch = replace(batch, document=b"", moved=b"")
        return Staged(changes.table, batch)

    def _spill(self, lease: Lease, on: TableStatements, chunk: Encoded) -> None:
        applier = self._applier_of(lease)
        try:
            with translated("spill rows", table=on.table.name):
                applier.spill(on, chunk)
        except (Diverged, SchemaConflict) as exc:
            self._drop_session()
            # A row, or a table, that is not there may have been moved by a new owner.
            raise self._fenced_or(exc, lease) from exc
        except SeamlineError:
            self._drop_session()
            raise

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        applier = self._applier_of(lease)
        batches: dict[str, list[Encoded]] = {}
        for item in staged:
            batches.setdefault(item.table, []).append(cast(Encoded, item.batch))
        try:
            applier.prepare_tables(batches)
            with translated("commit a span"):
                return self._commit_in_any_order(applier, lease, batches, progress)
        except TransientError as exc:
            abandon(applier.session)
            raise self._fenced_or(exc, lease) from exc
        except SeamlineError as exc:
            abandon(applier.session)
            exc.position = exc.position or f"offsets [{progress.span.start}, {progress.span.end})"
            raise
        except BaseException:
            abandon(applier.session)
            raise

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        session = self._open_publisher(stream)
        try:
            with translated("publish tables"):
                done = publishing.prepare(session, stream, loads, self._destination, publication)
                if not done:
                    publishing.put_in_place(session, stream, loads, self._destination, publication)
                    self._failpoints.reach("pub.swapped")
                    self._send_commit(session, "pub.commit_sent")
                    self._failpoints.reach("pub.commit_acked")
                row = ledger_tables.read_ledger(session, stream)
        finally:
            session.close()
        return commit_of_publish(stream, row)

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        session = self._open_publisher(stream)
        try:
            with translated("let tables join"):
                if not together.is_done(session, stream, joining, self._destination):
                    together.put_together(session, stream, joining, self._destination)
                    self._send_commit(session, "addtable.joined")
                row = ledger_tables.read_ledger(session, stream)
        finally:
            session.close()
        return commit_of_publish(stream, row)

    def close(self) -> None:
        self._drop_session()

    # ---- one span -------------------------------------------------------------------------------------------------

    def _commit_in_any_order(
        self, applier: SpanApplier, lease: Lease, batches: dict[str, list[Encoded]], progress: Progress
    ) -> Commit:
        return commit_in_any_order(
            lambda delete_insert: self._commit(applier, lease, batches, progress, delete_insert),
            refused=applier.refused_on_the_way,
            roll_back=applier.session.rollback,
        )

    def _commit(
        self,
        applier: SpanApplier,
        lease: Lease,
        batches: dict[str, list[Encoded]],
        progress: Progress,
        delete_insert: dict[str, str],
    ) -> Commit:
        session = applier.session
        session.execute("BEGIN")
        self._failpoints.reach("app.dest_begin")
        step = ledger_tables.compare_and_set(session, lease, progress)
        if step is None:
            session.execute("ROLLBACK")
            found = ledger_tables.read_ledger(session, lease.stream)
            return Commit(resolved(found, lease, progress, confirmed=self._confirmed(lease)))
        self._failpoints.reach("app.position_written")
        findings, total = applier.apply(
            batches, between=lambda: self._failpoints.reach("app.dml_half"), delete_insert=delete_insert
        )
        if progress.ended:
            ledger_tables.end_boundaries(session, lease.stream, progress.ended)
            self._failpoints.reach("cut.overlap_ended")
        if findings:
            ledger_tables.keep_findings(session, lease.stream, findings, progress)
        self._failpoints.reach("app.dml_done")
        self._send_commit(session, "app.commit_sent")
        self._row = advanced(self._confirmed(lease), progress, *step)
        return Commit(self._row, tuple(findings), total)

    def _confirmed(self, lease: Lease) -> LedgerRow:
        """The ledger as it was when this lease last heard of it."""
        return self._row if self._row and self._row.epoch == lease.epoch else lease.ledger

    def _send_commit(self, session: Session, failpoint: str) -> None:
        send_commit(session, to=self._destination.name, sent=lambda: self._failpoints.reach(failpoint))

    # ---- sessions -------------------------------------------------------------------------------------------------

    def _open(self, application_name: str) -> Session:
        """As the writer, who has rows and no tables but temporary ones."""
        connection = self._resolve(self._destination.writer)
        return open_session(connection, application_name=application_name, silence_s=self._silence_s)

    def _open_publisher(self, stream: StreamId) -> Session:
        """As the login that makes tables and owns them."""
        connection = self._resolve(self._destination.connection)
        name = f"seamline publish {stream}"
        return open_session(connection, application_name=name, silence_s=self._silence_s)

    def _short_session(self, stream: StreamId) -> Session:
        return self._open(f"seamline reads the ledger of {stream}")

    def _applier_of(self, lease: Lease) -> SpanApplier:
        if self._applier is None or self._applier.session.closed:
            self._applier = SpanApplier(self._open(session_name(lease.stream, lease.epoch)), self._statements)
        return self._applier

    def _drop_session(self) -> None:
        if self._applier is not None:
            close(self._applier.session)
            self._applier = None

    def _fenced_or(self, error: SeamlineError, lease: Lease) -> SeamlineError:
        return fenced_or(error, lease, self.read_ledger)
