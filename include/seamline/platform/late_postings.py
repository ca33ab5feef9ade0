"""PlatformLatePostings: what streams have applied against signed dates, and how far their logs were looked at.

Every method is one short transaction and may be repeated with the same arguments.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from seamline.domain.late_posting import LateInTable, LatePosting, LogPlace, StreamWatch, WatchedTake
from seamline.domain.ledger import StreamId
from seamline.plan.document import readable_plan
from seamline.platform import rows
from seamline.platform.database import Database, Session
from seamline.sync.late_postings import Watched

# Where the stream stands now: of a night that has begun, and of a date that was signed before anybody looked. A stream
# that catches up does not stand at one position, and one that the host reports for says no place.
_BEGIN = """
insert into late_watch (run_id, destination, sync, topic_id, next_offset, position)
select run.run_id, stream.destination, run.sync, document->>'topic_id', (document->>'next_offset')::bigint,
    document->'position'
from stream join stream_report using (sync, destination) join run using (sync)
where stream.pool = %(pool)s and run.kind = 'nightly' and run.business_date is not null
    and stream_report.state in ('streaming', 'paused', 'held', 'waiting') and document->>'topic_id' <> ''
    and (run.state = 'running' or exists (
        select from sign_off where (sign_off.run_id, sign_off.destination) = (run.run_id, stream.destination)))
    and not exists (
        select from late_watch known where (known.run_id, known.destination) = (run.run_id, stream.destination))
on conflict (run_id, destination) do nothing
"""
# The version of each date that was signed last, unless it was re-opened, has expired, or another one is in force.
_WATCHED = """
select watch.*, newest.business_date, newest.version, found.position as cut_position, stream.plan_json,
    document->>'topic_id' as topic_now, (document->>'next_offset')::bigint as offset_now, document->'position' as now
from (
    select distinct on (sync, destination, business_date) * from sign_off
    order by sync, destination, business_date, version desc, number desc
) newest
join late_watch watch using (run_id, destination)
join cut on (cut.run_id, cut.destination) = (newest.run_id, newest.destination)
join reconciliation found on (found.run_id, found.destination, found.scope) = (newest.run_id, newest.destination, 'cut')
join stream on (stream.sync, stream.destination) = (newest.sync, newest.destination)
join stream_report report on (report.sync, report.destination) = (newest.sync, newest.destination)
where stream.pool = %(pool)s and newest.act = 'signed' and found.position is not null
    and report.state in ('streaming', 'paused', 'held', 'waiting') and document->>'topic_id' <> ''
    and not exists (select from cut later where (later.sync, later.destination, later.business_date)
        = (newest.sync, newest.destination, newest.business_date) and later.version > newest.version)
order by newest.sync, newest.destination
"""
_MOVE = """
update late_watch set topic_id = %(topic_id)s, next_offset = %(next_offset)s, position = %(position)s,
    looked_at = clock_timestamp(),
    unknown = case when unknown = '' then coalesce(%(unknown)s::jsonb->>run_id, '') else unknown end
where run_id = any(%(run_ids)s)
    and (destination, topic_id, next_offset) = (%(destination)s, %(topic_before)s, %(before)s)
returning run_id
"""
_ADD = """
insert into late_posting (run_id, destination, table_name, key, changes, transactions, position, committed_at)
values (%(run_id)s, %(destination)s, %(table)s, %(key)s, %(rows)s, %(transactions)s, %(position)s, %(at)s)
on conflict do nothing
"""
_SUMMED = """
select watch.run_id, watch.destination, watch.looked_at, watch.unknown, table_name,
    sum(transactions)::bigint as transactions,
    sum(changes)::bigint as rows, max(committed_at) as last_at
