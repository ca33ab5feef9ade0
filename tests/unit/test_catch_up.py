"""A stream that will not catch up before its log ends is said in time, and so is that reading again is faster."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from seamline.domain.catch_up import CatchUp, LastLoad, RunningLoad
from seamline.domain.ledger import StreamId
from seamline.domain.load_progress import LoadSoFar
from seamline.domain.log_fill import GIB, Follower, LogFill, LogLimits
from seamline.domain.source_backlog import SourceBacklog
from seamline.sync.catch_up_watch import CATCH_UP, CatchUpWatch
from seamline.sync.flow_control import PAUSED_AT, Level
from seamline.sync.stream_host import EndAlarm, RaiseAlarm
from tests.unit.test_source_watch import PLAN, World, run

STREAM, OTHER = StreamId("settlement", "warehouse"), StreamId("settlement", "reporting")
# A record takes a KiB.
LIMITS = LogLimits(max_gb=10)


def seen(
    *, applied: int, come: int, behind: int, load: LastLoad | None = None, backlog: SourceBacklog | None = None
) -> list[RaiseAlarm | EndAlarm]:
    """What is said after two minutes at this pace, records a second, with so many before the stream at the end."""
    watch, found = CatchUpWatch("bank", lambda _: load, lambda _: ()), []
    for second in range(0, 121, 10):
        ends = 9_000_000 + come * second
        fill = LogFill(0, ends, ends * 1024)
        at = 9_000_000 + come * 120 - behind - applied * (120 - second)
        found = watch.seen(fill, [Follower(STREAM, at), Follower(OTHER, ends)], LIMITS, backlog, now_s=float(second))
    return found


def said(found: Sequence[RaiseAlarm | EndAlarm]) -> str:
    (alarm,) = found
    assert isinstance(alarm, RaiseAlarm)
    assert (alarm.kind, alarm.subject) == (CATCH_UP, "bank")
    return alarm.message


def test_a_forecast_is_what_is_left_by_what_is_gained() -> None:
    assert CatchUp(1_000, 30.0, 20.0).ends_in_s == 100
    assert CatchUp(1_000, 20.0, 20.0).ends_in_s == float("inf")
    assert CatchUp(0, 0.0, 20.0).ends_in_s == 0
    assert CatchUp(1_000, 30.0, 20.0, log_full_in_s=60, source_keeps_s=3600).expires_in_s == 3660
    assert CatchUp(20_000, 30.0, 20.0, log_full_in_s=900).makes_it is False
    assert CatchUp(20_000, 30.0, 20.0, log_full_in_s=100_000).makes_it is True


def test_with_a_full_log_the_source_says_whether_a_stream_makes_it() -> None:
    """2,000 s of work lie before it, and nothing comes."""
    for keeps_s, makes_it in ((None, False), (1_999.0, False), (2_000.0, True)):
        assert CatchUp(20_000, 10.0, 0.0, log_full_in_s=0, source_keeps_s=keeps_s).makes_it is makes_it


def test_a_stream_that_keeps_pace_has_a_little_before_it_and_is_not_behind() -> None:
    assert CatchUp(500, 1_000.0, 1_001.0, log_full_in_s=60).makes_it
    assert CatchUp(3, 0.0, 0.1, log_full_in_s=0).makes_it, "heartbeats alone come"
    assert not CatchUp(500, 1_000.0, 1_001.0).is_slower_than(LastLoad(1, 0.1))


def test_a_stream_that_falls_back_is_said_with_when_the_log_is_full_and_what_is_lost_when() -> None:
    found = said(seen(applied=100, come=500, behind=2_000_000, backlog=SourceBacklog(0, None, 7200.0)))
    assert found.startswith("will not make it: stream settlement@warehouse has 2,000,000 records before it")
    assert "applies 100 a second while 500 come, and is never through so" in found
    assert "the log is full in about 37 min: from then on the capture stands still" in found
    assert "the source deletes what was not read in about 2 h 37 min from now" in found


def test_the_nearer_limit_of_the_source_counts() -> None:
    slot = SourceBacklog(0, 500 * 1024 * 60, None)
    assert "in about 38 min from now" in said(seen(applied=100, come=500, behind=2_000_000, backlog=slot))


@pytest.mark.parametrize(("room_min", "is_said"), [(60, True), (600, False)])
def test_the_alarm_stays_while_the_log_is_full_by_what_the_source_still_keeps(*, room_min: int, is_said: bool) -> None:
    """500 records of a KiB came in a second until the capture stood; the stream has three hours and more before it."""
    watch, limits = CatchUpWatch("bank", lambda _: None, lambda _: ()), LogLimits(max_gb=1)
    backlog = SourceBacklog(0, room_min * 60 * 500 * 1024, None)
    ends = int(0.9 * GIB) // 1024
    for second in range(0, 1201, 10):
        level = Level.FREE if second <= 120 else Level.PAUSED
        ends += 5_000 if second <= 120 else 0
        # Room of a pause that has not ended is no room: 1 KiB is free here and nothing comes.
        fill = LogFill(0, ends, min(ends * 1024, int(PAUSED_AT * GIB) - 1024))
        found = watch.seen(fill, [Follower(STREAM, 60 * second)], limits, backlog, now_s=float(second), level=level)
        assert second < 60 or second > 130 or found, "it is late while the log fills"
    if not is_said:
        assert found == []
        return
    text = said(found)
    assert "the log is full: the capture stands still, and the source deletes what was not read in about 1 h" in text


def test_a_load_that_ends_after_the_source_has_deleted_its_log_is_said_while_the_capture_stands() -> None:
    load = RunningLoad("settlement", "onboard 7", 600.0, LastLoad(9_000_000, 5_400.0))
    for keeps_s, is_said in ((4_000.0, True), (5_000.0, False)):
        watch = CatchUpWatch("bank", lambda _: None, lambda _: [load])
        for second in range(0, 121, 10):
            found = watch.seen(
                LogFill(0, 100, GIB), [], LogLimits(max_gb=1), SourceBacklog(0, None, keeps_s), now_s=float(second)
            )
        assert bool(found) is is_said
        assert not is_said or "it needs all since it began, is full: the capture stands still" in said(found)


def test_a_stream_that_is_through_in_time_is_no_alarm_and_ends_one_of_an_earlier_watch_once() -> None:
    watch = CatchUpWatch("bank", lambda _: None, lambda _: ())
    fill = LogFill(0, 1_000, 1_000 * 1024)
    looks = [
        watch.seen(fill, [Follower(STREAM, 10 * number)], LIMITS, None, now_s=10.0 * number) for number in range(9)
    ]
    assert looks[0] == [EndAlarm(CATCH_UP, "bank")]
    assert looks[1:] == [[]] * 8


@pytest.mark.parametrize(("seconds", "is_said"), [(900.0, True), (3_000.0, False)])
def test_reading_again_is_offered_where_it_is_clearly_faster(*, seconds: float, is_said: bool) -> None:
    found = seen(applied=900, come=500, behind=1_800_000, load=LastLoad(9_000_000, seconds))
    text = said(found)
    offer = "reading again is cheaper: the last load of all tables took 15 min (9,000,000 rows, 10,000 a second). Run"
    assert (f"{offer} `settlement__onboard` and name warehouse under Destinations to load" in text) is is_said


def test_only_the_slowest_stream_is_held_against_the_end_of_the_log() -> None:
    watch, limits = CatchUpWatch("bank", lambda _: None, lambda _: ()), LogLimits(max_gb=1)
    for second in range(0, 121, 10):
        fill = LogFill(0, 900_000 + 500 * second, int(0.9 * GIB))
        pair = [Follower(STREAM, second), Follower(OTHER, 100_000 + second)]
        found = watch.seen(fill, pair, limits, None, now_s=float(second))
    assert "settlement@reporting" not in said(found)


def test_of_a_stream_that_has_ended_nothing_is_forecast() -> None:
    """Found by a newcomer: an alarm about its pace, beside the one about its end, with another cure."""
    for has_ended, is_said in ((False, True), (True, False)):
        watch = CatchUpWatch("bank", lambda _: LastLoad(1_000, 1.0), lambda _: ())
        for second in range(0, 121, 10):
            ends = 9_000_000 + 1_000 * second
            slow = Follower(STREAM, 0, has_ended=has_ended)
            found = watch.seen(LogFill(0, ends, ends * 1024), [slow], LIMITS, None, now_s=float(second))
        assert any(isinstance(one, RaiseAlarm) for one in found) is is_said


@pytest.mark.parametrize(("for_s", "is_said"), [(600.0, True), (4_000.0, False), (9_000.0, False)])
def test_a_load_that_ends_after_the_log_is_full_is_said_while_it_runs(*, for_s: float, is_said: bool) -> None:
    load = RunningLoad("settlement", "onboard 7", for_s, LastLoad(9_000_000, 5_400.0))
    watch = CatchUpWatch("bank", lambda _: None, lambda _: [load])
    for second in range(0, 121, 10):
        ends = 9_000_000 + 500 * second
        found = watch.seen(LogFill(0, ends, ends * 1024), [], LIMITS, None, now_s=float(second))
    if not is_said:
        assert not found
        return
    assert said(found) == (
        "will not make it: the load of settlement (run onboard 7) goes on for 10 min, the last one took 1 h 30 min"
        " (9,000,000 rows), so it has about 1 h 20 min left; the log, of which it needs all since it began, is full in"
        " about 37 min: from then on the capture stands still"
    )


@pytest.mark.parametrize(
    ("so_far", "is_said"),
    [
        (LoadSoFar(1_000_000, 10_000_000, 0, 1, 600.0), True),
        (LoadSoFar(500_000, 10_000_000, 0, 1, 50.0 * 6), True),
        (LoadSoFar(499_999, 10_000_000, 0, 1, 59.0), False),
        (LoadSoFar(9_000_000, 10_000_000, 0, 1, 900.0), False),
        (LoadSoFar(0, 10_000_000, 0, 1, 900.0), False),
        (LoadSoFar(2_000_000, 10_000_000, 2_000_000, 1, 900.0), False),
        (LoadSoFar(2_000_000, 0, 0, 1, 900.0), False),
        (None, False),
    ],
)
def test_the_first_load_of_a_sync_is_held_against_the_end_of_the_log_by_its_own_pace(
    *, so_far: LoadSoFar | None, is_said: bool
) -> None:
    """From 5 % or a minute on; what an earlier attempt has read says nothing of the pace."""
    load = RunningLoad("settlement", "onboard 1", 700.0, None, so_far)
    watch = CatchUpWatch("bank", lambda _: None, lambda _: [load])
    for second in range(0, 121, 10):
        ends = 9_000_000 + 500 * second
        found = watch.seen(LogFill(0, ends, ends * 1024), [], LIMITS, None, now_s=float(second))
    assert bool(found) is is_said
    if so_far is not None and so_far.rows == 1_000_000:
        assert said(found) == (
            "will not make it: the load of settlement (run onboard 1) goes on for 12 min and has read"
            " 1,000,000 of about 10,000,000 rows, so by its own pace it has about 1 h 29 min left; the log, of which it"
            " needs all since it began, is full in about 37 min: from then on the capture stands still"
        )


def test_a_load_that_says_nothing_new_any_more_is_not_forecast_by_what_it_said_last() -> None:
    load = RunningLoad("settlement", "killed", 700.0, None, LoadSoFar(1_000_000, 10_000_000, 0, 1, 600.0))
    watch = CatchUpWatch("bank", lambda _: None, lambda _: [load])
    spoke = []
    for second in range(0, 301, 10):
        ends = 9_000_000 + 500 * second
        spoke += [second] if watch.seen(LogFill(0, ends, ends * 1024), [], LIMITS, None, now_s=float(second)) else []
    # The first look ends what an earlier watch has left; the last one ends the alarm.
    assert [second for second in spoke if second > 0] == [*range(60, 181, 10), 190]


def test_a_load_longer_than_the_one_before_is_forecast_by_its_own_pace() -> None:
    so_far = LoadSoFar(1_000_000, 10_000_000, 0, 1, 600.0)
    load = RunningLoad("settlement", "onboard 2", 700.0, LastLoad(9, 600.0), so_far)
    assert load.ends_in_s() == 5_400
    assert replace(load, before=LastLoad(9, 900.0)).ends_in_s() == 200


def test_what_the_log_keeps_for_each_stream_is_known_with_when_it_ends() -> None:
    """500 records of a KiB come in a second; the limit is 10 GiB, of which 8.6 are full at the last look."""
    load, watch = LastLoad(9_000_000, 900.0), None
    for backlog in (None, SourceBacklog(0, None, None), SourceBacklog(0, 500 * 1024 * 60, None)):
        watch = CatchUpWatch("bank", lambda _: load, lambda _: ())
        for second in range(0, 121, 10):
            ends = 9_000_000 + 500 * second
            stands, goes_on = Follower(STREAM, 6_000_000, 6.0), Follower(OTHER, ends)
            watch.seen(LogFill(0, ends, ends * 1024), [stands, goes_on], LIMITS, backlog, now_s=float(second))
            if not second:
                assert watch.kept[STREAM].grows_per_s is None
        kept = watch.kept[STREAM]
        assert (kept.size_bytes, kept.grows_per_s) == (3_060_000 * 1024, 500 * 1024)
        assert kept.full_in_s == pytest.approx(2_222, abs=1)
        assert kept.cut_off_in_s == pytest.approx((6 * GIB - 3_060_000 * 1024) / (500 * 1024))
        assert kept.load == load and watch.kept[OTHER].load is None
        assert kept.has_source_limit == (None if backlog is None else backlog.room_bytes is not None)
        assert (kept.source_in_s is None) == (not kept.has_source_limit)
    assert watch is not None and watch.kept[STREAM].source_in_s == pytest.approx(2_282, abs=1)


def test_the_declared_limit_of_the_sources_own_log_is_an_end_too_and_the_nearer_one_is_named() -> None:
    """The forecast named no limit, or a later one, and the capture was given up before it."""
    comes = 500 * 1024
    for server_s, end in ((None, "given up in about 39 min"), (600, "given up in about 39 min"), (60, "not read in")):
        room = None if server_s is None else comes * server_s
        backlog = SourceBacklog(GIB, room, None)
        # 120 s of what comes are left of what the capture may let the source keep.
        limit = (GIB + comes * 120) / GIB
        watch = CatchUpWatch("bank", lambda _: None, lambda _: (), limit)
        for second in range(0, 121, 10):
            ends = 9_000_000 + 500 * second
            fill = LogFill(0, ends, ends * 1024)
            found = watch.seen(fill, [Follower(STREAM, 6_000_000)], LIMITS, backlog, now_s=float(second))
        kept = watch.kept[STREAM]
        assert kept.given_up_in_s == pytest.approx(2_222 + 120, abs=1)
        assert end in said(found) and ("log.source_backlog_max_gb" in said(found)) is ("given" in end)
    plain = CatchUpWatch("bank", lambda _: None, lambda _: ())
    plain.seen(fill, [Follower(STREAM, 6_000_000)], LIMITS, backlog, now_s=0.0)
    assert plain.kept[STREAM].given_up_in_s is None
    assert CatchUp(20_000, 10.0, 0.0, log_full_in_s=0, given_up_after_s=1_999.0).makes_it is False
    assert CatchUp(20_000, 10.0, 0.0, log_full_in_s=0, given_up_after_s=2_000.0).makes_it is True


def test_a_disk_that_is_full_before_the_declared_limit_is_the_end_of_the_log() -> None:
    watch = CatchUpWatch("bank", lambda _: None, lambda _: ())
    for second in range(0, 121, 10):
        ends = 9_000_000 + 500 * second
        # 0.97 of log and disk is the log's end: it has 60 s left at the last look.
        free = int(500 * 1024 * 60 / 0.97 + ends * 1024 * 0.03 / 0.97)
        fill = LogFill(0, ends, ends * 1024, free)
        found = watch.seen(fill, [Follower(STREAM, 6_000_000)], LogLimits(max_gb=500), None, now_s=float(second))
    assert watch.kept[STREAM].is_disk and watch.kept[STREAM].full_in_s == pytest.approx(60, abs=1)
    assert "will not make it" in said(found) and "the log is full in about 60 s" in said(found)
    assert said(found).endswith("GiB free, and `log.max_gb` would let it take more")


class KeepingWorld(World):
    def backlog(self, place: Mapping[str, object]) -> SourceBacklog:
        return SourceBacklog(GIB)

    def let_go(self) -> None:
        raise AssertionError("its limit is not reached")


def test_the_watch_of_a_source_raises_it_and_ends_it() -> None:
    world = KeepingWorld(ends=9_000_000, size=9_000_000 * 1024, max_gb=10, followers=(Follower(STREAM, 0),))
    watch = world.watch(replace(PLAN, source_backlog_max_gb=50.0))
    for minute in range(3):
        world.ends, world.size = world.ends + 60_000, world.size + 60_000 * 1024
        run(watch, from_s=60 * minute, to_s=60 * minute + 60)
    assert "will not make it: stream settlement@warehouse" in world.alarms[CATCH_UP]
    assert world.kept[STREAM].size_bytes > 9_000_000 * 1024
    assert world.kept[STREAM].given_up_in_s is not None, "by the plan of the source"
    # What cannot be written down loses no end of an alarm, which is said once.
    world.followers, world.kept_is_lost = (), True
    run(watch, from_s=180, to_s=200)
    assert CATCH_UP not in world.alarms
