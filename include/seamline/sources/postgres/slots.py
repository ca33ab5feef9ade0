"""Replication slots of a PostgreSQL source: the capture's own, and the temporary ones that export a snapshot.

A snapshot that a slot exports as it is created sees exactly the transactions that committed before the slot's
consistent point, so it is a prefix of the log. No other snapshot is: a commit stands in the WAL before it is visible
(`pg_export_snapshot` beside `pg_current_wal_lsn` is wrong even by commit LSN).
"""

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import psycopg

from seamline.adapters.connections import Connection
from seamline.databases.postgres.canonical import quoted
from seamline.domain.errors import PositionLost, SeamlineError, TransientError
from seamline.domain.source_backlog import SourceBacklog
from seamline.sources.postgres.client import Session, open_session, translated

log = logging.getLogger(__name__)

# Creating a slot waits for every transaction that is writing just then.
CREATION_S = 60.0
_PLUGIN = "pgoutput"
_PAUSE_S = 0.2
# A slot usually takes less than that; then those that it waits for are named, and again and again.
_QUIET_S, _REPORTED_EVERY_S = 3.0, 15.0
_HOLDERS = """
SELECT w.pid, a.usename, a.application_name, to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
FROM (SELECT unnest(pg_blocking_pids(%(pid)s)) AS pid UNION SELECT pid FROM pg_locks
  WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted AND pid <> %(pid)s) AS w
LEFT JOIN pg_stat_activity a ON a.pid = w.pid ORDER BY a.xact_start, w.pid"""


@dataclass(frozen=True, slots=True)
class ExportedSnapshot:
    """`name` is for SET TRANSACTION SNAPSHOT, `lsn` the consistent point of the slot that exported it."""

    name: str
    lsn: int


@contextmanager
def exported_snapshot(capture: Connection, *, patience_s: float = CREATION_S) -> Iterator[ExportedSnapshot]:
    """A snapshot to import while the context is open, and the slot, which keeps WAL, only as long.

    `capture` has REPLICATION. Raises TransientError after `patience_s`, with the sessions that were waited for.
    """
    name = f"seamline_snapshot_{secrets.token_hex(8)}"
    with closing(open_session(capture, replication="database")) as session:
        _, lsn, snapshot = _create(session, capture, f"{quoted(name)} TEMPORARY", "export", patience_s)
        yield ExportedSnapshot(snapshot, lsn)


def capture_start(capture: Connection, slot: str, *, patience_s: float = CREATION_S) -> int:
    """The LSN from which the capture's slot gives changes; the slot is made unless it is there.

    A slot that is there was left by an attempt that died before the connector knew its place.
    """
    with closing(open_session(capture)) as session, translated(capture):
        row = session.execute(
            "SELECT (confirmed_flush_lsn - '0/0')::bigint, active, wal_status, plugin, database = current_database()"
            " FROM pg_replication_slots WHERE slot_name = %s",
            (slot,),
        ).fetchone()
    if row is None:
        with closing(open_session(capture, replication="database")) as session:
            return _create(session, capture, quoted(slot), "nothing", patience_s)[1]
    lsn, is_active, wal_status, plugin, is_here = row
    if is_active or not is_here or plugin != _PLUGIN or wal_status == "lost" or lsn is None:
        state = "in use" if is_active else f"of plugin {plugin}, WAL {wal_status}" if is_here else "of another database"
        raise PositionLost(
            f"replication slot {slot} is there and cannot be begun from: it is {state}",
            hint=f"find who uses it; if nobody does: SELECT pg_drop_replication_slot('{slot}'), then onboard again",
        )
    return int(lsn)


