"""What maintenance reads from a destination, and what it deletes there."""

from collections.abc import Sequence

import psycopg

from seamline.adapters.connections import resolve
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.ledger import forget
from seamline.domain.ledger import StreamId
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports.maintenance import FINDINGS_KEPT_DAYS, INCREMENTAL_KEPT_DAYS, LetGo
from seamline.sinks.postgres.staging import drop_abandoned


class PostgresMaintenance:
    """One destination, in a session of its publisher, who owns what is there."""

    def __init__(self, destination: DestinationPlan, session: Session) -> None:
        self._destination = destination
        self._session = session

    def close(self) -> None:
        self._session.close()

    def let_go(self) -> LetGo:
        """Drop what dead runs have left and findings that are long over. A repeat finds nothing."""
        with translated("let go what nobody needs any more"):
            return LetGo(
                findings=self._old_findings(),
                incremental_snapshots=self._end_dead_snapshots(),
                staged=drop_abandoned(self._session, self._destination.stage_namespace),
            )

    def _old_findings(self) -> int:
        """Those of rows that were put in place again since. The others make verdicts, and stay."""
        if not self._is_there("seamline.finding"):
            return 0
        return self._session.execute(
            "DELETE FROM seamline.finding WHERE over_at < clock_timestamp() - make_interval(days => %s)",
            (FINDINGS_KEPT_DAYS,),
        ).rowcount

    def _end_dead_snapshots(self) -> tuple[str, ...]:
        """Incremental snapshots into this destination's streams that have not moved for long: each would hold the log
        for ever."""
        if not self._is_there("seamline.ledger"):
            return ()
        rows = self._session.execute(
            "SELECT stream FROM seamline.ledger WHERE position(%s in stream) > 0 AND right(stream, length(%s)) = %s"
            " AND updated_at < clock_timestamp() - make_interval(days => %s) ORDER BY stream",
            (INCREMENTAL, tail := f"@{self._destination.name}", tail, INCREMENTAL_KEPT_DAYS),
        ).fetchall()
        return tuple(stream for (stream,) in rows if self._end_incremental_snapshot(str(stream)))

    def _end_incremental_snapshot(self, stream: str) -> bool:
        """False where it has moved again. A worker that comes back finds itself fenced."""
        sync, _, destination = stream.rpartition("@")
        schema = self._destination.incremental_namespace(sync.partition(INCREMENTAL)[2])
        with self._session.transaction():
            found = self._session.execute(
                "SELECT 1 FROM seamline.ledger WHERE stream = %s"
                " AND updated_at < clock_timestamp() - make_interval(days => %s) FOR UPDATE",
                (stream, INCREMENTAL_KEPT_DAYS),
            ).fetchone()
            if found is None:
                return False
            forget(self._session, StreamId(sync, destination))
            self._session.execute(f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE".encode())
        return True

    def _is_there(self, table: str) -> bool:
        return self._session.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,)

    def ledgers(self) -> Sequence[LedgerPlace]:
        """Those of all streams and incremental snapshots in this database; () where nothing was ever published."""
        with translated("read the ledgers"):
            try:
                rows = self._session.execute(
                    "SELECT stream, topic, topic_id, next_offset FROM seamline.ledger ORDER BY stream"
                ).fetchall()
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                return ()
        return tuple(LedgerPlace(*row) for row in rows)


def open_maintenance(destination: DestinationPlan) -> PostgresMaintenance:
    session = open_session(resolve(destination.connection), application_name="seamline maintenance")
    return PostgresMaintenance(destination, session)
