"""RedisSink: a Redis server as the destination of one stream. A commit is one script."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from redis.exceptions import ConnectionError, RedisError, TimeoutError

from seamline import settings
from seamline.adapters import connections, failpoints
from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding, TableChanges
from seamline.domain.errors import CommitUnknown, Diverged, Fenced, Refused, TransientError
from seamline.domain.ledger import LedgerRow, StreamId, refuse_one_that_went_back
from seamline.kinds.ledger_rules import fenced_or, resolved
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Commit, Failpoints, Joining, Lease, Load, Progress, Publication, Staged, Unarmed
from seamline.sinks.redis import ledger as ledgers
from seamline.sinks.redis.answers import refusal
from seamline.sinks.redis.keys import Keyspace
from seamline.sinks.redis.options import rows_max_of
from seamline.sinks.redis.placing import Placing
from seamline.sinks.redis.rows import Encoded, encoded, key_of_script, names_of
from seamline.sinks.redis.scripts import COMMIT, KEEP_CHUNK, TAKE_EPOCH
from seamline.sinks.redis.session import Session, error_of, open_session, packed, translated, unpacked
from seamline.values.changes import ChangeDecoder, change_batch

# What a commit keeps of one span; all are counted.
_FINDINGS_MAX = 1_000


def open_sink(plan: SyncPlan, destination: DestinationPlan, *, decoder: ChangeDecoder) -> "RedisSink":
    """The sink of a plan's destination; failpoints as the process environment arms them."""
    armed = failpoints.from_environment(settings.process_environment())
    return RedisSink(plan, destination, decoder=decoder, failpoints=armed)