def drop_slot(capture: Connection, slot: str, *, patience_s: float = CREATION_S) -> None:
    """Drop a capture's slot once nobody reads from it any more. One that is not there is a no-op."""
    deadline = time.monotonic() + patience_s
    with closing(open_session(capture)) as session, translated(capture):
        while (
            row := session.execute("SELECT active FROM pg_replication_slots WHERE slot_name = %s", (slot,)).fetchone()
        ) is not None:
            if not row[0]:
                session.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
                return
            if time.monotonic() > deadline:
                raise TransientError(
                    f"replication slot {slot} is still in use after {patience_s:g} s",
                    hint=f"end who reads from it; then: SELECT pg_drop_replication_slot('{slot}')",
                )
            time.sleep(_PAUSE_S)


def slot_backlog(session: Session, slot: str) -> SourceBacklog:
    """What this slot keeps of the WAL. Every role may see that."""
    row = session.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint, wal_status = 'lost', safe_wal_size"
        " FROM pg_replication_slots WHERE slot_name = %s",
        (slot,),
    ).fetchone()
    if row is None or row[1]:
        return SourceBacklog(is_lost=True)
    return SourceBacklog(int(row[0] or 0), None if row[2] is None else int(row[2]))


def parse_lsn(text: str) -> int:
    """`16/B374D848` as a number."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def _create(session: Session, capture: Connection, what: str, snapshot: str, patience_s: float) -> tuple[str, int, str]:
    """(slot, consistent point, exported snapshot or "")."""
    waiting = _Waiting(session, capture, patience_s)
    try:
        with waiting, translated(capture):
            row = session.execute(
                f"CREATE_REPLICATION_SLOT {what} LOGICAL {_PLUGIN} (SNAPSHOT '{snapshot}')".encode()
            ).fetchone()
    except TransientError as error:
        if not waiting.given_up_for:
            raise
        raise TransientError(
            f"a snapshot of the source could not be opened within {patience_s:g} s, because it waits for every"
            f" transaction that is writing: {'; '.join(waiting.given_up_for)}",
            hint="let them end, or end their sessions (SELECT pg_terminate_backend(<pid>)), or try again at a quieter"
            " hour",
        ) from error
    if row is None:
        raise TransientError("the source made a replication slot and did not say where")
    return str(row[0]), parse_lsn(str(row[1])), str(row[2] or "")


class _Waiting:
    """While the block lasts: says who is waited for, and for how long yet, then ends the waiting. Every role may see
    locks on transaction ids."""

    def __init__(self, session: Session, capture: Connection, patience_s: float) -> None:
        self._session = session
        self._capture = capture
        self._patience_s = patience_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.given_up_for: list[str] = []

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        # Else the session could be closed while it is still to be cancelled.
        self._thread.join()

    def _watch(self) -> None:
        started = time.monotonic()
        pause_s = _QUIET_S
        while not self._is_over.wait(min(pause_s, max(started + self._patience_s - time.monotonic(), 0))):
            waited_s, pause_s = time.monotonic() - started, _REPORTED_EVERY_S
            holders = self._holders()
            if self._is_over.is_set():
                return
            if waited_s >= self._patience_s:
                self.given_up_for = holders
                # A slot that was made just now needs no cancelling.
                with suppress(psycopg.Error):
                    self._session.cancel_safe(timeout=5)
                return
            log.warning(
                "a snapshot of the source waits for open transactions that write: %s. Waited %.0f s, at most %.0f s",
                "; ".join(holders),
                waited_s,
                self._patience_s,
            )

    def _holders(self) -> list[str]:
        try:
            with closing(open_session(self._capture)) as other, translated(self._capture):
                rows = other.execute(_HOLDERS, {"pid": self._session.info.backend_pid}).fetchall()
        except SeamlineError as error:
            return [f"sessions unknown ({error})"]
        return [_holder(*row) for row in rows] or ["sessions unknown"]


def _holder(pid: int, login: str | None, application: str | None, began: str | None) -> str:
    if not pid:
        return "a prepared transaction (SELECT * FROM pg_prepared_xacts names it)"
    since = f"open since {began} UTC" if began else "when it began is shown to members of pg_read_all_stats"
    return f"pid {pid}, user {login or 'unknown'}, application {application or 'unnamed'}, {since}"
