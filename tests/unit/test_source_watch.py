"""Heartbeats go on whatever happens to Connect, and the other way round."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from seamline.domain.capture_status import CaptureState, CaptureStatus
from seamline.domain.catch_up import LastLoad, RunningLoad
from seamline.domain.errors import Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.log_fill import Follower, LogFill, LogLimits
from seamline.domain.log_kept import LogKept
from seamline.plan.model import SourcePlan
from seamline.ports import Marker
from seamline.sync.source_watch import SOURCE_UNREACHABLE, Rhythm, SourceWatch, SourceWatchThread
from tests.waiting import wait_until

PLAN = SourcePlan("bank", "mariadb", "bank", "r", "c", "m", "seamline.bank.log", "seamline-bank", log_max_gb=1)


@dataclass
class World:
    """A source, its capture and the alarms, all in one place."""

    markers: list[Marker] = field(default_factory=list)
    source_is_away: bool = False
    connect_is_away: bool = False
    state: CaptureState = CaptureState.RUNNING
    size: int = 0
    max_gb: float | None = None
    restarts: int = 0
    stops: int = 0
    opened: int = 0
    alarms: dict[str, str] = field(default_factory=dict)
    pruned: list[tuple[float, int]] = field(default_factory=list)
    delete_is_refused: bool = False
    ends: int = 1000
    rates: list[int | None] = field(default_factory=list)
    followers: tuple[Follower, ...] = ()
    cuts: list[str] = field(default_factory=list)
    kept: dict[StreamId, LogKept] = field(default_factory=dict)
    kept_is_lost: bool = False

    def commit_marker(self, marker: Marker) -> None:
        if self.source_is_away:
            raise TransientError("the source does not answer")
        self.markers.append(marker)

    def prune_markers(self, *, older_than_s: float, rows_max: int) -> int:
        self.pruned.append((older_than_s, rows_max))
        if self.delete_is_refused:
            raise Refused("DELETE command denied")
        return 0

    def status(self) -> CaptureStatus:
        if self.connect_is_away:
            raise TransientError("Connect does not answer")
        return CaptureStatus(self.state, "reason")

    def restart_failed(self) -> None:
        self.restarts += 1

    def stop(self) -> None:
        self.stops += 1

    def pause(self) -> None:
        self.state = CaptureState.PAUSED

    def resume(self) -> None:
        self.state = CaptureState.RUNNING

    def slow_down(self, bytes_per_s: int | None) -> None:
        self.rates.append(bytes_per_s)

    def place(self) -> dict[str, object]:
        return {}

    def log_limits(self) -> LogLimits | None:
        if self.connect_is_away:
            raise TransientError("Connect does not answer")
        return LogLimits(self.max_gb) if self.max_gb else None

    def log_fill(self) -> LogFill:
        return LogFill(0, self.ends, self.size)

    def of(self, source: str) -> tuple[Follower, ...]:
        return self.followers

    def last_load(self, stream: StreamId) -> LastLoad | None:
        return None

    def running_loads(self, source: str) -> Sequence[RunningLoad]:
        return ()

    def cut_off(self, stream: StreamId, reason: str) -> None:
        self.followers = tuple(one for one in self.followers if one.stream != stream)
        self.cuts.append(reason)

    def note_kept(self, kept: Mapping[StreamId, LogKept]) -> None:
        if self.kept_is_lost:
            raise TransientError("the platform database does not answer")
        self.kept = dict(kept)

    def open(self) -> "World":
        self.opened += 1
        return self

    def raise_alarm(self, kind: str, subject: str, message: str) -> None:
        assert subject == PLAN.name
        self.alarms[kind] = message

    def end_alarm(self, kind: str, subject: str) -> None:
        self.alarms.pop(kind, None)

    def watch(self, plan: SourcePlan = PLAN) -> SourceWatch:
        return SourceWatch(
            plan,
            open_source=self.open,  # type: ignore[arg-type]
            open_probe=self.open,
            alarms=self,
            followers=self,
            rhythm=Rhythm(heartbeat_s=10, status_s=5, size_s=30, silence_s=30),
        )


def run(watch: SourceWatch, *, from_s: int, to_s: int) -> None:
    for now_s in range(from_s, to_s):
        watch.look(now_s=float(now_s))
        watch.beat(now_s=float(now_s))


def test_a_heartbeat_is_committed_every_ten_seconds_each_with_its_own_id() -> None:
    world = World()
    run(world.watch(), from_s=0, to_s=60)
    assert len({marker.id for marker in world.markers}) == 6
    assert {marker.kind for marker in world.markers} == {"heartbeat"}
    assert all(len(marker.id) <= 64 for marker in world.markers)


class Catalogue:
    """A payload source that answers as a test says."""

    def __init__(self) -> None:
        self.is_away = False

    def payload(self, tables: Collection[str]) -> dict[str, Any]:
        if self.is_away:
            raise TransientError("somebody alters a table")
        return {"catalogue": sorted(tables)}


def test_a_heartbeat_says_what_the_catalogue_has_of_the_tables_that_are_carried_and_comes_also_without() -> None:
    world, catalogue = World(), Catalogue()
    watch = SourceWatch(PLAN, open_source=world.open, open_probe=world.open, alarms=world, payload_source=catalogue)  # type: ignore[arg-type]
    for now_s, tables, is_away in ((0, "", False), (10, "ab", False), (20, "ab", True), (30, "a", False)):
        watch.carry(frozenset(tables))
        catalogue.is_away = is_away
        watch.beat(now_s=float(now_s))
    payloads = [marker.payload for marker in world.markers]
    assert payloads == [{}, {"catalogue": ["a", "b"]}, {}, {"catalogue": ["a"]}]
    assert world.alarms == {}


def test_markers_older_than_a_week_are_deleted_a_thousand_each_hour() -> None:
    world = World()
    run(world.watch(), from_s=0, to_s=3601)
    assert world.pruned == [(7 * 24 * 3600, 1000)] * 2


@pytest.mark.parametrize("trouble", [{"state": CaptureState.FAILED}, {"connect_is_away": True}])
def test_no_marker_is_deleted_while_the_log_holds_none(trouble: dict[str, Any]) -> None:
    """The last one that it reported may be of any age then, and the capture asks the source for it."""
    world = World()
    watch = world.watch()
    run(watch, from_s=0, to_s=4)
    assert len(world.pruned) == 1
    for name, value in trouble.items():
        setattr(world, name, value)
    run(watch, from_s=4, to_s=8_000)
    assert len(world.pruned) == 1


def test_a_source_that_refuses_to_delete_markers_still_gets_its_heartbeats() -> None:
    world = World(delete_is_refused=True)
    run(world.watch(), from_s=0, to_s=60)
    assert len(world.markers) == 6
    assert world.alarms == {}


def test_a_source_that_is_away_alarms_after_a_while_and_heals_with_a_new_session() -> None:
    world = World(source_is_away=True)
    watch = world.watch()
    run(watch, from_s=0, to_s=30)
    assert world.alarms == {}
    run(watch, from_s=30, to_s=60)
    assert set(world.alarms) == {SOURCE_UNREACHABLE}
    world.source_is_away = False
    opened = world.opened
    run(watch, from_s=60, to_s=75)
    assert world.alarms == {}
    assert world.opened == opened + 1


def test_a_new_watch_ends_the_alarm_of_the_one_before_and_a_closed_one_says_nothing() -> None:
    world = World(source_is_away=True)
    before = world.watch()
    run(before, from_s=0, to_s=60)
    world.source_is_away = False
    run(world.watch(), from_s=60, to_s=61)
    assert world.alarms == {}
    world.source_is_away = world.connect_is_away = True
    before.close()
    run(before, from_s=61, to_s=200)
    assert world.alarms == {}, "its calls that hang may end late"


def test_heartbeats_go_on_while_connect_is_away() -> None:
    world = World(connect_is_away=True)
    run(world.watch(), from_s=0, to_s=60)
    assert len(world.markers) == 6
    assert set(world.alarms) == {"capture_unreachable"}


def test_a_failed_capture_is_restarted_also_while_a_commit_in_the_source_hangs() -> None:
    """As one does that waits for a standby, or whose server has vanished."""
    answered = threading.Event()

    class Hanging(World):
        def commit_marker(self, marker: Marker) -> None:
            answered.wait(60)

    world = Hanging(state=CaptureState.FAILED)
    thread = SourceWatchThread(world.watch(), name="bank", every_s=0.01)
    try:
        wait_until(lambda: world.restarts, timeout_s=10, what="the restart")
    finally:
        thread.close()
        answered.set()


def test_a_failed_capture_is_restarted() -> None:
    world = World(state=CaptureState.FAILED)
    run(world.watch(), from_s=0, to_s=4)
    assert world.restarts == 1
    assert "reason" in world.alarms["capture_failed"]


def test_the_size_of_the_log_alarms_while_connect_is_away_by_the_last_limit_heard() -> None:
    world = World(size=1 << 30, max_gb=10.0)
    watch = world.watch()
    run(watch, from_s=0, to_s=4)
    assert "log_size" not in world.alarms
    world.connect_is_away, world.size = True, 9 << 30
    run(watch, from_s=4, to_s=40)
    assert "80 % of its limit of 10 GiB" in world.alarms["log_size"]


def test_a_log_at_its_limit_stops_the_capture() -> None:
    world = World(size=1 << 30)
    run(world.watch(), from_s=0, to_s=4)
    assert world.stops == 1
    assert "limit of 1 GiB" in world.alarms["log_size"]
