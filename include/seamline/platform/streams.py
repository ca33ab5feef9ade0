"""Wanted streams, holds and reports: the director's side, and the statements that both sides share."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from psycopg.types.json import Jsonb

from seamline.domain.audit import FROM_COMMAND_LINE, Act, Kind, Subject
from seamline.domain.declared import Step, StreamMark
from seamline.domain.errors import Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position, position_to_json
from seamline.plan.document import plan_from_json
from seamline.platform import audit, rows
from seamline.platform.database import Database, Session
from seamline.platform.followers import cut_off_streams, forget_cut_off
from seamline.ports import StreamReport, WantedStream

# A stream that stood by order, or of which nobody reported for a while, has not failed to move: its time counts from
# the end of that. Reports without an offset (starting, backing off) say nothing about it.
_PUT_REPORT = """
with before as (select state from stream_report where sync = %(sync)s and destination = %(destination)s),
written as (
    insert into stream_report as before_it (sync, destination, state, document, reported_at, moved_to)
    values (%(sync)s, %(destination)s, %(state)s, %(document)s::jsonb, clock_timestamp(), %(next_offset)s)
    on conflict (sync, destination) do update set state = excluded.state,
        document = excluded.document || jsonb_strip_nulls(jsonb_build_object('kept', before_it.document->'kept')),
        reported_at = excluded.reported_at, moved_to = coalesce(nullif(excluded.moved_to, 0), before_it.moved_to),
        moved_at = case when excluded.state in ('paused', 'held', 'stopped', 'failed', 'no_slot')
            or before_it.state in ('paused', 'held', 'stopped', 'failed', 'no_slot')
            or excluded.reported_at - before_it.reported_at > interval '60 seconds'
            or excluded.moved_to not in (0, before_it.moved_to) then excluded.reported_at else before_it.moved_at end
)
insert into stream_event (sync, destination, state, error, host)
select %(sync)s, %(destination)s, %(state)s, %(error)s, %(host)s
where %(state)s is distinct from (select state from before)
"""
_WANTED = """
select sync, destination, plan_json, want_number, is_paused, final_want, final_error, exists (
        select 1 from stream_hold as hold
        where hold.sync = stream.sync and hold.destination = stream.destination and hold.until > clock_timestamp()
    ),
    case when is_paused then paused_by else '' end, case when is_paused then paused_at end,
    case when is_paused then pause_reason else '' end
from stream where is_wanted
"""
# Each change of state is an event, so the newest one is when the stream came into the state of now. The attempts of a
# stream that tries again are one state: it began with the first that failed. What the watch of a source said of the log
# counts for two minutes: it says it every ten seconds.
_REPORTS = """
select sync, destination, document, extract(epoch from clock_timestamp() - reported_at),
    extract(epoch from reported_at - moved_at),
    (select case when stream_report.state = 'backing_off' then min(at) filter (
            where state = 'backing_off' and event_id > coalesce(other.event_id, 0)) else max(at) end
        from stream_event where (sync, destination) = (stream_report.sync, stream_report.destination)),
    case when clock_timestamp() - to_timestamp((document->'kept'->>'at')::double precision) < interval '2 minutes'
        then document->'kept' end
from stream_report, lateral (
    select max(event_id) as event_id from stream_event
    where (sync, destination) = (stream_report.sync, stream_report.destination)
        and state not in ('backing_off', 'starting')
) as other
"""
_LAGS = """
select sync, destination, steps_ago, max(lag_s)
from stream_lag, lateral (
    select floor(extract(epoch from clock_timestamp() - minute) / %(step_s)s)::int as steps_ago
) as age
where %(sync)s in ('', sync) and minute > clock_timestamp() - make_interval(secs => %(steps)s::bigint * %(step_s)s)
    and steps_ago between 0 and %(steps)s - 1
group by sync, destination, steps_ago
"""
# Of streams that are declared no more. One that ended for another reason is not wanted again when it is declared.
_DECLARED_AGAIN = "undeclared_since = null"
_STEPS = {
    Step.NOTE: "undeclared_since = clock_timestamp() where is_wanted and undeclared_since is null",
    Step.END: "is_wanted = false where is_wanted and undeclared_since is not null",
    Step.GO_ON: "is_wanted = not is_cut_off,"
    f" wanted_at = case when is_wanted then wanted_at else clock_timestamp() end, {_DECLARED_AGAIN}"
    " where undeclared_since is not null",
}
_NOT_PAUSED = "is_paused = false, paused_by = '', paused_at = null, pause_reason = ''"


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A stream came into this state."""

    stream: StreamId
    state: str
    error: str
    host: str
    at: datetime


