"""A capture that is behind costs its source a disk: it is said in time, and at the limit the capture is given up."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from seamline.domain.capture_status import CaptureState
from seamline.domain.log_fill import GIB
from seamline.domain.source_backlog import SourceBacklog
from seamline.sync.backlog_watch import SOURCE_BACKLOG, BacklogWatch
from seamline.sync.source_watch import Rhythm, SourceWatch
from seamline.sync.stream_host import EndAlarm, RaiseAlarm
from tests.unit.test_source_watch import PLAN, World, run


def said(*backlogs: SourceBacklog, max_gb: float = 0.0, every_s: float = 60.0) -> list[str]:
    """After each look the open alarm; "" for none."""
    watch = BacklogWatch("bank", max_gb)
    found = []
    for number, backlog in enumerate(backlogs):
        (*_, last) = ["", *watch.seen(backlog, now_s=number * every_s)]
        found.append(last.message if isinstance(last, RaiseAlarm) else "")
    return found


def gib(size: float, *, room: float | None = None) -> SourceBacklog:
    return SourceBacklog(int(size * GIB), None if room is None else int(room * GIB))


def test_what_is_kept_without_any_limit_is_nobodys_alarm() -> None:
    assert said(gib(1), gib(900)) == ["", ""]


def test_half_of_the_limit_is_said_and_the_limit_gives_the_capture_up() -> None:
    quiet, half, over = said(gib(4), gib(5), gib(10), max_gb=10, every_s=3600)
    assert quiet == ""
    assert "keeps 5.00 GiB of its log for the capture of bank; the capture is given up at 10 GiB" in half
    assert "its `log.source_backlog_max_gb` is 10 GiB: the capture is given up" in over
    assert "capture reset bank" in over
    watch = BacklogWatch("bank", 10)
    assert [watch.must_give_up(gib(size)) for size in (9.9, 10)] == [False, True]


def test_a_capture_of_a_binlog_is_given_up_without_its_place_so_a_higher_limit_lets_it_go_on() -> None:
    (over,) = said(replace(gib(10), is_held=False), max_gb=10)
    assert "the capture is given up, and keeps its place" in over
    assert "raise the limit and run `./seamline capture start bank`" in over
    assert "capture reset" not in over


def test_a_server_that_deletes_nothing_of_its_binlog_while_the_capture_is_away_is_named_with_what_its_owner_sets() -> (
    None
):
    """MariaDB 11.4: the disk went on to fill up behind a capture that had been given up to spare it."""
    (over,) = said(replace(gib(10), is_held=False, never_while="x is 1: its owner sets it to 0"), max_gb=10)
    assert "deletes nothing of its log by itself, for x is 1: its owner sets it to 0. To go on: raise" in over
    assert "by age" not in over


def test_a_limit_that_is_reached_within_the_hour_is_said_however_far_it_is() -> None:
    _, soon = said(gib(1), gib(1.2), max_gb=10)
    assert "given up at 10 GiB, in about 44 min as it grows now" in soon


def test_the_servers_own_limit_counts_where_it_is_the_nearer_one() -> None:
    (own,) = said(gib(6, room=2), max_gb=100)
    assert "the server lets go of it at 8.00 GiB by its own limit" in own


def test_a_file_that_the_server_deletes_soon_is_said() -> None:
    day, soon = said(SourceBacklog(GIB, expires_in_s=86_400), SourceBacklog(GIB, expires_in_s=1_200))
    assert day == ""
    assert "the server deletes the oldest of it in 20 min" in soon


def test_a_place_that_the_server_let_go_of_names_the_way_on() -> None:
    (lost,) = said(SourceBacklog(is_lost=True))
    assert "no longer keeps its log" in lost
    assert "capture reset bank" in lost


def test_an_alarm_ends_with_its_cause_also_one_of_an_earlier_watch() -> None:
    watch = BacklogWatch("bank", 10)
    assert watch.seen(gib(1), now_s=0) == [EndAlarm(SOURCE_BACKLOG, "bank")]
    assert watch.seen(gib(1), now_s=10) == []


@dataclass
class KeepingWorld(World):
    kept: SourceBacklog = SourceBacklog()
    let_go_in: list[CaptureState] = field(default_factory=list)

    def backlog(self, place: Mapping[str, object]) -> SourceBacklog:
        return self.kept

    def let_go(self) -> None:
        self.let_go_in.append(self.state)
        self.kept = SourceBacklog(is_lost=True)

    def stop(self) -> None:
        self.stops += 1
        self.state = CaptureState.STOPPED


def test_the_slot_goes_only_once_the_capture_is_stopped_and_the_alarm_stays() -> None:
    world = KeepingWorld(max_gb=100, kept=gib(2))
    plan = replace(PLAN, source_backlog_max_gb=2)
    watch = SourceWatch(plan, open_source=world.open, open_probe=world.open, alarms=world, rhythm=Rhythm())  # type: ignore[arg-type]
    run(watch, from_s=0, to_s=40)
    assert world.stops == 1
    assert world.let_go_in == [CaptureState.STOPPED]
    assert "no longer keeps its log" in world.alarms[SOURCE_BACKLOG]
