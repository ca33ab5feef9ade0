"""What maintenance reads from a lake's ledger, and what it deletes there."""

from collections.abc import Callable, Sequence

import psycopg

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.domain.ledger import StreamId
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports.maintenance import FINDINGS_KEPT_DAYS, INCREMENTAL_KEPT_DAYS, LetGo
from seamline.sinks.lake import state as lake_state
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.postgres_store import end_incremental_snapshot


class LakeMaintenance:
    """`DestinationMaintenance` of one destination, in a session of its publisher."""

    def __init__(
        self, destination: DestinationPlan, catalogue: Catalogue, session: Session, drop_abandoned: Callable[[], int]
    ) -> None:
        self._drop_abandoned = drop_abandoned
        self._destination = destination
        self._catalogue = catalogue
        self._session = session

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

    def let_go(self) -> LetGo:
        """Findings that are long over, incremental snapshots that nobody goes on with, and old rows of `lake_state`."""
        with translated("let go what nobody needs any more"):
            there = self._session.execute("SELECT to_regclass('seamline.lake_state')").fetchone()
            if there == (None,):
                return LetGo(findings=0, incremental_snapshots=(), staged=self._drop_abandoned())
            findings = self._session.execute(
                "DELETE FROM seamline.finding WHERE over_at < clock_timestamp() - make_interval(days => %s)",
                (FINDINGS_KEPT_DAYS,),
            ).rowcount
            ended = tuple(stream for stream in self._dead_snapshots() if self._end(stream))
            lake_state.prune(self._session)
        return LetGo(findings=findings, incremental_snapshots=ended, staged=self._drop_abandoned())

    def close(self) -> None:
        self._session.close()

    def _dead_snapshots(self) -> list[str]:
        """Those that have not moved for long: each would hold the log for ever."""
        tail = f"@{self._destination.name}"
        rows = self._session.execute(
            "SELECT stream FROM seamline.ledger WHERE position(%s in stream) > 0 AND right(stream, length(%s)) = %s"
            " AND updated_at < clock_timestamp() - make_interval(days => %s) ORDER BY stream",
            (INCREMENTAL, tail, tail, INCREMENTAL_KEPT_DAYS),
        ).fetchall()
        return [str(stream) for (stream,) in rows]

    def _end(self, stream: str) -> bool:
        """False where it has moved again. A worker that comes back finds itself fenced."""
        sync, _, destination = stream.rpartition("@")
        with self._session.transaction():
            found = self._session.execute(
                "SELECT 1 FROM seamline.ledger WHERE stream = %s"
                " AND updated_at < clock_timestamp() - make_interval(days => %s) FOR UPDATE",
                (stream, INCREMENTAL_KEPT_DAYS),
            ).fetchone()
            if found is None:
                return False
            name = StreamId(sync, destination)
            end_incremental_snapshot(self._session, self._catalogue, self._destination, name)
        return True


def open_maintenance(
    destination: DestinationPlan, catalogue: Catalogue, *, drop_abandoned: Callable[[], int]
) -> LakeMaintenance:
    """`drop_abandoned`: drops what loads have staged and nobody has published for long; how many."""
    session = open_session(resolve(destination.connection), application_name="seamline maintenance")
    return LakeMaintenance(destination, catalogue, session, drop_abandoned)