@dataclass(frozen=True, slots=True)
class HostState:
    """The lease of a pool's stream host. `holder` is "" where no host ever served the pool; `silent_s` counts from the
    last renewal, or from the oldest want."""

    pool: str
    holder: str
    is_alive: bool
    silent_s: float


def put_report(session: Session, report: StreamReport) -> None:
    """Replace the stream's report; a change of state is kept as an event too."""
    session.execute(
        _PUT_REPORT,
        {
            "sync": report.stream.sync,
            "destination": report.stream.destination,
            "state": report.state,
            "document": rows.report_to_json(report),
            "next_offset": report.next_offset,
            "error": report.error,
            "host": report.host,
        },
    )


def _has_lease(session: Session, stream: StreamId, holder: str) -> bool:
    """Whether the host has the lease of the stream's pool; no other can take it before this transaction ends."""
    cursor = session.execute(
        "select 1 from host_lease as lease join stream using (pool) where sync = %s and destination = %s"
        " and lease.holder = %s and lease.expires_at > clock_timestamp() for share of lease",
        (stream.sync, stream.destination, holder),
    )
    return cursor.fetchone() is not None


def _act(kind: Kind, stream: StreamId, by: str, origin: str = FROM_COMMAND_LINE, **document: str) -> Act:
    return Act(kind, Subject(stream.sync, stream.destination), document, by, origin)


def _forget_failure(session: Session, stream: StreamId) -> None:
    """The failure of an earlier want says nothing about the next one."""
    session.execute(
        "delete from stream_report where sync = %s and destination = %s and state = 'failed'",
        (stream.sync, stream.destination),
    )
    forget_cut_off(session, stream)


