"""The lease of a stream host on a real PostgreSQL: who has it, who gets it, and whose words count."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from seamline.domain.ledger import StreamId
from seamline.plan.document import plan_to_json
from seamline.plan.model import StreamPlan
from seamline.platform import migrate
from seamline.platform.database import Database
from seamline.platform.host_coordinator import HostCoordinator
from seamline.platform.host_lease import Holder, HostTaken, Ownership, PlatformHostLease, this_process
from seamline.platform.store import PlatformStore
from seamline.platform.streams import PlatformStreamDirector, put_report
from seamline.ports import StreamReport
from seamline.sync.stream_state import SILENCE_MAX_S, alarms_due_now, alarms_over_now
from tests.integration.platform_database import STREAM, Server, database_of_its_own, empty_tables, plan
from tests.waiting import wait_until

ELSEWHERE = StreamId(STREAM.sync, "elsewhere")


@pytest.fixture(scope="module")
def migrated() -> Iterator[Server]:
    with database_of_its_own("host_lease_test") as server:
        migrate.upgrade(server.open)
        yield server


@pytest.fixture
def server(migrated: Server) -> Iterator[Server]:
    yield migrated
    empty_tables(migrated)


def lease_of(server: Server, holder: Holder, *, lease_s: float = 15.0) -> PlatformHostLease:
    return PlatformHostLease(Database(server.open), pool="default", holder=holder, lease_s=lease_s)


def test_a_second_host_learns_who_holds_the_pool(server: Server) -> None:
    mine, other = this_process(), Holder("node2", 77, 1)
    lease_of(server, mine).take()
    with pytest.raises(HostTaken, match=f"is {mine.machine}, process {mine.process}") as refusal:
        lease_of(server, other).take()
    assert refusal.value.exit_code == 4
    lease_of(server, mine).take()
    assert lease_of(server, mine).renew() is Ownership.MINE


def test_a_host_whose_lease_ended_keeps_it_until_another_takes_it(server: Server) -> None:
    first, second = Holder("node1", 1, 1), Holder("node2", 2, 2)
    lease_of(server, first, lease_s=0).take()
    assert lease_of(server, first, lease_s=0).renew() is Ownership.MINE
    lease_of(server, second).take()
    assert lease_of(server, first).renew() is Ownership.LOST
    assert lease_of(server, second).renew() is Ownership.MINE


def test_a_released_lease_and_that_of_a_dead_process_are_free_at_once(server: Server) -> None:
    mine = this_process()
    dead = replace(mine, started=mine.started - 1000)
    lease_of(server, dead).take()
    lease_of(server, mine).take()
    lease_of(server, mine).release()
    lease_of(server, Holder("node2", 2, 2)).take()


def test_of_a_process_of_another_container_only_the_end_of_its_lease_shows_it(server: Server) -> None:
    """It may have our host name and our process id."""
    mine = this_process()
    for theirs in (
        replace(mine, started=mine.started - 1000, space=f"{mine.space}0"),
        replace(mine, started=mine.started - 1000, space=""),
    ):
        lease_of(server, theirs).take()
        with pytest.raises(HostTaken, match=f"{mine.machine}, process {mine.process}, since"):
            lease_of(server, mine).take()
        assert lease_of(server, theirs, lease_s=0).renew() is Ownership.MINE
        lease_of(server, mine).take()
        lease_of(server, mine).release()


def test_of_hosts_that_start_at_once_one_gets_the_pool(server: Server) -> None:
    gate = threading.Barrier(4)

    def try_it(number: int) -> bool:
        gate.wait()
        try:
            lease_of(server, Holder(f"node{number}", number, number)).take()
        except HostTaken:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(try_it, range(1, 5))) == 1


def test_what_a_host_without_the_lease_says_of_a_stream_has_no_effect(
    server: Server,
) -> None:
    director = PlatformStreamDirector(Database(server.open))
    director.want(STREAM, plan_json=plan_to_json(plan()))
    first, second = Holder("node1", 1, 1), Holder("node2", 2, 2)

    def say() -> None:
        director.give_up(STREAM, want_number=1, error="fenced by epoch 7", holder=str(first))
        director.put_report(StreamReport(STREAM, "failed", error="fenced by epoch 7", host=str(first)))

    lease_of(server, first, lease_s=0).take()
    say()
    lease_of(server, second).take()
    say()
    assert director.wanted("default")[0].final_want == -1
    assert director.latest_report(STREAM) is None
    lease_of(server, second).release()
    lease_of(server, first).take()
    say()
    assert director.wanted("default")[0].final_want == 1
    assert director.latest_reports()[STREAM].state == "failed"


def test_only_the_host_that_ran_an_idle_stream_keeps_its_last_words_young(server: Server) -> None:
    director = PlatformStreamDirector(Database(server.open))
    director.want(STREAM, plan_json=plan_to_json(plan()))
    first, second = Holder("node1", 1, 1), Holder("node2", 2, 2)
    lease_of(server, first).take()

    def age_s(*, state: str, kept_by: Holder) -> float:
        director.put_report(StreamReport(STREAM, state, next_offset=7, host=str(first)))
        hours = (
            "update stream_report set reported_at = reported_at - interval '9 h', moved_at = moved_at - interval '9 h'"
        )
        Database(server.open).transact(lambda session: session.execute(hours))
        left = director.keep_young([STREAM], holder=str(kept_by))
        found = director.latest_reports()[STREAM].age_s
        assert left == (frozenset() if found < 60 else {STREAM}), "the host knows whom it cannot speak for"
        return found

    assert age_s(state="streaming", kept_by=first) < 60
    kept = director.latest_report(STREAM)
    assert kept is not None
    assert (kept.still_s, kept.is_idle) == (0, True), "it had nothing to come further for, and no worker"
    assert kept.since is not None
    assert age_s(state="streaming", kept_by=second) > 3600, "it never ran there"
    assert age_s(state="failed", kept_by=first) > 3600, "it has no last words of a stream that streams"
    director.put_report(StreamReport(STREAM, "streaming", next_offset=7, host=str(first)))
    assert not director.latest_reports()[STREAM].is_idle, "a worker speaks again"
    lease_of(server, first).release()
    assert age_s(state="streaming", kept_by=first) > 3600, "the lease is another's by now, or nobody's"


def test_a_host_hears_who_is_held(server: Server) -> None:
    director = PlatformStreamDirector(Database(server.open))
    director.want(STREAM, plan_json=plan_to_json(plan()))
    assert not director.wanted("default")[0].held
    hold_id = director.hold(STREAM, lease_s=30)
    assert director.wanted("default")[0].held
    director.release(hold_id)
    director.hold(STREAM, lease_s=0)
    assert not director.wanted("default")[0].held


def test_a_host_raises_the_alarm_about_a_stream_of_its_pool_within_three_minutes_of_the_fault_without_airflow(
    server: Server,
) -> None:
    """The watch in Airflow looks every two minutes, and not at all while Airflow is away."""
    database = Database(server.open)
    director, store = PlatformStreamDirector(database), PlatformStore(database)
    director.want(STREAM, plan_json=plan_to_json(plan()))
    director.want(ELSEWHERE, plan_json=plan_to_json(replace(plan(), stream=StreamPlan(pool="other"))))
    coordinator = HostCoordinator(
        pool="default",
        holder=this_process(),
        on_event=lambda event: None,
        silence_s=0.0,
        alarms=(),
        alarms_over=alarms_over_now,
        alarms_due=alarms_due_now,
        settled_s=0.5,
        open_one=server.open,
        poll_s=0.1,
    )
    coordinator.take()
    for stream in (STREAM, ELSEWHERE):
        with closing(server.open()) as session:
            put_report(session, StreamReport(stream, "streaming", epoch=1))
    killed = f"update stream_report set reported_at = reported_at - interval '{SILENCE_MAX_S + 1} s'"
    database.transact(lambda session: session.execute(killed.encode()))
    coordinator.start()
    try:
        wait_until(store.open_alarms, timeout_s=20, what="the alarm")
    finally:
        coordinator.close()
    (alarm,) = store.open_alarms()
    assert (alarm.kind, alarm.subject) == ("stream_silent", str(STREAM)), "that of the other pool is its host's"
    last_word = "select alarm.raised_at - reported_at from alarm, stream_report where destination = 'warehouse'"
    found_after = database.transact(lambda session: session.execute(last_word.encode()).fetchone())
    assert found_after is not None
    assert timedelta(seconds=SILENCE_MAX_S) < found_after[0] < timedelta(seconds=180)


def test_a_host_ends_the_alarm_about_a_stream_as_soon_as_its_cause_has_ended(server: Server) -> None:
    """Who raised it looks every two minutes, and not at all while Airflow is away."""
    database = Database(server.open)
    director, store = PlatformStreamDirector(database), PlatformStore(database)
    coordinator = HostCoordinator(
        pool="default",
        holder=this_process(),
        on_event=lambda event: None,
        silence_s=60,
        alarms=(),
        alarms_over=alarms_over_now,
        open_one=server.open,
        poll_s=0.1,
    )
    late = StreamReport(STREAM, "streaming", epoch=1, lag_s=75.0, host=str(this_process()))
    director.want(STREAM, plan_json=plan_to_json(plan()))
    coordinator.take()
    director.put_report(late)
    store.raise_alarm("stream_late", str(STREAM), "it is 75 s behind")
    store.raise_alarm("stream_silent", str(STREAM), "no word for 70 s")

    def kinds() -> list[str]:
        return [alarm.kind for alarm in store.open_alarms()]

    coordinator.start()
    try:
        wait_until(lambda: kinds() == ["stream_late"], timeout_s=10, what="the end of what is over, and of that alone")
        director.put_report(replace(late, lag_s=0.3))
        wait_until(lambda: kinds() == [], timeout_s=10, what="the end of the lag's alarm")
    finally:
        coordinator.close()