class RedisSink:
    """`ports.Sink`. One session, opened again by whoever finds it lost."""

    def __init__(
        self,
        plan: SyncPlan,
        destination: DestinationPlan,
        *,
        decoder: ChangeDecoder,
        resolve: Callable[[str], Connection] = connections.resolve,
        failpoints: Failpoints | None = None,
    ) -> None:
        self._tables = {entry.name: entry.definition for entry in plan.tables if entry.table is not None}
        self._destination = destination
        self._keys = Keyspace.of(destination)
        self._rows_max = rows_max_of(destination)
        self._decoder = decoder
        self._resolve = resolve
        self._failpoints = failpoints or Unarmed()
        self._session: Session | None = None
        self._row: LedgerRow | None = None
        self._mark = secrets.token_hex(4)

    # ---- ports.Sink -------------------------------------------------------------------------------------------------

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        session = self._open(self._destination.writer)
        try:
            return ledgers.read_ledger(session, self._keys, stream)
        finally:
            session.close()

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        self.close()
        session = self._session = self._open(self._destination.writer)
        known = ledgers.read_ledger(session, self._keys, stream)
        if known is None:
            raise Refused(
                f"destination {self._destination.name} holds no ledger of {stream}: nothing was published there",
                hint="onboard the sync first",
                sync=stream.sync,
            )
        if after_epoch is not None and self._row is not None:
            refuse_one_that_went_back(known, confirmed=self._row)
        answer = None
        if after_epoch in (None, known.epoch):
            with translated("take a new epoch"):
                answer = session.run(TAKE_EPOCH, self._of(stream, "ledger", "chunks"), str(known.epoch))
        if answer is None:
            raise Fenced(f"another owner took {stream} meanwhile", sync=stream.sync)
        self._row = ledgers.row_of(stream, ledgers.fields_of(answer))
        return Lease(stream, self._row.epoch, self._row)

    def stage(self, lease: Lease, changes: TableChanges) -> Staged:
        batch = encoded(change_batch(self._tables[changes.table], changes, self._decoder))
        return Staged(changes.table, self._kept(lease, changes.table, batch) if batch.chunk else batch)

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        session = self._connected()
        confirmed = self._confirmed(lease)
        for name in ("app.dest_begin", "app.position_written", "app.dml_half", "app.dml_done"):
            # All of it is one script: a failure on any of its steps is a failure before it.
            self._failpoints.reach(name)
        if progress.ended:
            self._failpoints.reach("cut.overlap_ended")
        request, rows = self._request(lease, staged, progress, confirmed)
        keys = self._of(lease.stream, "ledger", "chunks", "findings")
        status, *answer = self._send_commit(session, COMMIT, keys, packed(request), *rows)
        if status == b"STALE":
            fields = ledgers.fields_of(answer[0])
            found = ledgers.row_of(lease.stream, fields) if fields else None
            return Commit(resolved(found, lease, progress, confirmed=confirmed))
        if status != b"DONE":
            raise self._refused(status, answer, lease, progress)
        self._row = ledgers.row_of(lease.stream, ledgers.fields_of(answer[0]))
        findings = tuple(Finding(*one) for one in unpacked(answer[1]) or ())
        return Commit(self._row, findings, answer[2])

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        return self._place(lambda placing: placing.publish(loads, publication), stream, "pub.commit_sent")

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        return self._place(lambda placing: placing.join(joining), stream, "addtable.joined")

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    # ---- one span ---------------------------------------------------------------------------------------------------

    def _request(
        self, lease: Lease, staged: Sequence[Staged], progress: Progress, confirmed: LedgerRow
    ) -> tuple[Mapping[str, Any], list[bytes]]:
        """The first argument of the script, and the others: rows that it finds by their place."""
        rows: list[bytes] = []
        tables = []
        for name in dict.fromkeys(one.table for one in staged):
            batches = [cast(Encoded, one.batch) for one in staged if one.table == name]
            tables.append(self._of_table(self._tables[name], batches, rows))
        span = progress.span
        fields = {
            "next_offset": str(span.end),
            "position": ledgers.position_text(span.position),
            "committed_ms": str(span.committed_ms),
        }
        if progress.last_marker:
            fields["last_marker"] = progress.last_marker
        if progress.ended:
            ended = (replace(one, ended=one.ended or one.table in progress.ended) for one in confirmed.boundaries)
            fields["boundaries"] = ledgers.boundaries_text(list(ended))
        request = {
            "expected": [lease.ledger.topic_id, str(span.start), str(lease.epoch)],
            "fields": flat(fields),
            "transactions": span.transactions,
            "tables": tables,
            "rows_max": self._rows_max,
            "findings_max": _FINDINGS_MAX,
        }
        return request, rows

    def _of_table(self, table: Table, batches: Sequence[Encoded], rows: list[bytes]) -> Mapping[str, Any]:
        """Chunks in their order, then what comes behind them; a truncate undoes every chunk before it."""
        in_order = sorted(batches, key=lambda one: (one.chunk == 0, one.chunk))
        first = max((number for number, one in enumerate(in_order) if one.truncate_first), default=0)
        found: list[Mapping[str, Any]] = []
        for one in in_order[first:]:
            where: dict[str, Any] = {"chunk": one.chunk_key}
            if not one.chunk_key:
                rows.append(one.rows)
                where = {"place": len(rows) + 1}
            found.append({**where, "is_partial": one.is_partial})
        keys = self._keys.live(self._destination.namespace, table.name)
        return {
            "name": table.name,
            "rows": keys.rows,
            "index": keys.index,
            "columns": names_of(table),
            "key": key_of_script(table),
            "truncate": any(one.truncate_first for one in in_order),
            "batches": found,
        }

    def _kept(self, lease: Lease, table: str, batch: Encoded) -> Encoded:
        """A part of a large transaction waits at the server, where no reader looks."""
        session = self._connected()
        # A server that went back gives an epoch again: the part is this owner's by a mark of its own.
        owner = f"{lease.stream}:{lease.epoch}:{self._mark}"
        name = self._keys.live(self._destination.namespace, table).name
        key = self._keys.own(f"chunk:{owner}:{name}:{batch.chunk}")
        with translated("keep a part of a large transaction", table=table):
            keys = [*self._of(lease.stream, "ledger", "chunks"), key]
            is_kept = session.run(KEEP_CHUNK, keys, str(lease.epoch), batch.rows)
        if not is_kept:
            lost = TransientError(f"{lease.stream}: the ledger's epoch is not {lease.epoch}", sync=lease.stream.sync)
            raise fenced_or(lost, lease, self.read_ledger)
        return replace(batch, rows=b"", chunk_key=key)

    def _refused(self, status: bytes, answer: Sequence[Any], lease: Lease, progress: Progress) -> Exception:
        error = refusal(status, answer, sync=lease.stream.sync, rows_max=self._rows_max)
        error.position = f"offsets [{progress.span.start}, {progress.span.end})"
        # A row that is not there may have been moved by a new owner.
        return fenced_or(error, lease, self.read_ledger) if isinstance(error, (Diverged, TransientError)) else error

    def _confirmed(self, lease: Lease) -> LedgerRow:
        """The ledger as it was when this lease last heard of it."""
        return self._row if self._row and self._row.epoch == lease.epoch else lease.ledger

    def _send_commit(
        self, session: Session, script: str, keys: Sequence[str], *arguments: bytes, failpoint: str = "app.commit_sent"
    ) -> Any:
        """The only place where the outcome may be unknown: from its sending until its answer."""
        try:
            answer = session.run(script, keys, *arguments)
            self._failpoints.reach(failpoint)
        except (ConnectionError, TimeoutError, OSError, TransientError) as exc:
            self.close()
            raise CommitUnknown(f"a script was sent to {self._destination.name}, its answer is lost: {exc}") from exc
        except RedisError as exc:
            raise error_of(exc, "run the script of a commit") from exc
        return answer

    # ---- whole tables -----------------------------------------------------------------------------------------------

    def _place(self, place: Callable[[Placing], Commit], stream: StreamId, failpoint: str) -> Commit:
        session = self._open(self._destination.connection)
        try:
            return place(
                Placing(
                    session,
                    stream,
                    self._destination,
                    send=lambda *given: self._send_commit(session, *given, failpoint=failpoint),
                )
            )
        finally:
            session.close()

    # ---- sessions ---------------------------------------------------------------------------------------------------

    def _open(self, connection_id: str) -> Session:
        return open_session(self._resolve(connection_id), rows_max=self._rows_max)

    def _connected(self) -> Session:
        if self._session is None:
            self._session = self._open(self._destination.writer)
        return self._session

    def _of(self, stream: StreamId, *names: str) -> list[str]:
        return [self._keys.of_stream(name, stream) for name in names]


def flat(fields: Mapping[str, str]) -> list[str]:
    """As HSET takes them."""
    return [part for pair in fields.items() for part in pair]
