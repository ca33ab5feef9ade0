"""RelationalSink: a database of MariaDB or MySQL as the destination of one stream."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import pymysql

from seamline import settings
from seamline.adapters import connections, failpoints
from seamline.adapters.connections import Connection
from seamline.adapters.hanging import SILENCE_S
from seamline.domain.changes import TableChanges
from seamline.domain.errors import (
    CommitUnknown,
    Diverged,
    Fenced,
    Refused,
    SchemaConflict,
    SeamlineError,
    TransientError,
)
from seamline.domain.ledger import LedgerRow, StreamId, refuse_one_that_went_back
from seamline.kinds.ledger_rules import advanced, commit_in_any_order, commit_of_publish, fenced_or, resolved
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Commit, Failpoints, Joining, Lease, Load, Progress, Publication, Staged, Unarmed
from seamline.sinks.relational import joining as together
from seamline.sinks.relational import ledger as ledger_tables
from seamline.sinks.relational import publish as publishing
from seamline.sinks.relational.apply import SpanApplier
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.encode_changes import Encoded, encoded
from seamline.sinks.relational.places import ledger_place
from seamline.sinks.relational.session import (
    Session,
    close,
    commit_answer,
    end_owner,
    execute,
    mark_as_owner,
    open_session,
    send_commit,
    translated,
)
from seamline.sinks.relational.statements import TableStatements
from seamline.values.changes import ChangeDecoder, change_batch


def open_sink(
    plan: SyncPlan, destination: DestinationPlan, *, decoder: ChangeDecoder, dialect: Dialect
) -> "RelationalSink":
    """The sink of a plan's destination; failpoints as the process environment arms them."""
    armed = failpoints.from_environment(settings.process_environment())
    return RelationalSink(plan, destination, decoder=decoder, dialect=dialect, failpoints=armed)


