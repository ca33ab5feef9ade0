"""The host's decisions: who starts, who waits, who is left alone for good."""

from dataclasses import replace

from seamline.domain.ledger import StreamId
from seamline.ports import WantedStream
from seamline.sync.stream_host import (
    Action,
    BackOff,
    Cancel,
    EndAlarm,
    GiveUp,
    Outcome,
    RaiseAlarm,
    SendReport,
    Start,
    StreamRoster,
    TaskEnd,
)
from seamline.sync.stream_state import SILENCE_MAX_S


def wanted(number: int, *, plan_json: str = "plan", want_number: int = 1) -> WantedStream:
    return WantedStream(StreamId(f"sync{number}", "warehouse"), plan_json, want_number)


def roster(*, slots: int = 4, reserve: int = 1) -> StreamRoster:
    return StreamRoster(slots=slots, reserve=reserve, back_off=BackOff(1, 8, 60), stop_grace_s=10)


def starts(actions: list[Action]) -> list[tuple[str, int]]:
    return [(action.wanted.stream.sync, action.attempt) for action in actions if isinstance(action, Start)]


def states(actions: list[Action]) -> list[tuple[str, str]]:
    return [(action.report.stream.sync, action.report.state) for action in actions if isinstance(action, SendReport)]


def alarms(actions: list[Action]) -> list[str]:
    return [type(action).__name__ for action in actions if isinstance(action, RaiseAlarm | EndAlarm)]


def end(number: int, attempt: int, outcome: Outcome, error: str = "trouble") -> TaskEnd:
    return TaskEnd(StreamId(f"sync{number}", "warehouse"), attempt, outcome, error)


def test_wanted_streams_start_once() -> None:
    host = roster()
    host.wanted([wanted(1), wanted(2)])
    assert starts(host.due(now_s=0)) == [("sync1", 1), ("sync2", 1)]
    assert host.due(now_s=1) == []
    assert host.running == 2


def test_a_stream_beyond_the_slots_is_a_state_that_alarms_until_it_gets_one() -> None:
    host = roster(slots=3)
    host.wanted([wanted(1), wanted(2), wanted(3)])
    actions = host.due(now_s=0)
    assert starts(actions) == [("sync1", 1), ("sync2", 1)]
    assert states(actions) == [("sync3", "no_slot")]
    assert alarms(actions) == ["RaiseAlarm"]
    assert host.due(now_s=1) == []
    host.wanted([wanted(2), wanted(3)])
    host.ended(end(1, 1, Outcome.STOPPED), now_s=2)
    actions = host.due(now_s=2)
    assert starts(actions) == [("sync3", 1)]
    assert states(actions) == [("sync1", "stopped")]
    assert alarms(actions) == ["EndAlarm"]


def test_executors_that_come_late_make_room_and_one_that_is_lost_takes_none() -> None:
    host = roster(slots=2)
    host.wanted([wanted(1), wanted(2), wanted(3)])
    assert states(host.due(now_s=0)) == [("sync2", "no_slot"), ("sync3", "no_slot")]
    assert host.offered(4)
    actions = host.due(now_s=1)
    assert starts(actions) == [("sync2", 1), ("sync3", 1)]
    assert alarms(actions) == ["EndAlarm", "EndAlarm"]
    assert not host.offered(2) and not host.offered(4)
    host.ended(end(1, 1, Outcome.LOST), now_s=2)
    assert states(host.due(now_s=2)) == [("sync1", "backing_off")]
    assert starts(host.due(now_s=3)) == [("sync1", 2)]


def test_a_dead_worker_keeps_its_place_before_waiting_streams() -> None:
    host = roster(slots=2)
    host.wanted([wanted(1), wanted(2)])
    host.due(now_s=0)
    host.ended(end(1, 1, Outcome.LOST), now_s=1)
    assert states(host.due(now_s=1)) == [("sync1", "backing_off")]
    assert starts(host.due(now_s=2)) == [("sync1", 2)]


def test_attempts_come_less_and_less_often() -> None:
    host = roster()
    host.wanted([wanted(1)])
    now_s = 0.0
    for attempt, wait_s in enumerate((1, 2, 4, 8, 8, 8), start=1):
        assert starts(host.due(now_s=now_s)) == [("sync1", attempt)]
        host.ended(end(1, attempt, Outcome.TRANSIENT), now_s=now_s)
        assert starts(host.due(now_s=now_s + wait_s - 0.5)) == []
        now_s += wait_s


