"""A failed capture is restarted with patience; a log at its limit stops growing and says so."""

import pytest

from seamline.domain.capture_status import CaptureState, CaptureStatus
from seamline.sync.capture_watch import (
    CAPTURE_FAILED,
    CAPTURE_STOPPED,
    CAPTURE_UNREACHABLE,
    LOG_SIZE,
    Action,
    CaptureWatch,
    Step,
)
from seamline.sync.stream_host import BackOff, EndAlarm, RaiseAlarm

FAILED = CaptureStatus(CaptureState.FAILED, "lost its source")
RUNNING = CaptureStatus(CaptureState.RUNNING)
GIB = 1 << 30


def watch() -> CaptureWatch:
    """One that knows that no alarm is open."""
    watched = CaptureWatch("core_bank", "seamline-core_bank", log_max_gb=10, back_off=BackOff(5, 20, 60))
    watched._is_open = dict.fromkeys((CAPTURE_FAILED, CAPTURE_STOPPED, CAPTURE_UNREACHABLE, LOG_SIZE), False)  # noqa: SLF001
    return watched


def kinds(actions: list[Action]) -> list[str]:
    return [
        f"{'+' if isinstance(action, RaiseAlarm) else '-'}{action.kind}"
        for action in actions
        if isinstance(action, RaiseAlarm | EndAlarm)
    ]


def test_a_failed_capture_is_restarted_at_once_then_less_and_less_often() -> None:
    watched = watch()
    restarts = [now_s for now_s in range(0, 80, 5) if Step.RESTART in watched.seen(FAILED, now_s=now_s)]
    assert restarts == [0, 5, 15, 35, 55, 75]


def test_a_capture_that_stays_up_is_restarted_at_once_the_next_time() -> None:
    watched = watch()
    for now_s in (0, 5, 15):
        watched.seen(FAILED, now_s=now_s)
    assert kinds(watched.seen(RUNNING, now_s=20)) == [f"-{CAPTURE_FAILED}"]
    watched.seen(RUNNING, now_s=80)
    assert Step.RESTART in watched.seen(FAILED, now_s=81)


def test_a_failure_alarms_with_its_reason_as_long_as_it_lasts() -> None:
    """Another hand may end the alarm meanwhile: `capture reset`, or the start of another host."""
    watched = watch()
    first = watched.seen(FAILED, now_s=0)
    assert kinds(first) == [f"+{CAPTURE_FAILED}"]
    assert any(isinstance(action, RaiseAlarm) and "lost its source" in action.message for action in first)
    assert kinds(watched.seen(FAILED, now_s=5)) == [f"+{CAPTURE_FAILED}"]
    assert kinds(watched.seen(RUNNING, now_s=10)) == [f"-{CAPTURE_FAILED}"]
    assert kinds(watched.seen(RUNNING, now_s=15)) == []


def test_a_new_watch_ends_what_an_earlier_one_has_left_open() -> None:
    """A changed declaration brings a new watch: the alarm of the old one stayed open for good."""
    watched = CaptureWatch("core_bank", "seamline-core_bank", log_max_gb=10)
    ended = {f"-{kind}" for kind in (CAPTURE_FAILED, CAPTURE_STOPPED, CAPTURE_UNREACHABLE)}
    assert set(kinds(watched.seen(RUNNING, now_s=0))) == ended
    assert kinds(watched.sized(0)) == [f"-{LOG_SIZE}"]
    assert kinds([*watched.seen(RUNNING, now_s=5), *watched.sized(0)]) == []


def test_a_capture_that_is_stopped_has_not_failed_any_more_and_the_other_way_round() -> None:
    watched = watch()
    watched.seen(FAILED, now_s=0)
    stopped = CaptureStatus(CaptureState.STOPPED)
    assert kinds(watched.seen(stopped, now_s=5)) == [f"-{CAPTURE_FAILED}"]
    assert kinds(watched.seen(stopped, now_s=65)) == [f"+{CAPTURE_STOPPED}"]
    assert kinds(watched.seen(FAILED, now_s=70)) == [f"-{CAPTURE_STOPPED}", f"+{CAPTURE_FAILED}"]


def test_a_stopped_capture_is_left_alone() -> None:
    assert watch().seen(CaptureStatus(CaptureState.STOPPED), now_s=0) == []


def test_a_capture_that_stays_stopped_alarms_until_it_runs() -> None:
    watched = watch()
    stopped = CaptureStatus(CaptureState.STOPPED)
    assert kinds(watched.seen(stopped, now_s=0)) == []
    assert kinds(watched.seen(stopped, now_s=61)) == [f"+{CAPTURE_STOPPED}"]
    assert kinds(watched.seen(RUNNING, now_s=70)) == [f"-{CAPTURE_STOPPED}"]


def test_a_missing_connector_alarms_and_is_not_restarted() -> None:
    actions = watch().seen(CaptureStatus(CaptureState.MISSING), now_s=0)
    assert kinds(actions) == [f"+{CAPTURE_FAILED}"]
    assert Step.RESTART not in actions


def test_a_short_silence_of_connect_is_a_restart_of_it_and_no_alarm() -> None:
    watched = watch()
    assert watched.silent("refused", now_s=0) == []
    assert watched.silent("refused", now_s=29) == []
    assert kinds(watched.silent("refused", now_s=30)) == [f"+{CAPTURE_UNREACHABLE}"]
    assert kinds(watched.silent("refused", now_s=35)) == [f"+{CAPTURE_UNREACHABLE}"], "and as long as it lasts"
    assert kinds(watched.seen(RUNNING, now_s=40)) == [f"-{CAPTURE_UNREACHABLE}"]


@pytest.mark.parametrize(
    ("gib", "alarm"), [(4.9, []), (5, [f"+{LOG_SIZE}"]), (8, [f"+{LOG_SIZE}"]), (10, [f"+{LOG_SIZE}"])]
)
def test_the_size_of_the_log_alarms_at_half_and_at_four_fifths(gib: float, alarm: list[str]) -> None:
    assert kinds(watch().sized(int(gib * GIB))) == alarm


def test_at_its_limit_the_capture_is_stopped_and_only_there() -> None:
    watched = watch()
    assert Step.STOP not in watched.sized(10 * GIB - 1)
    assert Step.STOP in watched.sized(10 * GIB)
    assert Step.STOP in watched.sized(10 * GIB)
    assert kinds(watched.sized(GIB)) == [f"-{LOG_SIZE}"]


def test_a_limit_that_was_raised_is_obeyed_before_the_streams_have_the_plan_that_says_so() -> None:
    watched = watch()
    assert Step.STOP in watched.sized(10 * GIB)
    assert kinds(watched.sized(10 * GIB, max_gb=30)) == [f"-{LOG_SIZE}"]
    assert Step.STOP in watched.sized(10 * GIB, max_gb=9)