from late_watch watch left join late_posting using (run_id, destination)
where watch.run_id = any(%s) group by 1, 2, 3, 4, 5 order by 1, 2, 5
"""


class PlatformLatePostings:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def watched(self, pool: str) -> tuple[Watched, ...]:
        """The streams of a pool with signed dates. What begins to be watched by this call stands where its stream does
        now."""

        def work(session: Session) -> tuple[Watched, ...]:
            session.execute(_BEGIN, {"pool": pool})
            found = session.cursor(row_factory=dict_row).execute(_WATCHED, {"pool": pool}).fetchall()
            by_stream = groupby(found, key=lambda row: StreamId(row["sync"], row["destination"]))
            known = (_watched(stream, list(mine)) for stream, mine in by_stream)
            return tuple(one for one in known if one is not None)

        return self._database.transact(work)

    def keep(
        self,
        stream: StreamId,
        takes: Sequence[WatchedTake],
        *,
        now: LogPlace,
        found: Sequence[LatePosting],
        unknown: Mapping[str, str],
    ) -> None:
        """`sync.late_postings.LateRecords`."""

        def work(session: Session) -> None:
            moved = _move(session, stream, takes, now, unknown)
            for one in found:
                if one.run_id in moved:
                    session.execute(
                        _ADD,
                        {
                            "run_id": one.run_id,
                            "destination": stream.destination,
                            "table": one.table,
                            "key": one.key,
                            "rows": one.rows,
                            "transactions": one.transactions,
                            "position": one.position,
                            "at": one.committed_at,
                        },
                    )

        self._database.transact(work)

    def of_take(self, run_id: str, destination: str, *, limit: int) -> tuple[LatePosting, ...]:
        """The newest ones first. Keys are as they are stored: whoever shows them masks them."""

        def work(session: Session) -> tuple[LatePosting, ...]:
            found = session.cursor(row_factory=dict_row).execute(
                "select late_posting.*, run.business_date from late_posting join run using (run_id)"
                " where run_id = %s and destination = %s order by posting_id desc limit %s",
                (run_id, destination, limit),
            )
            return tuple(_posting_of(row) for row in found)

        return self._database.transact(work)


def summed(session: Session, run_ids: Sequence[str]) -> dict[tuple[str, str], StreamWatch]:
    """By run and destination, of those that are watched. Inside of a transaction."""
    found = session.cursor(row_factory=dict_row).execute(_SUMMED, (list(run_ids),)).fetchall()
    by_take = groupby(found, key=lambda row: (row["run_id"], row["destination"]))
    return {place: _watch_of(list(mine)) for place, mine in by_take}


def _move(
    session: Session, stream: StreamId, takes: Sequence[WatchedTake], now: LogPlace, unknown: Mapping[str, str]
) -> set[str]:
    """Runs of takes that stood where this look began. Of another one somebody else has looked at this part, or it is
    gone."""
    before = takes[0].place
    moved = session.execute(
        _MOVE,
        {
            "run_ids": [take.run_id for take in takes],
            "destination": stream.destination,
            "topic_id": now.topic_id,
            "next_offset": now.next_offset,
            "position": rows.position_column(now.position),
            "unknown": Jsonb(dict(unknown)),
            "topic_before": before.topic_id,
            "before": before.next_offset,
        },
    )
    return {row[0] for row in moved}


def _watched(stream: StreamId, found: Sequence[Mapping[str, Any]]) -> Watched | None:
    """None of a stream whose plan cannot be read: it stands, so its place waits for the next one."""
    first = found[0]
    if (plan := readable_plan(first["plan_json"])) is None:
        return None
    now = LogPlace(first["topic_now"], first["offset_now"], rows.known_position(first["now"]))
    return Watched(stream, plan, now, tuple(_takes_of(found)))


def _takes_of(found: Sequence[Mapping[str, Any]]) -> Iterator[WatchedTake]:
    for row in found:
        place = LogPlace(row["topic_id"], row["next_offset"], rows.known_position(row["position"]))
        cut = rows.known_position(row["cut_position"])
        is_begun = row["looked_at"] is not None
        yield WatchedTake(row["run_id"], row["business_date"].isoformat(), cut, place, is_begun, row["version"])


def _watch_of(found: Sequence[Mapping[str, Any]]) -> StreamWatch:
    tables = [
        LateInTable(row["table_name"], row["rows"], row["transactions"], row["last_at"])
        for row in found
        if row["table_name"] is not None
    ]
    return StreamWatch(tuple(tables), found[0]["looked_at"], found[0]["unknown"])


def _posting_of(row: Mapping[str, Any]) -> LatePosting:
    return LatePosting(
        run_id=row["run_id"],
        business_date=row["business_date"].isoformat(),
        table=row["table_name"],
        key=row["key"],
        rows=row["changes"],
        position=row["position"],
        committed_at=row["committed_at"],
        transactions=row["transactions"],
    )
