"""Where the streams of a source stand, and which of them are cut off because they hold the others up."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from seamline.domain.alarms import AlarmKind
from seamline.domain.catch_up import LastLoad, RunningLoad
from seamline.domain.ledger import StreamId
from seamline.domain.load_progress import LOADING, load_from_json
from seamline.domain.log_fill import Follower
from seamline.domain.log_kept import LogKept
from seamline.plan.document import readable_plan
from seamline.platform.database import Database, Session

STREAM_CUT_OFF = AlarmKind.STREAM_CUT_OFF


class PlatformFollowers:
    """`ports.Followers`. Each call has a session of its own: they are seconds apart, and nothing is left to close."""

    def __init__(self, open_database: Callable[[], Database] = Database) -> None:
        self._open_database = open_database

    def of(self, source: str) -> Sequence[Follower]:
        """By the last offset that each has reported, however it is now."""

        def work(session: Session) -> Sequence[Follower]:
            cursor = session.execute(
                "select sync, destination, moved_to, plan_json, stream_report.state in ('failed', 'stopped')"
                " from stream join stream_report using (sync, destination) where is_wanted and moved_to > 0"
            )
            found = [(StreamId(one[0], one[1]), one[2], readable_plan(one[3]), bool(one[4])) for one in cursor]
            return tuple(
                Follower(stream, at, dict(plan.stream.cut_off_behind_gb).get(stream.destination, 0.0), has_ended)
                for stream, at, plan, has_ended in found
                if plan is not None and plan.source.name == source
            )

        with closing(self._open_database()) as database:
            return database.transact(work)

    def last_load(self, stream: StreamId) -> LastLoad | None:
        """Of its newest onboarding whose snapshot was staged there, all of it in one attempt. A change of the tables
        reads those that enter, which says nothing about all."""

        def work(session: Session) -> LastLoad | None:
            row = session.execute(
                "select loads->%(to)s::text, read_s from (select started_at, result->'snapshot'->'loads' as loads,"
                " (result->'snapshot'->>'read_s')::double precision as read_s from run where sync = %(sync)s"
                " and kind = 'onboard') as found"
                " where read_s is not null and loads ? %(to)s::text order by started_at desc limit 1",
                {"sync": stream.sync, "to": stream.destination},
            ).fetchone()
            return None if row is None else LastLoad(sum(int(one["rows"]) for one in row[0]), float(row[1]))

        with closing(self._open_database()) as database:
            return database.transact(work)

    def running_loads(self, source: str) -> Sequence[RunningLoad]:
        """One that nobody ended, as after a kill, is soon longer than the one before it, and says nothing new."""

        def work(session: Session) -> Sequence[RunningLoad]:
            cursor = session.execute(
                "select r.sync, r.run_id, r.plan_json, extract(epoch from clock_timestamp() - r.started_at),"
                " b.result->'snapshot', r.result->%s::text from run as r"
                " left join lateral (select result from run as o where o.sync = r.sync and o.kind = 'onboard'"
                " and o.result->'snapshot'->>'read_s' is not null order by o.started_at desc limit 1) as b on true"
                " where r.state = 'running' and r.kind = 'onboard' and r.result->'snapshot' is null",
                (LOADING,),
            )
            return tuple(
                RunningLoad(
                    sync,
                    run_id,
                    float(for_s),
                    _last_load(before) if before else None,
                    load_from_json(so_far) if so_far else None,
                )
                for sync, run_id, text, for_s, before, so_far in cursor
                if (plan := readable_plan(text)) is not None and plan.source.name == source
            )

        with closing(self._open_database()) as database:
            return database.transact(work)

    def cut_off(self, stream: StreamId, reason: str) -> None:
        """It stops at its next whole transaction. Its alarm ends, and it counts again, when it is wanted again."""

        def work(session: Session) -> None:
            named = {"sync": stream.sync, "to": stream.destination, "stream": str(stream), "reason": reason}
            changed = session.execute(
                "update stream set is_wanted = false, is_cut_off = true, undeclared_since = null"
                " where sync = %(sync)s and destination = %(to)s and not is_cut_off",
                named,
            ).rowcount
            if changed:
                session.execute(
                    "insert into alarm (kind, subject, message) values (%(kind)s, %(stream)s, %(reason)s)"
                    " on conflict (kind, subject) where ended_at is null do update set message = excluded.message",
                    {**named, "kind": STREAM_CUT_OFF},
                )

        with closing(self._open_database()) as database:
            database.transact(work)

    def note_kept(self, kept: Mapping[StreamId, LogKept]) -> None:
        """Beside the last report of each stream, which later ones leave as it is."""
        if not kept:
            return
        syncs, destinations = [one.sync for one in kept], [one.destination for one in kept]
        texts = [json.dumps(asdict(one)) for one in kept.values()]

        def work(session: Session) -> None:
            session.execute(
                "update stream_report set document = document || jsonb_build_object('kept',"
                " said.kept::jsonb || jsonb_build_object('at', extract(epoch from clock_timestamp())))"
                " from unnest(%s::text[], %s::text[], %s::text[]) as said (sync, destination, kept)"
                " where (stream_report.sync, stream_report.destination) = (said.sync, said.destination)",
                (syncs, destinations, texts),
            )

        with closing(self._open_database()) as database:
            database.transact(work)


def _last_load(snapshot: Mapping[str, Any]) -> LastLoad:
    """Its destinations are loaded from one read, so the rows of one of them count."""
    rows = [sum(int(one["rows"]) for one in loads) for loads in snapshot["loads"].values()]
    return LastLoad(max(rows, default=0), float(snapshot["read_s"]))


def cut_off_streams(session: Session) -> frozenset[StreamId]:
    """They need nothing of their logs: each is loaded again before it goes on."""
    return frozenset(StreamId(*row) for row in session.execute("select sync, destination from stream where is_cut_off"))


def forget_cut_off(session: Session, stream: StreamId) -> None:
    """It is wanted again: where it stood before says nothing about where it will begin."""
    session.execute(
        "update stream_report set moved_to = 0 from stream where stream.is_cut_off"
        " and (stream.sync, stream.destination) = (stream_report.sync, stream_report.destination)"
        " and stream.sync = %s and stream.destination = %s",
        (stream.sync, stream.destination),
    )
    session.execute(
        "update stream set is_cut_off = false where sync = %s and destination = %s and is_cut_off",
        (stream.sync, stream.destination),
    )
    session.execute(
        "update alarm set ended_at = clock_timestamp() where kind = %s and subject = %s and ended_at is null",
        (STREAM_CUT_OFF, str(stream)),
    )