def test_a_healthy_run_makes_the_next_attempt_quick_again() -> None:
    host = roster()
    host.wanted([wanted(1)])
    now_s = 0.0
    for attempt in range(1, 5):
        host.due(now_s=now_s)
        host.ended(end(1, attempt, Outcome.LOST), now_s=now_s)
        now_s += 10
    host.due(now_s=now_s)
    host.ended(end(1, 5, Outcome.LOST), now_s=now_s + 60)
    assert starts(host.due(now_s=now_s + 61)) == [("sync1", 6)]


def test_days_of_failures_keep_a_bounded_wait() -> None:
    assert BackOff(0.5, 60).delay_s(10**6) == 60


def test_a_fenced_stream_is_no_failure_for_good_unless_nobody_starts_it_again_in_time() -> None:
    """An alarm said so of each stream while a run of its own sync published, and was gone within a minute."""
    host = roster()
    assert host.fenced_s == SILENCE_MAX_S, "the task that looks at streams waits as long"
    host.wanted([wanted(1), wanted(2)])
    host.due(now_s=0)
    for number in (1, 2):
        host.ended(end(number, 1, Outcome.FINAL, "Fenced: epoch 4 is over, the ledger's is 5"), now_s=1)
    actions = host.due(now_s=1)
    assert states(actions) == [("sync1", "failed"), ("sync2", "failed")]
    assert [type(one) for one in actions if not isinstance(one, SendReport)] == [GiveUp, GiveUp]
    host.wanted([wanted(1, want_number=2), wanted(2)])
    actions = host.due(now_s=31)
    assert (starts(actions), alarms(actions)) == ([("sync1", 2)], [])
    assert host.due(now_s=60) == []
    assert host.due(now_s=61) == [
        RaiseAlarm(
            "stream_failed",
            "sync2@warehouse",
            "failed: epoch 4 is over, the ledger's is 5. To mend it: start the stream again: `./seamline stream restart"
            " sync2 warehouse`",
        )
    ]
    assert host.due(now_s=62) == []
    host.wanted([wanted(1, want_number=2), wanted(2, want_number=2)])
    assert alarms(host.due(now_s=63)) == ["EndAlarm"]
    host.ended(end(1, 2, Outcome.FINAL, "Fenced: epoch 5 is over, the ledger's is 6"), now_s=99)
    assert alarms(host.due(now_s=99)) == [], "each time again"


def test_a_stream_that_ended_for_good_stays_down_until_it_is_wanted_again() -> None:
    host = roster()
    host.wanted([wanted(1)])
    host.due(now_s=0)
    host.ended(end(1, 1, Outcome.FINAL, "Diverged: a row is missing"), now_s=1)
    actions = host.due(now_s=1)
    assert states(actions) == [("sync1", "failed")]
    assert alarms(actions) == ["RaiseAlarm"]
    host.wanted([wanted(1)])
    assert host.due(now_s=10_000) == []
    host.wanted([wanted(1, want_number=2)])
    actions = host.due(now_s=10_001)
    assert starts(actions) == [("sync1", 2)]
    assert alarms(actions) == ["EndAlarm"]


def test_an_alarm_about_a_stream_ends_when_nobody_wants_the_stream_any_more() -> None:
    host = roster(slots=2)
    host.wanted([wanted(1), wanted(2), wanted(3)])
    host.due(now_s=0)
    host.ended(end(1, 1, Outcome.FINAL, "fenced by epoch 7"), now_s=1)
    raised = host.due(now_s=1)
    assert "RaiseAlarm" in alarms(raised)
    host.wanted([wanted(2)])
    assert set(alarms(host.due(now_s=2))) == {"EndAlarm"}


def test_a_want_that_came_before_the_fencing_was_noticed_starts_the_stream_again() -> None:
    host = roster()
    host.wanted([wanted(1)])
    host.due(now_s=0)
    host.wanted([wanted(1, want_number=2)])
    host.ended(end(1, 1, Outcome.FINAL), now_s=30)
    assert starts(host.due(now_s=30)) == [("sync1", 2)]


