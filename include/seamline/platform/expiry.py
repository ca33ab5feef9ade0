"""Rows of the platform database that nobody asks for any more. Evidence is not among them: reconciliations with their
breaks, the runs of cuts, without which their checks and signatures were lost, and those that were not clean stay."""

from collections.abc import Mapping

from seamline.platform.database import Database, Session

# Two closings of a quarter: so long somebody may ask how a stream fared, or since when an alarm stood.
EVENTS_KEPT_DAYS = 200
# A year and its closing.
RUNS_KEPT_DAYS = 400
# A lease that has ended protects nothing; of one that ended just now somebody may yet ask.
_LEASES_KEPT_DAYS = 1
_ROWS_AT_ONCE = 5_000


def _old(column: str) -> str:
    return f"{column} < clock_timestamp() - make_interval(days => %(days)s)"


# Of a run stay: its receipts as long as itself; the newest of each kind; the newest whose tables the streams carry, of
# each destination; one whose cut is kept or was compared, a row a night; one that was not clean.
_RUNS = f"""{_old("started_at")}
and run_id not in (select run_id from cut)
and run_id not in (select run_id from reconciliation where scope = 'cut')
and coalesce(result->'gate'->'lines', '[]') = '[]'
and run_id not in (select distinct on (sync, kind) run_id from run order by sync, kind, started_at desc)
and run_id not in (select distinct on (sync) run_id from run where kind in ('onboard', 'tables') and result ? 'publish'
    order by sync, started_at desc)
and run_id not in (select distinct on (sync, destination) run_id
    from run, jsonb_object_keys(result->'publish') destination
    where kind in ('onboard', 'tables') order by sync, destination, started_at desc)
"""
# The newest event of a stream says since when it is as it is.
_EVENTS = f"""{_old("at")}
and event_id not in (select max(event_id) from stream_event group by sync, destination)
"""
# While its run goes on a hold protects the log beyond its lease.
_LOG_HOLDS = f"""{_old("expires_at")}
and holder not in (select run_id from run where state = 'running')
"""
# What each is called in the log, its table, which rows, and after how many days.
_EXPIRED = (
    ("runs with their receipts", "run", _RUNS, RUNS_KEPT_DAYS),
    ("changes of state of streams", "stream_event", _EVENTS, EVENTS_KEPT_DAYS),
    ("drivers of tasks", "driver_run", _old("heartbeat_at"), EVENTS_KEPT_DAYS),
    ("notices by mail", "notice", _old("found_at"), RUNS_KEPT_DAYS),
    ("ended alarms", "alarm", _old("ended_at"), EVENTS_KEPT_DAYS),
    ("ended holds of streams", "stream_hold", _old("until"), _LEASES_KEPT_DAYS),
    ("ended holds of logs", "pruning_hold", _LOG_HOLDS, _LEASES_KEPT_DAYS),
)


class PlatformExpiry:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def expire(self) -> Mapping[str, tuple[int, int]]:
        """Delete what is old; by what it is, how many rows and after how many days. Short transactions, repeatable."""
        return {what: (self._delete(table, which, days), days) for what, table, which, days in _EXPIRED}

    def _delete(self, table: str, which: str, days: int) -> int:
        # Both are texts of this file.
        statement = (
            f"delete from {table} where ctid in (select ctid from {table} where {which} limit {_ROWS_AT_ONCE})"
        ).encode()

        def work(session: Session) -> int:
            return session.execute(statement, {"days": days}).rowcount

        total = deleted = self._database.transact(work)
        while deleted == _ROWS_AT_ONCE:
            deleted = self._database.transact(work)
            total += deleted
        return total