class RelationalSink:
    """ports.Sink. One session applies; it is opened by `acquire`, or by a commit that lost it.

    The connection id is resolved at each connect, so a changed password needs no restart.
    """

    def __init__(
        self,
        plan: SyncPlan,
        destination: DestinationPlan,
        *,
        decoder: ChangeDecoder,
        dialect: Dialect,
        resolve: Callable[[str], Connection] = connections.resolve,
        failpoints: Failpoints | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._destination = destination
        self._decoder = decoder
        self._dialect = dialect
        self._at = ledger_place(destination)
        self._silence_s = silence_s
        self._resolve = resolve
        self._failpoints = failpoints or Unarmed()
        self._statements = {
            entry.name: TableStatements(
                entry.definition, database=destination.namespace, at=self._at, number=number, dialect=dialect
            )
            for number, entry in enumerate(plan.tables)
            if entry.table is not None
        }
        self._applier: SpanApplier | None = None
        self._row: LedgerRow | None = None

    # ---- ports.Sink -------------------------------------------------------------------------------------------------

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        session = self._open()
        try:
            with translated("read the ledger"):
                return ledger_tables.read_ledger(session, self._at, stream)
        finally:
            close(session)

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        self._drop_session()
        session = self._open()
        try:
            with translated("take a new epoch"):
                row = self._take_epoch(session, stream, after_epoch)
        except SeamlineError:
            close(session)
            raise
        self._applier, self._row = SpanApplier(session, self._statements), row
        return Lease(stream, row.epoch, row)

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:
        on = self._statements[changes.table]
        batch = encoded(on, change_batch(on.table, changes, self._decoder))
        if batch.chunk:
            applier = self._applier_of(lease)
            try:
                with translated("spill rows", table=changes.table):
                    applier.spill(on, batch)
            except (Diverged, SchemaConflict) as exc:
                self._drop_session()
                # A row, or a table, that is not there may have been moved by a new owner.
                raise self._fenced_or(exc, lease) from exc
            except SeamlineError:
                self._drop_session()
                raise
            batch = replace(batch, document=b"")
        return Staged(changes.table, batch)

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        applier = self._applier_of(lease)
        batches: dict[str, list[Encoded]] = {}
        for item in staged:
            batches.setdefault(item.table, []).append(cast(Encoded, item.batch))
        try:
            with translated("commit a span"):
                applier.bring(batches)
                commit = self._commit_in_any_order(applier, lease, batches, progress)
                applier.forget(batches)
                return commit
        except (TransientError, Diverged) as exc:
            self._abandon(applier.session)
            raise self._fenced_or(exc, lease) from exc
        except SeamlineError as exc:
            self._abandon(applier.session)
            exc.position = exc.position or f"offsets [{progress.span.start}, {progress.span.end})"
            raise
        except BaseException:
            self._abandon(applier.session)
            raise

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        session = self._open_publisher()
        try:
            with translated("publish tables"):
                area = publishing.Publisher(session, stream, self._destination, self._dialect)
                if not area.prepare(loads, publication):
                    area.put_in_place(loads, publication)
                    self._failpoints.reach("pub.swapped")
                    self._send_commit(session, "pub.commit_sent")
                    self._failpoints.reach("pub.commit_acked")
                area.carry_out_pending()
                row = ledger_tables.read_ledger(session, self._at, stream)
        finally:
            close(session)
        return commit_of_publish(stream, row)

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        session = self._open_publisher()
        try:
            with translated("let tables join"):
                area = publishing.Publisher(session, stream, self._destination, self._dialect)
                if not together.is_done(area, joining):
                    together.put_together(area, joining)
                    self._send_commit(session, "addtable.joined")
                area.carry_out_pending()
                row = ledger_tables.read_ledger(session, self._at, stream)
        finally:
            close(session)
        return commit_of_publish(stream, row)

    def close(self) -> None:
        self._drop_session()

    def _take_epoch(self, session: Session, stream: StreamId, after_epoch: int | None) -> LedgerRow:
        known = ledger_tables.read_ledger(session, self._at, stream)
        if known is None:
            raise Refused(
                f"destination {self._destination.name} holds no ledger of {stream}: nothing was published there",
                hint="onboard the sync first",
                sync=stream.sync,
            )
        if after_epoch is not None and self._row is not None:
            refuse_one_that_went_back(known, confirmed=self._row)
        if ledger_tables.is_pending(session, self._at, stream):
            raise publishing.still_pending(stream)
        epoch = None
        if after_epoch in (None, known.epoch):
            # A worker that hangs inside a transaction would make us wait for its time-out.
            end_owner(session, self._at, stream)
            epoch = ledger_tables.take_epoch(session, self._at, stream, after_epoch=after_epoch)
        if epoch is None:
            raise Fenced(f"another owner took {stream} meanwhile", sync=stream.sync)
        mark_as_owner(session, self._at, stream)
        row = ledger_tables.read_ledger(session, self._at, stream)
        if row is None or row.epoch != epoch:
            raise Fenced(f"another owner took {stream} at the same moment", sync=stream.sync)
        return row

    # ---- one span ---------------------------------------------------------------------------------------------------

    def _commit_in_any_order(
        self, applier: SpanApplier, lease: Lease, batches: dict[str, list[Encoded]], progress: Progress
    ) -> Commit:
        return commit_in_any_order(
            lambda delete_insert: self._commit(applier, lease, batches, progress, delete_insert),
            refused=applier.refused_on_the_way,
            roll_back=lambda: execute(applier.session, "ROLLBACK"),
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
        execute(session, "START TRANSACTION")
        self._failpoints.reach("app.dest_begin")
        step = ledger_tables.compare_and_set(session, self._at, lease, progress)
        if step is None:
            execute(session, "ROLLBACK")
            found = ledger_tables.read_ledger(session, self._at, lease.stream)
            return Commit(resolved(found, lease, progress, confirmed=self._confirmed(lease)))
        self._failpoints.reach("app.position_written")
        findings, total = applier.apply(
            batches, between=lambda: self._failpoints.reach("app.dml_half"), delete_insert=delete_insert
        )
        if progress.ended:
            ledger_tables.end_boundaries(session, self._at, lease.stream, progress.ended)
            self._failpoints.reach("cut.overlap_ended")
        if findings:
            ledger_tables.keep_findings(session, self._at, lease.stream, findings, progress)
        self._failpoints.reach("app.dml_done")
        self._send_commit(session, "app.commit_sent")
        self._row = advanced(self._confirmed(lease), progress, *step)
        return Commit(self._row, tuple(findings), total)

    def _confirmed(self, lease: Lease) -> LedgerRow:
        """The ledger as it was when this lease last heard of it."""
        return self._row if self._row and self._row.epoch == lease.epoch else lease.ledger

    def _send_commit(self, session: Session, failpoint: str) -> None:
        """COMMIT. The only place where the outcome may be unknown: from its sending until its answer."""
        try:
            send_commit(session)
            self._failpoints.reach(failpoint)
        except (pymysql.err.MySQLError, OSError, SeamlineError) as exc:
            close(session)
            raise CommitUnknown(f"COMMIT was sent to {self._destination.name}, its answer is lost: {exc}") from exc
        commit_answer(session)

    # ---- sessions ---------------------------------------------------------------------------------------------------

    def _open(self) -> Session:
        """As the writer, who has rows and no tables but temporary ones."""
        return open_session(self._resolve(self._destination.writer), self._dialect, silence_s=self._silence_s)

    def _open_publisher(self) -> Session:
        """As the login that makes tables."""
        return open_session(self._resolve(self._destination.connection), self._dialect, silence_s=self._silence_s)

    def _applier_of(self, lease: Lease) -> SpanApplier:
        if self._applier is None or not self._applier.session.open:
            session = self._open()
            with translated("take the stream's session"):
                mark_as_owner(session, self._at, lease.stream)
            self._applier = SpanApplier(session, self._statements)
        return self._applier

    def _abandon(self, session: Session) -> None:
        """After a failed commit: roll back where that is possible, else forget the session (the server rolls back)."""
        if not session.open:
            return
        try:
            execute(session, "ROLLBACK")
        except pymysql.err.Error:
            close(session)

    def _drop_session(self) -> None:
        if self._applier is not None:
            close(self._applier.session)
            self._applier = None

    def _fenced_or(self, error: SeamlineError, lease: Lease) -> SeamlineError:
        return fenced_or(error, lease, self.read_ledger)