def test_a_host_that_starts_later_leaves_a_stream_down_that_had_ended_for_good() -> None:
    earlier = roster()
    earlier.wanted([wanted(1, want_number=3)])
    earlier.due(now_s=0)
    earlier.ended(end(1, 1, Outcome.FINAL, "fenced by epoch 7"), now_s=1)
    [kept] = [action for action in earlier.due(now_s=1) if isinstance(action, GiveUp)]
    assert (kept.want_number, kept.error) == (3, "fenced by epoch 7")
    known = replace(wanted(1, want_number=3), final_want=3, final_error="fenced by epoch 7")
    later = roster()
    later.wanted([known])
    actions = later.due(now_s=0)
    assert starts(actions) == []
    assert states(actions) == [("sync1", "failed")]
    later.wanted([replace(known, want_number=4)])
    assert starts(later.due(now_s=1)) == [("sync1", 1)]


def test_a_stream_that_reports_nothing_for_long_is_replaced() -> None:
    host = roster()
    host.wanted([wanted(1), wanted(2)])
    host.due(now_s=0)
    mute, talker = StreamId("sync1", "warehouse"), StreamId("sync2", "warehouse")
    host.heard_from([talker], now_s=40)
    assert host.due(now_s=40) == []
    host.heard_from([talker, StreamId("unknown", "warehouse")], now_s=61)
    assert host.due(now_s=61) == [Cancel(mute, 1)]
    host.heard_from([talker], now_s=62)
    assert host.due(now_s=62) == []
    host.ended(end(1, 1, Outcome.LOST, "cancelled"), now_s=65)
    assert starts(host.due(now_s=67)) == [("sync1", 2)]


def test_a_stream_that_failed_for_good_gives_its_slot_away() -> None:
    host = roster(slots=2)
    host.wanted([wanted(1), wanted(2)])
    host.due(now_s=0)
    host.ended(end(1, 1, Outcome.FINAL), now_s=1)
    assert starts(host.due(now_s=1)) == [("sync2", 1)]


def test_an_unwanted_stream_is_cancelled_only_when_it_does_not_stop_by_itself() -> None:
    host = roster()
    host.wanted([wanted(1), wanted(2)])
    host.due(now_s=0)
    host.wanted([])
    assert host.due(now_s=1) == []
    host.ended(end(1, 1, Outcome.STOPPED, ""), now_s=2)
    assert states(host.due(now_s=2)) == [("sync1", "stopped")]
    assert host.due(now_s=11) == [Cancel(StreamId("sync2", "warehouse"), 1)]
    assert host.due(now_s=12) == []
    host.ended(end(2, 1, Outcome.LOST, "job cancelled"), now_s=13)
    assert states(host.due(now_s=13)) == [("sync2", "stopped")]
    assert host.running == 0


def test_a_changed_plan_lets_the_stream_stop_and_start_by_the_new_one() -> None:
    host = roster()
    host.wanted([wanted(1)])
    host.due(now_s=0)
    host.wanted([wanted(1, plan_json="other", want_number=2)])
    assert host.due(now_s=100) == []
    host.ended(end(1, 1, Outcome.STOPPED, ""), now_s=101)
    actions = host.due(now_s=101)
    assert [action.wanted.plan_json for action in actions if isinstance(action, Start)] == ["other"]


def test_a_new_want_with_the_same_plan_leaves_a_running_stream_alone() -> None:
    host = roster()
    host.wanted([wanted(1)])
    host.due(now_s=0)
    host.wanted([wanted(1, want_number=2)])
    assert host.due(now_s=1) == []
    assert host.due(now_s=100) == []


def test_a_task_that_ends_as_asked_at_once_does_not_spin() -> None:
    host = roster()
    host.wanted([wanted(1)])
    host.due(now_s=0)
    host.ended(end(1, 1, Outcome.STOPPED, ""), now_s=0.1)
    assert host.due(now_s=0.2) == []
    assert starts(host.due(now_s=1.2)) == [("sync1", 2)]