class PlatformStreamDirector:
    """What operators, sensors, reconciliation and the host ask of streams. Reaches them in milliseconds by NOTIFY."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def want(self, stream: StreamId, *, plan_json: str) -> None:
        """Let the stream run, by this plan.

        With the plan it has, a running stream is left alone; with another it stops at an END and starts again. Each
        call is a new want: it starts a stream that was fenced or had failed for good. So it is for people and for the
        first start, not for a watch that repeats itself.
        """
        pool = plan_from_json(plan_json).stream.pool

        def work(session: Session) -> None:
            session.execute(
                "insert into stream (sync, destination, pool, plan_json, is_wanted) values (%s, %s, %s, %s, true)"
                " on conflict (sync, destination) do update set pool = excluded.pool, plan_json = excluded.plan_json,"
                " is_wanted = true, want_number = stream.want_number + 1, wanted_at = clock_timestamp(),"
                f" {_DECLARED_AGAIN}",
                (stream.sync, stream.destination, pool, plan_json),
            )
            _forget_failure(session, stream)

        self._database.transact(work)

    def unwant(self, stream: StreamId) -> None:
        """Let the stream stop at its next END."""
        self._change(stream, f"is_wanted = false, {_DECLARED_AGAIN}")

    def forget(self, stream: StreamId, *, by: str, reason: str = "", origin: str = FROM_COMMAND_LINE) -> None:
        """Let the stream stop, and what the log keeps for it go: it comes back by a new load, as one that was cut
        off. Its tables and its ledger stay as they are."""
        why = {"reason": reason} if reason else {}
        self._change(
            stream,
            f"is_wanted = false, is_cut_off = true, {_DECLARED_AGAIN}",
            act=_act(Kind.STREAM_FORGOTTEN, stream, by, origin, **why),
        )

    def pause(self, stream: StreamId, *, by: str, reason: str = "", origin: str = FROM_COMMAND_LINE) -> None:
        """Let the stream stand still at its next END until `resume`; it keeps its slot. Refused where none is known.

        A stream that stands already keeps who paused it and since when; a new reason takes the place of the old one.
        """
        self._change(
            stream,
            "is_paused = true, paused_by = case when is_paused then paused_by else %(by)s end,"
            " paused_at = case when is_paused then paused_at else clock_timestamp() end,"
            " pause_reason = case when is_paused and %(reason)s = '' then pause_reason else %(reason)s end",
            values={"by": by, "reason": reason},
            act=_act(Kind.STREAM_PAUSED, stream, by, origin, reason=reason),
        )

    def resume(self, stream: StreamId, *, by: str, reason: str = "", origin: str = FROM_COMMAND_LINE) -> None:
        """`reason`: for the log of acts alone; nobody sees a stream that moves stand."""
        why = {"reason": reason} if reason else {}
        self._change(stream, _NOT_PAUSED, act=_act(Kind.STREAM_RESUMED, stream, by, origin, **why))

    def restart(self, stream: StreamId, *, by: str, origin: str = FROM_COMMAND_LINE) -> None:
        """Want the stream again by the plan it has: it starts also after it was paused or had failed for good."""
        self._change(
            stream,
            "is_wanted = true, want_number = want_number + 1, wanted_at = clock_timestamp(),"
            f" {_DECLARED_AGAIN}, {_NOT_PAUSED}",
            then=_forget_failure,
            act=_act(Kind.STREAM_RESTARTED, stream, by, origin),
        )

    def _change(
        self,
        stream: StreamId,
        setting: str,
        *,
        values: Mapping[str, str] = MappingProxyType({}),
        then: Callable[[Session, StreamId], None] = lambda *_: None,
        act: Act | None = None,
    ) -> None:
        def work(session: Session) -> int:
            statement = f"update stream set {setting} where sync = %(sync)s and destination = %(destination)s"
            named = {"sync": stream.sync, "destination": stream.destination, **values}
            changed = session.execute(statement.encode(), named).rowcount
            then(session, stream)
            if act is not None and changed:
                audit.append(session, act)
            return changed

        if self._database.transact(work) != 1:
            raise Refused(
                f"stream {stream} was never wanted", hint="onboard the sync first: that starts it", sync=stream.sync
            )

    def known(self) -> tuple[StreamId, ...]:
        """Every stream that was ever wanted."""

        def work(session: Session) -> tuple[StreamId, ...]:
            cursor = session.execute("select sync, destination from stream order by sync, destination")
            return tuple(StreamId(*row) for row in cursor)

        return self._database.transact(work)

    def marks(self) -> tuple[StreamMark, ...]:
        """Every stream that is wanted, or has ended because it is declared no more."""

        def work(session: Session) -> tuple[StreamMark, ...]:
            cursor = session.execute(
                "select sync, destination, plan_json::json->'source'->>'name', is_wanted, undeclared_since,"
                " coalesce(extract(epoch from clock_timestamp() - undeclared_since), 0)::double precision"
                " from stream where is_wanted or undeclared_since is not null order by sync, destination"
            )
            return tuple(StreamMark(StreamId(row[0], row[1]), *row[2:]) for row in cursor)

        return self._database.transact(work)

    def take(self, stream: StreamId, step: Step) -> None:
        """About a stream that is declared no more, or again. Without effect where somebody was faster."""

        def work(session: Session) -> None:
            statement = f"update stream set {_STEPS[step]} and sync = %s and destination = %s"
            session.execute(statement.encode(), (stream.sync, stream.destination))

        self._database.transact(work)

    def cut_off(self) -> frozenset[StreamId]:
        """Streams that ended because they were too far behind, and were not wanted again since."""
        return self._database.transact(cut_off_streams)

    def wanted(self, pool: str) -> tuple[WantedStream, ...]:
        """The streams that this pool shall run, in the order in which they were first or last wanted."""
        return self._wanted("pool = %s", (pool,))

    def all_wanted(self) -> tuple[WantedStream, ...]:
        """Those of every pool, in the same order."""
        return self._wanted("true", ())

    def wanted_of(self, sync: str) -> tuple[WantedStream, ...]:
        return self._wanted("sync = %s", (sync,))

    def _wanted(self, condition: str, arguments: Sequence[str]) -> tuple[WantedStream, ...]:
        def work(session: Session) -> tuple[WantedStream, ...]:
            # `condition` is one of the texts above, never input.
            statement = f"{_WANTED} and {condition} order by wanted_at, sync, destination"
            cursor = session.execute(statement.encode(), arguments)
            return tuple(WantedStream(StreamId(row[0], row[1]), *row[2:]) for row in cursor)

        return self._database.transact(work)

    def give_up(self, stream: StreamId, *, want_number: int, error: str, holder: str) -> None:
        """For the host: under this want the stream ended for good, also for a host that starts later.

        Without effect unless `holder` has the lease of the stream's pool: what a host without it saw end says nothing
        about the stream that another host runs now.
        """

        def work(session: Session) -> None:
            if not _has_lease(session, stream, holder):
                return
            session.execute(
                "update stream set final_want = %s, final_error = %s"
                " where sync = %s and destination = %s and final_want < %s",
                (want_number, error, stream.sync, stream.destination, want_number),
            )

        self._database.transact(work)

    def try_again(self, stream: StreamId, *, holder: str) -> None:
        """For the host: what `give_up` wrote down holds no more, under whatever want. Without effect unless `holder`
        has the lease."""

        def work(session: Session) -> None:
            if _has_lease(session, stream, holder):
                session.execute(
                    "update stream set final_want = -1, final_error = '' where sync = %s and destination = %s",
                    (stream.sync, stream.destination),
                )

        self._database.transact(work)

    def hosts(self) -> tuple[HostState, ...]:
        """One for each pool that has wanted streams or ever had a host."""

        def work(session: Session) -> tuple[HostState, ...]:
            cursor = session.execute(
                "select pool, coalesce(lease.holder, ''), coalesce(lease.expires_at > clock_timestamp(), false),"
                " extract(epoch from clock_timestamp() - coalesce(lease.renewed_at, wanted.since))"
                " from (select pool, min(wanted_at) as since from stream where is_wanted group by pool) as wanted"
                " full join host_lease as lease using (pool) order by pool"
            )
            return tuple(HostState(row[0], row[1], row[2], float(row[3])) for row in cursor)

        return self._database.transact(work)

    # ---- reports ---------------------------------------------------------------------------------------------------

    def latest_report(self, stream: StreamId) -> StreamReport | None:
        """None when it never reported. `age_s` distinguishes a report of now from the last one of a dead worker."""
        found = self._reported("sync = %s and destination = %s", (stream.sync, stream.destination))
        return next((_report_of(row) for row in found), None)

    def latest_reports(self, sync: str = "") -> dict[StreamId, StreamReport]:
        """Of all streams, or of those of one sync."""
        return {one.stream: one for one in map(_report_of, self._reported("%s in ('', sync)", (sync,)))}

    def readable_reports(self) -> tuple[dict[StreamId, StreamReport], dict[StreamId, str]]:
        """Of all streams; and of each whose report cannot be read, why."""
        found, unreadable = dict[StreamId, StreamReport](), dict[StreamId, str]()
        for row in self._reported("true", ()):
            try:
                report = _report_of(row)
            except (*audit.UNREADABLE, AttributeError) as exc:
                unreadable[StreamId(row[0], row[1])] = f"{type(exc).__name__}: {exc}"
            else:
                found[report.stream] = report
        return found, unreadable

    def _reported(self, condition: str, arguments: Sequence[str]) -> list[tuple[Any, ...]]:
        # `condition` is one of the texts above, never input.
        statement = f"{_REPORTS} where {condition} order by sync, destination"
        return self._database.transact(lambda session: session.execute(statement.encode(), arguments).fetchall())

    def put_report(self, report: StreamReport) -> None:
        """For the host, about a stream without a task. Without effect unless `report.host` has the lease."""

        def work(session: Session) -> None:
            if _has_lease(session, report.stream, report.host):
                put_report(session, report)

        self._database.transact(work)

    def keep_young(self, streams: Sequence[StreamId], *, holder: str) -> frozenset[StreamId]:
        """For the host: confirm the last reports of these idle streams. Returns those that cannot be confirmed: the
        report did not arrive, or `holder` has no lease.

        An idle stream has nothing to apply, so the time that it does not advance is not counted.
        """

        def work(session: Session) -> frozenset[StreamId]:
            spoken_for = session.execute(
                "update stream_report set reported_at = clock_timestamp(), moved_at = clock_timestamp(),"
                " document = document || '{\"is_idle\": true}'"
                " from unnest(%s::text[], %s::text[]) as idle (sync, destination)"
                " where stream_report.sync = idle.sync and stream_report.destination = idle.destination"
                " and stream_report.state = 'streaming' and stream_report.document->>'host' = %s"
                " and exists (select 1 from host_lease where holder = %s and expires_at > clock_timestamp())"
                " returning stream_report.sync, stream_report.destination",
                ([one.sync for one in streams], [one.destination for one in streams], holder, holder),
            )
            return frozenset(streams) - {StreamId(*row) for row in spoken_for}

        return self._database.transact(work)

    def events(self, stream: StreamId, *, since: datetime, until: datetime) -> Sequence[StreamEvent]:
        """Changes of state in `[since, until)`, the oldest first."""

        def work(session: Session) -> Sequence[StreamEvent]:
            cursor = session.execute(
                "select state, error, host, at from stream_event where sync = %s and destination = %s"
                " and at >= %s and at < %s order by at, event_id",
                (stream.sync, stream.destination, since, until),
            )
            return tuple(StreamEvent(stream, *row) for row in cursor)

        return self._database.transact(work)

    def lags(self, sync: str = "", *, steps: int, step_s: int) -> dict[StreamId, tuple[float | None, ...]]:
        """Of each stream, or of those of one sync, the worst lag in seconds that it reported in each of the last
        `steps` steps, the oldest first; None where it reported none. Two days are kept."""

        def work(session: Session) -> dict[StreamId, tuple[float | None, ...]]:
            cursor = session.execute(_LAGS, {"sync": sync, "steps": steps, "step_s": step_s})
            found: dict[StreamId, list[float | None]] = {}
            for name, destination, steps_ago, worst in cursor:
                of_stream = found.setdefault(StreamId(name, destination), [None] * steps)
                of_stream[steps - 1 - steps_ago] = worst
            return {stream: tuple(values) for stream, values in found.items()}

        return self._database.transact(work)

    # ---- holds -----------------------------------------------------------------------------------------------------

    def hold(self, stream: StreamId, *, lease_s: float) -> str:
        """Ask the stream to stand still; it reports `held` with this id. Refused when it is paused or not wanted.

        Of several holds the first one asked is in force.
        """
        hold_id = uuid.uuid4().hex

        def work(session: Session) -> int:
            session.execute("delete from stream_hold where until < clock_timestamp() - interval '1 hour'")
            return session.execute(
                "insert into stream_hold (hold_id, sync, destination, until)"
                " select %s, sync, destination, clock_timestamp() + make_interval(secs => %s) from stream"
                " where sync = %s and destination = %s and is_wanted and not is_paused"
                " on conflict (hold_id) do nothing",
                (hold_id, lease_s, stream.sync, stream.destination),
            ).rowcount

        # A repeat after a lost connection meets its own row.
        if self._database.transact(work) != 1 and not self._has_hold(hold_id):
            raise Refused(
                f"stream {stream} cannot be held: it is paused or not wanted",
                hint=f"`seamline stream resume {stream.sync}` lets it run on; `seamline status` shows what it does",
                sync=stream.sync,
            )
        return hold_id

    def _has_hold(self, hold_id: str) -> bool:
        def work(session: Session) -> bool:
            return session.execute("select 1 from stream_hold where hold_id = %s", (hold_id,)).fetchone() is not None

        return self._database.transact(work)

    def extend(self, hold_id: str, *, lease_s: float) -> None:
        """Let the hold end in `lease_s` from now, by the database's clock. TransientError: it has ended.

        Only its holder calls this: the hold of a dead one ends by itself.
        """
        until = "until = clock_timestamp() + make_interval(secs => %s)"
        self._change_hold(hold_id, until, lease_s)

    def apply_up_to(self, hold_id: str, position: Position) -> None:
        """Let the held stream apply what `position` covers, and no more. TransientError: the hold has ended."""
        self._change_hold(hold_id, "apply_to = %s", Jsonb(position_to_json(position)))

    def _change_hold(self, hold_id: str, setting: str, value: object) -> None:
        def work(session: Session) -> int:
            # `setting` is one of the texts above, never input.
            statement = f"update stream_hold set {setting} where hold_id = %s and until > clock_timestamp()"
            return session.execute(statement.encode(), (value, hold_id)).rowcount

        if self._database.transact(work) != 1:
            raise TransientError(f"hold {hold_id} has ended", hint="take a new hold; a longer lease may be needed")

    def release(self, hold_id: str) -> None:
        """End the hold now; without effect when it has ended."""

        def work(session: Session) -> None:
            session.execute("delete from stream_hold where hold_id = %s", (hold_id,))

        self._database.transact(work)


def _report_of(row: tuple[Any, ...]) -> StreamReport:
    sync, destination, document, age_s, still_s, since, kept = row
    stream = StreamId(sync, destination)
    return rows.report_of(
        stream, document, age_s=float(age_s), still_s=max(0.0, float(still_s)), since=since, kept=kept
    )
