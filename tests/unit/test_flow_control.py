"""The slowest destination and a full log slow a capture down; neither ends what it needs to go on."""

from dataclasses import replace

import pytest

from seamline.domain.capture_status import CaptureState
from seamline.domain.errors import ConfigError
from seamline.domain.ledger import StreamId
from seamline.domain.log_fill import GIB, Follower, LogFill, LogLimits
from seamline.sync.flow_control import CAPTURE_PAUSED, CAPTURE_SLOWED, RATE_MIN, FlowControl, Level
from tests.unit.test_source_watch import World, run

FAST, SLOW = StreamId("settlement", "warehouse"), StreamId("settlement", "reporting")
# A GiB of the log has 1,024 records.
LIMITS = LogLimits(max_gb=100, behind_max_gb=1)


def filled(gib: float, *, begins: int = 0) -> LogFill:
    return LogFill(begins, begins + int(gib * 1024), int(gib * GIB))


def levels(*looks: tuple[LogFill, int]) -> list[Level]:
    control = FlowControl("bank")
    return [
        control.seen(fill, [Follower(FAST, fill.ends), Follower(SLOW, at)], LIMITS, now_s=10.0 * number).level
        for number, (fill, at) in enumerate(looks)
    ]


def test_a_destination_that_is_far_behind_slows_the_capture_until_it_has_caught_up() -> None:
    ten = filled(10)
    behind = [0.9, 1.0, 0.8, 0.71, 0.69, 0.9]
    assert levels(*((ten, int(10 * 1024 - share * 1024)) for share in behind)) == [0, 1, 1, 1, 0, 0]


def test_a_capture_is_never_paused_because_a_destination_is_behind() -> None:
    """What is before it may be one transaction, whose end has yet to come."""
    assert levels((filled(50), 0), (filled(80), 0)) == [Level.SLOWED, Level.SLOWED]


def test_a_log_that_is_nearly_full_pauses_the_capture_before_its_limit_stops_it() -> None:
    shares = [89, 90, 96, 97, 94, 92, 86, 84]
    assert levels(*((filled(share), share * 1024) for share in shares)) == [0, 1, 1, 2, 2, 1, 1, 0]


def test_a_disk_that_is_nearly_full_slows_and_pauses_the_capture_long_before_the_declared_limit() -> None:
    """The log has 9 GiB of its 100; what is free goes down and comes back."""
    nine = filled(9)
    free = [None, 91.0, 1.1, 1.0, 0.3, 0.25, 0.6, 1.0, 2.0]
    looks = [(replace(nine, free_bytes=None if one is None else int(one * GIB)), 9 * 1024) for one in free]
    assert levels(*looks) == [0, 0, 0, 1, 1, 2, 2, 1, 0]
    flow = FlowControl("bank").seen(looks[5][0], [], LIMITS, now_s=0.0)
    assert "97 % of what its broker's disk has room for, of which 0.25 GiB are free" in flow.why
    assert flow.bytes_per_s == pytest.approx(0.25 * GIB / 3600, rel=0.01)


def test_the_capture_gets_most_of_what_its_slowest_destination_applies() -> None:
    control = FlowControl("bank")
    for second in range(0, 61, 10):
        flow = control.seen(filled(10), [Follower(SLOW, 2 * second)], LIMITS, now_s=float(second))
    assert flow.bytes_per_s == pytest.approx(0.8 * 2 * GIB / 1024, rel=0.05)
    assert "settlement@reporting has 9.88 GiB of the log of bank before it" in flow.why


def test_a_destination_that_stands_still_leaves_the_heartbeats_their_rate() -> None:
    control = FlowControl("bank")
    for second in (0.0, 10.0):
        flow = control.seen(filled(10), [Follower(SLOW, 7)], LIMITS, now_s=second)
    assert flow.bytes_per_s == RATE_MIN


def test_what_a_destination_can_no_longer_get_does_not_count() -> None:
    """Pruning let go of it: the capture cannot help that stream."""
    fill = filled(0.5, begins=100_000)
    assert fill.behind_bytes(3) == fill.size_bytes


def test_only_a_destination_that_is_declared_so_is_cut_off_and_it_is_named() -> None:
    streams = [Follower(FAST, 0), Follower(SLOW, 0, cut_off_gb=2)]
    assert FlowControl("bank").cut_off(filled(1.9), streams) == ()
    (one,) = FlowControl("bank").cut_off(filled(2), streams)
    assert one.stream == SLOW
    assert "settlement@reporting has 2.00 GiB" in one.reason
    assert "settlement__onboard" in one.reason


def test_the_watch_slows_a_capture_down_and_lets_it_go() -> None:
    world = World(max_gb=100, size=90 * GIB, followers=(Follower(FAST, 0),))
    watch = world.watch()
    run(watch, from_s=0, to_s=31)
    assert world.rates == [RATE_MIN]
    assert "settlement@warehouse has 90.00 GiB" in world.alarms[CAPTURE_SLOWED]
    world.followers, world.size = (Follower(FAST, 1000),), 80 * GIB
    run(watch, from_s=31, to_s=61)
    assert world.rates == [RATE_MIN, None]
    assert CAPTURE_SLOWED not in world.alarms


def test_the_watch_pauses_a_capture_whose_log_is_nearly_full_and_lets_it_go_on() -> None:
    world = World(max_gb=100, size=98 * GIB)
    watch = world.watch()
    run(watch, from_s=0, to_s=4)
    assert world.state is CaptureState.PAUSED
    assert "98 % of its limit of 100 GiB" in world.alarms[CAPTURE_PAUSED]
    assert world.stops == 0
    world.size = 50 * GIB
    run(watch, from_s=4, to_s=31)
    assert world.state is CaptureState.RUNNING
    assert CAPTURE_PAUSED not in world.alarms


def test_a_quota_and_a_pause_that_another_host_has_left_are_ended_at_the_first_look() -> None:
    world = World(max_gb=100, size=GIB, state=CaptureState.PAUSED, alarms={CAPTURE_PAUSED: "of another host"})
    run(world.watch(), from_s=0, to_s=4)
    assert (world.rates, world.state) == ([None], CaptureState.RUNNING)
    assert CAPTURE_PAUSED not in world.alarms


def test_a_destination_that_is_cut_off_no_longer_slows_the_capture() -> None:
    world = World(max_gb=100, size=85 * GIB, followers=(Follower(FAST, 1000), Follower(SLOW, 0, cut_off_gb=10)))
    run(world.watch(), from_s=0, to_s=4)
    assert [reason.split()[0] for reason in world.cuts] == [str(SLOW)]
    assert world.rates == [None]


def test_a_broker_that_sets_no_quotas_is_named_with_the_grant_that_it_takes() -> None:
    class Refusing(World):
        def slow_down(self, bytes_per_s: int | None) -> None:
            raise ConfigError("the login may not set the quota", hint="grant it ALTER_CONFIGS")

    world = Refusing(max_gb=100, size=91 * GIB)
    run(world.watch(), from_s=0, to_s=4)
    assert "grant it ALTER_CONFIGS" in world.alarms[CAPTURE_SLOWED]
