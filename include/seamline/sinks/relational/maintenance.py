"""What maintenance reads from a destination, and what it deletes there."""

from collections.abc import Sequence

import pymysql

from seamline.adapters.connections import resolve
from seamline.databases.mysql.canonical import quoted
from seamline.domain.ledger import StreamId
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports.maintenance import FINDINGS_KEPT_DAYS, INCREMENTAL_KEPT_DAYS, LetGo
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.ledger import forget, is_missing
from seamline.sinks.relational.places import ledger_place
from seamline.sinks.relational.session import Row, Session, close, execute, open_session, query, transaction, translated
from seamline.sinks.relational.staging import drop_abandoned

_STANDS_STILL = f"updated_at < CURRENT_TIMESTAMP(6) - INTERVAL {INCREMENTAL_KEPT_DAYS} DAY"


class RelationalMaintenance:
    """One destination, in a session of its publisher."""

    def __init__(self, destination: DestinationPlan, session: Session) -> None:
        self._destination = destination
        self._session = session
        self._at = ledger_place(destination)

    def close(self) -> None:
        close(self._session)

    def let_go(self) -> LetGo:
        """Drop what dead runs have left and findings that are long over. A repeat finds nothing."""
        with translated("let go what nobody needs any more"):
            return LetGo(
                findings=self._old_findings(),
                incremental_snapshots=self._end_dead_snapshots(),
                staged=drop_abandoned(self._session, self._destination.stage_namespace),
            )

    def ledgers(self) -> Sequence[LedgerPlace]:
        """Those of all streams and incremental snapshots in this database; () where nothing was ever published."""
        with translated("read the ledgers"):
            rows = self._rows("stream, topic, topic_id, next_offset", "TRUE")
        return tuple(LedgerPlace(*row) for row in rows)

    def _old_findings(self) -> int:
        """Those of rows that were put in place again since. The others make verdicts, and stay."""
        try:
            return execute(
                self._session,
                f"DELETE FROM {self._at}.finding"
                f" WHERE over_at < CURRENT_TIMESTAMP(6) - INTERVAL {FINDINGS_KEPT_DAYS} DAY",
            )
        except pymysql.err.MySQLError as exc:
            if is_missing(exc):
                return 0
            raise

    def _end_dead_snapshots(self) -> tuple[str, ...]:
        """Incremental snapshots into this destination's streams that have not moved for long: each would hold the log
        for ever."""
        streams = [str(name) for (name,) in self._rows("stream", _STANDS_STILL)]
        tail = f"@{self._destination.name}"
        dead = [one for one in streams if INCREMENTAL in one and one.endswith(tail)]
        return tuple(stream for stream in dead if self._end_incremental_snapshot(stream))

    def _end_incremental_snapshot(self, stream: str) -> bool:
        """False where it has moved again. A worker that comes back finds itself fenced."""
        sync, _, destination = stream.rpartition("@")
        database = self._destination.incremental_namespace(sync.partition(INCREMENTAL)[2])
        with transaction(self._session):
            found = query(
                self._session,
                f"SELECT 1 FROM {self._at}.ledger WHERE stream = %s AND {_STANDS_STILL} FOR UPDATE",
                (stream,),
            )
            if not found:
                return False
            forget(self._session, self._at, StreamId(sync, destination))
        # A DROP that does not come to this leaves a database that no ledger knows; the next one of this name ends it.
        execute(self._session, f"DROP DATABASE IF EXISTS {quoted(database)}")
        return True

    def _rows(self, columns: str, which: str) -> Sequence[Row]:
        try:
            return query(self._session, f"SELECT {columns} FROM {self._at}.ledger WHERE {which} ORDER BY stream")
        except pymysql.err.MySQLError as exc:
            if is_missing(exc):
                return ()
            raise


def open_maintenance(destination: DestinationPlan, dialect: Dialect) -> RelationalMaintenance:
    return RelationalMaintenance(destination, open_session(resolve(destination.connection), dialect))