def test_the_end_of_an_older_attempt_changes_nothing() -> None:
    host = roster()
    host.wanted([wanted(1)])
    host.due(now_s=0)
    host.ended(end(1, 1, Outcome.LOST), now_s=1)
    host.due(now_s=5)
    host.ended(end(1, 1, Outcome.FINAL), now_s=6)
    assert host.running == 1


def test_a_host_whose_lease_has_run_out_starts_nothing_until_it_is_renewed() -> None:
    host = roster()
    host.wanted([wanted(1), wanted(2)])
    host.due(now_s=0, lease_until_s=15)
    host.ended(end(1, 1, Outcome.LOST), now_s=13)
    assert states(host.due(now_s=13, lease_until_s=15)) == [("sync1", "backing_off")]
    assert host.due(now_s=15, lease_until_s=15) == []
    assert host.running == 1
    assert starts(host.due(now_s=16, lease_until_s=31)) == [("sync1", 2)]


def test_a_stopping_host_starts_nothing_and_cancels_what_stays() -> None:
    host = roster(slots=3)
    host.wanted([wanted(1), wanted(2), wanted(3)])
    host.due(now_s=0)
    host.stop_all()
    host.due(now_s=1)
    host.ended(end(1, 1, Outcome.STOPPED, ""), now_s=2)
    assert starts(host.due(now_s=3)) == []
    assert host.due(now_s=11) == [Cancel(StreamId("sync2", "warehouse"), 1)]
    host.ended(end(2, 1, Outcome.LOST), now_s=12)
    host.due(now_s=12)
    assert host.running == 0


# ---- streams without a worker ---------------------------------------------------------------------------------------


def gone_idle(host: StreamRoster, number: int = 1, attempt: int = 1, *, now_s: float = 10) -> None:
    host.ended(TaskEnd(StreamId(f"sync{number}", "warehouse"), attempt, Outcome.IDLE, "", 70), now_s=now_s)


def idle_host() -> StreamRoster:
    host = roster(slots=2)
    host.wanted([wanted(1), wanted(2)])
    host.due(now_s=0)
    gone_idle(host)
    return host


def test_an_idle_stream_gets_no_worker_and_keeps_its_slot() -> None:
    host = idle_host()
    assert host.due(now_s=100) == []
    assert host.running == 0
    assert [(idle.wanted.stream.sync, idle.next_offset) for idle in host.idle] == [("sync1", 70)]


def test_an_idle_stream_starts_at_once_when_it_is_woken() -> None:
    host = idle_host()
    host.woken(StreamId("sync1", "warehouse"))
    assert starts(host.due(now_s=11)) == [("sync1", 2)]
    assert host.idle == ()


def test_an_idle_stream_starts_for_whatever_is_asked_of_it() -> None:
    for asked in (
        replace(wanted(1), held=True),
        replace(wanted(1), paused=True),
        wanted(1, want_number=2),
        wanted(1, plan_json="other", want_number=2),
    ):
        host = idle_host()
        host.wanted([asked, wanted(2)])
        assert starts(host.due(now_s=11)) == [("sync1", 2)], asked


def test_what_is_asked_while_a_stream_goes_idle_is_not_missed() -> None:
    host = roster(slots=2)
    host.wanted([wanted(1)])
    host.due(now_s=0)
    host.wanted([replace(wanted(1), held=True)])
    gone_idle(host)
    assert starts(host.due(now_s=11)) == [("sync1", 2)]


def test_a_stream_that_was_held_goes_idle_once_it_is_let_go() -> None:
    host = roster(slots=2)
    host.wanted([replace(wanted(1), held=True)])
    host.due(now_s=0)
    host.wanted([wanted(1, want_number=2)])
    gone_idle(host)
    assert host.due(now_s=11) == []
    assert len(host.idle) == 1


def test_an_idle_stream_that_is_wanted_no_more_is_stopped() -> None:
    host = idle_host()
    host.wanted([wanted(2)])
    actions = host.due(now_s=11)
    assert states(actions) == [("sync1", "stopped")]
    assert starts(actions) == [("sync2", 1)], "its slot is free"
    assert host.idle == ()


def test_a_stopping_host_has_nobody_to_listen_for() -> None:
    host = idle_host()
    host.stop_all()
    assert host.idle == ()
    assert ("sync1", "stopped") in states(host.due(now_s=11))
