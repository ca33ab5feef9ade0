"""What maintenance reads from the ledgers of a database, and what it deletes there: the same beside any tables."""

from collections.abc import Callable, Sequence

import psycopg

from seamline.databases.postgres.client import Session, translated
from seamline.domain.ledger import StreamId
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import INCREMENTAL
from seamline.ports.maintenance import FINDINGS_KEPT_DAYS, INCREMENTAL_KEPT_DAYS


def ledger_places(session: Session) -> Sequence[LedgerPlace]:
    """Those of all streams and incremental snapshots in this database; () where nothing was ever published."""
    with translated("read the ledgers"):
        try:
            rows = session.execute(
                "SELECT stream, topic, topic_id, next_offset FROM seamline.ledger ORDER BY stream"
            ).fetchall()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return ()
    return tuple(LedgerPlace(*row) for row in rows)


def delete_old_findings(session: Session) -> int:
    """Those of rows that were put in place again since. The others make verdicts, and stay."""
    if not _is_there(session, "seamline.finding"):
        return 0
    return session.execute(
        "DELETE FROM seamline.finding WHERE over_at < clock_timestamp() - make_interval(days => %s)",
        (FINDINGS_KEPT_DAYS,),
    ).rowcount


def end_dead_snapshots(session: Session, destination: str, end: Callable[[StreamId], None]) -> tuple[str, ...]:
    """Incremental snapshots into this destination's streams that have not moved for long: each would hold the log for
    ever. `end` is called inside a transaction, and takes away ledger and tables of one."""
    if not _is_there(session, "seamline.ledger"):
        return ()
    rows = session.execute(
        "SELECT stream FROM seamline.ledger WHERE position(%s in stream) > 0 AND right(stream, length(%s)) = %s"
        " AND updated_at < clock_timestamp() - make_interval(days => %s) ORDER BY stream",
        (INCREMENTAL, tail := f"@{destination}", tail, INCREMENTAL_KEPT_DAYS),
    ).fetchall()
    return tuple(str(stream) for (stream,) in rows if _ended(session, str(stream), end))


def _ended(session: Session, stream: str, end: Callable[[StreamId], None]) -> bool:
    """False where it has moved again. A worker that comes back finds itself fenced."""
    sync, _, destination = stream.rpartition("@")
    with session.transaction():
        found = session.execute(
            "SELECT 1 FROM seamline.ledger WHERE stream = %s"
            " AND updated_at < clock_timestamp() - make_interval(days => %s) FOR UPDATE",
            (stream, INCREMENTAL_KEPT_DAYS),
        ).fetchone()
        if found is None:
            return False
        end(StreamId(sync, destination))
    return True


def _is_there(session: Session, table: str) -> bool:
    return session.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,)
