"""Where streams stand, and what becomes of one that is cut off."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from seamline.domain.catch_up import LastLoad
from seamline.domain.ledger import StreamId
from seamline.domain.load_progress import LOADING, LoadSoFar, load_to_json
from seamline.domain.log_fill import Follower
from seamline.domain.log_keepers import held_for_cuts, held_for_load
from seamline.domain.log_kept import LogKept
from seamline.domain.reading_pace import LogPressure, Rate
from seamline.domain.runs import RunState
from seamline.plan.document import plan_to_json
from seamline.platform import migrate
from seamline.platform.audit import UNREADABLE
from seamline.platform.capture_registry import PlatformPruningHolds
from seamline.platform.database import Database
from seamline.platform.followers import STREAM_CUT_OFF, PlatformFollowers
from seamline.platform.log_pressure import log_pressure
from seamline.platform.maintenance import PlatformMaintenance
from seamline.platform.store import PlatformStore
from seamline.platform.streams import PlatformStreamDirector, put_report
from seamline.ports import StreamReport
from seamline.sync.flow_control import CAPTURE_PAUSED, CAPTURE_SLOWED
from tests.integration.platform_database import Server, database_of_its_own, plan

STREAM = StreamId("settlement", "warehouse")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with database_of_its_own("followers_platform") as made:
        migrate.upgrade(made.open)
        yield made


def _note_load(server: Server, run_id: str, *, seconds: float | None, kind: str = "onboard") -> None:
    """A run that has staged two tables in one destination."""
    snapshot: dict[str, Any] = {"loads": {"warehouse": [{"rows": 2}, {"rows": 3}]}}
    if seconds is not None:
        snapshot["read_s"] = seconds
    with closing(server.open()) as session:
        session.execute(
            "insert into seamline.run (run_id, sync, kind, plan_json, result) values (%s, 'settlement', %s, '{}', %s)",
            (run_id, kind, json.dumps({"snapshot": snapshot})),
        )


def test_a_stream_that_is_cut_off_ends_with_an_alarm_and_needs_no_log_until_it_is_wanted_again(server: Server) -> None:
    opened = Database(server.open)
    director, followers = PlatformStreamDirector(opened), PlatformFollowers(lambda: Database(server.open))
    store, maintenance = PlatformStore(opened), PlatformMaintenance(opened)

    def alarms() -> list[tuple[str, str, str]]:
        return [(one.kind, one.subject, one.message) for one in store.open_alarms()]

    with closing(opened):
        director.want(STREAM, plan_json=plan_to_json(plan()))
        assert followers.of(plan().source.name) == (), "it has never said where it stands"
        with closing(server.open()) as session:
            put_report(session, StreamReport(STREAM, "streaming", next_offset=700))
            put_report(session, StreamReport(STREAM, "backing_off"))
        assert followers.of(plan().source.name) == (Follower(STREAM, 700),)
        with closing(server.open()) as session:
            put_report(session, StreamReport(STREAM, "failed", error="Diverged: rows are gone"))
        assert followers.of(plan().source.name) == (Follower(STREAM, 700, has_ended=True),)
        assert followers.of("another") == ()
        assert followers.last_load(STREAM) is None, "no load of it was measured"
        _note_load(server, "an older one", seconds=7.0)
        _note_load(server, "the newest", seconds=90.0)
        _note_load(server, "only a table that enters", seconds=1.0, kind="tables")
        _note_load(server, "one that went on with an earlier attempt", seconds=None)
        assert followers.last_load(STREAM) == LastLoad(5, 90.0)
        assert followers.last_load(StreamId("settlement", "another")) is None
        store.start_run(run_id="a load", sync="settlement", kind="onboard", plan_json=plan_to_json(plan()))
        (running,) = followers.running_loads(plan().source.name)
        assert (running.sync, running.run_id, running.before) == ("settlement", "a load", LastLoad(5, 90.0))
        so_far = LoadSoFar(10, 100, 0, 1, 60.0)
        store.put_result("a load", LOADING, load_to_json(so_far))
        store.start_run(run_id="first load", sync="another", kind="onboard", plan_json=plan_to_json(plan()))
        known = {one.run_id: (one.before, one.so_far) for one in followers.running_loads(plan().source.name)}
        assert known == {"a load": (LastLoad(5, 90.0), so_far), "first load": (None, None)}
        store.finish_run("first load", state=RunState.FAILED)
        kept = LogKept(7 << 30, 512.0, 60.0, has_source_limit=True, load=LastLoad(5, 90.0))
        followers.note_kept({STREAM: kept, StreamId("settlement", "nobody"): kept})
        with closing(server.open()) as session:
            put_report(session, StreamReport(STREAM, "paused", next_offset=700))
            found = director.latest_reports()[STREAM]
            assert (found.kept, found.state) == (kept, "paused"), "a report leaves it as it is"
            assert found.kept_at is not None and abs((datetime.now(UTC) - found.kept_at).total_seconds()) < 60
            session.execute(
                "update seamline.stream_report set document = jsonb_set(document, '{kept,at}',"
                " to_jsonb(extract(epoch from clock_timestamp()) - 121))"
            )
        assert director.latest_reports()[STREAM].kept is None, "nobody has measured it for two minutes"
        for _ in range(2):
            followers.cut_off(STREAM, "too far behind")
        assert (director.wanted_of("settlement"), followers.of(plan().source.name)) == ((), ())
        assert maintenance.cut_off() == {STREAM}
        assert alarms() == [(STREAM_CUT_OFF, str(STREAM), "too far behind")]
        director.want(STREAM, plan_json=plan_to_json(plan()))
        assert (maintenance.cut_off(), alarms()) == (frozenset(), [])
        # Where it stood then would cut it off again, before it has said where it begins now.
        assert followers.of(plan().source.name) == ()


def test_who_reads_a_source_knows_what_its_watch_does_and_whether_it_keeps_the_log_itself(server: Server) -> None:
    source = plan().source
    store, holds = PlatformStore(Database(server.open)), PlatformPruningHolds(Database(server.open))
    director = PlatformStreamDirector(Database(server.open))

    def pressure(run_id: str) -> LogPressure | None:
        return log_pressure(source, run_id, lambda: Database(server.open))

    with closing(store), closing(holds), closing(director):
        director.want(STREAM, plan_json=plan_to_json(plan()))
        with closing(server.open()) as session:
            put_report(session, StreamReport(STREAM, "streaming", next_offset=700))
        assert pressure("a night") is None, "the capture is free"
        store.raise_alarm(CAPTURE_SLOWED, source.name, "a stream is behind")
        assert pressure("a night") == LogPressure(Rate.SLOWED, "a stream is behind")
        store.raise_alarm(CAPTURE_PAUSED, source.name, "the log is full")
        assert pressure("a night") == LogPressure(Rate.WAITS, "the log is full")
        holds.hold_log(source.log_topic, holder="later", offset=701, lease_s=60)
        holds.hold_log(source.log_topic, holder="earlier", offset=900, lease_s=60)
        holds.hold_log(source.log_topic, holder=held_for_load("earlier") + "warehouse", offset=600, lease_s=60)
        assert pressure("later") == LogPressure(Rate.WAITS, "the log is full")
        assert pressure("earlier") == LogPressure(Rate.WAITS, "the log is full", is_ours=True)
        holds.hold_log(source.log_topic, holder=held_for_cuts("settlement") + "warehouse", offset=500, lease_s=60)
        assert pressure("earlier") == LogPressure(Rate.WAITS, "the log is full"), "ending it would free nothing"
        store.end_alarm(CAPTURE_PAUSED, source.name)
        store.start_run(run_id="of a date", sync="settlement", kind="nightly", plan_json=plan_to_json(plan()))
        store.start_run(run_id="anew", sync="settlement", kind="onboard", plan_json=plan_to_json(plan()))
        assert pressure("of a date") is None, "it moves its own hold on"
        assert pressure("anew") == LogPressure(Rate.SLOWED, "a stream is behind")
        holds.hold_log(source.log_topic, holder=held_for_cuts("settlement") + "warehouse", offset=701, lease_s=60)
        holds.hold_log(source.log_topic, holder=held_for_load("earlier") + "warehouse", offset=701, lease_s=60)
        assert pressure("anew") is None, "it loads the slowest stream again"
        store.end_alarm(CAPTURE_SLOWED, source.name)
        assert pressure("earlier") is None


def test_a_report_that_cannot_be_read_hides_no_report_of_another_stream(server: Server) -> None:
    opened, other = Database(server.open), StreamId("payroll", "warehouse")
    director = PlatformStreamDirector(opened)
    for stream in (STREAM, other):
        opened.transact(lambda session, of=stream: put_report(session, StreamReport(of, "streaming")))
    spoil = "update stream_report set document = jsonb_set(document, '{position}', '{}') where sync = 'payroll'"
    opened.transact(lambda session: session.execute(spoil))
    found, unreadable = director.readable_reports()
    assert STREAM in found and list(unreadable) == [other] and unreadable[other]
    assert other not in director.latest_reports(STREAM.sync)
    with pytest.raises(UNREADABLE):
        director.latest_reports()
