from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from seamline.domain.cutover import Boundary
from seamline.domain.errors import Refused, TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import Position
from seamline.ports import Marker, ReadView, StreamReport
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sync.barrier import Barrier, NotAligned, NotComparable, Patience, StreamEnded
from seamline.sync.stream_state import SILENCE_MAX_S
from tests.unit.memory_views import ENTRY, MemoryView, entries

STREAM = StreamId("settlement", "warehouse")


def at(number: int) -> BinlogPosition:
    return BinlogPosition(f"0-1-{number}")


@dataclass
class World:
    """A source, a stream and a destination on one clock; every field is something that may be wrong.

    The source commits one transaction a second; the stream follows unless it is held.
    """

    time: float = 0.0
    sequence: int = 100
    lag_s: float = 0.0
    behind: int = 0
    records_per_s: float = 0.0
    age_s: float = 0.0
    attempts: int = 1
    steps: int = 2
    leases: list[float] = field(default_factory=list)
    extended: list[float] = field(default_factory=list)
    hold_id: str = ""
    held_state: str = "held"
    apply_to: Position | None = None
    applied: int = 97
    applies: bool = True
    overruns: bool = False
    never_holds: bool = False
    error: str = ""
    fails_at_s: float = 1e9
    is_paused: bool = False
    faults: dict[str, Exception] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)
    opened: list[MemoryView] = field(default_factory=list)
    source_positions: list[int] = field(default_factory=list)
    destination_position: int | None = None
    slow_destination_s: float = 0.0
    ledger: LedgerRow | None = field(
        default_factory=lambda: LedgerRow(STREAM, "log", "id", 5, at(97), 1, 1, 1_700_000_000_123)
    )
    on_open: Callable[[], None] = lambda: None

    # clock
    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.sequence += 1
        if not self.hold_id:
            self.applied = self.sequence - 3
        if self.apply_to is not None and self.applies and self.hold_id:
            target = int(str(self.apply_to).split()[0].rsplit("-", 1)[1])
            self.applied = target + 1 if self.overruns else min(self.applied + self.steps, target)

    # director
    def hold(self, stream: StreamId, *, lease_s: float) -> str:
        if self.is_paused:
            raise Refused(f"stream {stream} cannot be held: it is paused")
        self.hold_id = "h1"
        self.leases.append(lease_s)
        return "h1"

    def extend(self, hold_id: str, *, lease_s: float) -> None:
        assert hold_id == self.hold_id
        self.extended.append(lease_s)

    def apply_up_to(self, hold_id: str, position: Position) -> None:
        assert self.markers, "the marker is committed before the stream is sent on"
        self.apply_to = position

    def release(self, hold_id: str) -> None:
        self.released.append(hold_id)
        self.hold_id = ""

    def latest_report(self, stream: StreamId) -> StreamReport | None:
        if self.time >= self.fails_at_s:
            return StreamReport(STREAM, "failed", error=self.error, age_s=self.age_s)
        if not self.hold_id:
            left = max(0, int(self.behind - self.time * self.records_per_s))
            return StreamReport(
                STREAM, "streaming", lag_s=max(0.0, self.lag_s - self.time), log_end_offset=left,
                records_per_s=self.records_per_s, age_s=self.age_s,
            )  # fmt: skip
        if self.never_holds:
            return StreamReport(STREAM, "backing_off", error=self.error)
        return StreamReport(STREAM, self.held_state, hold_id=self.hold_id)

    # sink
    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        return (
            None if self.ledger is None else replace(self.ledger, position=at(self.applied), next_offset=self.applied)
        )

    # source
    def open_views(self, count: int) -> Sequence[ReadView]:
        self.on_open()
        positions = self.source_positions[:count] or [self.sequence] * count
        del self.source_positions[:count]
        return self._views(positions)

    def commit_marker(self, marker: Marker) -> None:
        self.markers.append(marker)

    def open_destination(self, count: int) -> Sequence[ReadView]:
        assert self.hold_id, "the stream is still held while the destination's views open"
        self.time += self.slow_destination_s
        return self._views([self.destination_position or self.applied] * count)

    def _views(self, positions: Sequence[int]) -> Sequence[ReadView]:
        views = [MemoryView(ENTRY, entries(3), position=at(number), faults=self.faults) for number in positions]
        self.opened += views
        return views

    def barrier(self) -> Barrier:
        parts: Any = self
        patience = Patience(look_every_s=1, attempts=self.attempts)
        return Barrier(STREAM, parts, parts, parts, self.open_destination, clock=self, patience=patience)


def refused(world: World, error: type[Exception] = NotAligned) -> str:
    with pytest.raises(error) as caught, world.barrier().aligned(2):
        pass
    assert all(view.is_closed for view in world.opened), "no view is left open"
    return str(caught.value)


def test_both_sides_are_opened_at_one_position_and_the_stream_goes_on() -> None:
    world = World()
    with world.barrier().aligned(2) as aligned:
        assert {str(view.position) for view in [*aligned.source, *aligned.destination]} == {"0-1-100"}
        assert world.released == ["h1"], "released before anything is compared"
        assert aligned.position_ms == 1_700_000_000_123
        assert 0 < aligned.held_s < 30
        assert not any(view.is_closed for view in world.opened)
    assert all(view.is_closed for view in world.opened)
    assert [marker.kind for marker in world.markers] == ["barrier"]


def test_a_read_view_older_than_the_held_place_is_opened_again() -> None:
    world = World(applied=100, source_positions=[95, 95, 99, 99])
    with world.barrier().aligned(2) as aligned:
        assert aligned.position.covers(at(100))  # type: ignore[arg-type]
        assert [view.is_closed for view in world.opened] == [True] * 4 + [False] * 4


def test_an_idle_source_is_aligned_too() -> None:
    world = World(applied=100)
    with world.barrier().aligned(1) as aligned:
        assert aligned.position == at(100)
    assert world.markers, "the marker is the transaction beyond P"


def test_a_stream_that_does_not_stand_still_is_inconclusive_and_released() -> None:
    world = World(never_holds=True, error="TransientError: no log\n  → start it")
    assert "did not stand still (it is trying again: no log) within the lease of 30 s" in refused(world)
    assert world.released == ["h1"]
    assert not world.markers


@pytest.mark.parametrize("at_s", [0.0, 5.0])
def test_a_stream_that_has_ended_for_good_is_not_asked_three_times(at_s: float) -> None:
    """Found by a newcomer: 216 s went by for it before the next destination was compared. `at_s`: it ends then."""
    world = World(attempts=3, never_holds=True, fails_at_s=at_s, error="Diverged: rows are gone\n  → put them back")
    ended = "the stream into warehouse has ended: rows are gone"
    with pytest.raises(StreamEnded, match=ended) as caught, world.barrier().aligned(1):
        pass
    assert world.time <= at_s + 1
    assert len(world.leases) == len(world.released) == (1 if at_s else 0)
    assert "put them back; then start the stream again" in caught.value.hint and "\n" not in caught.value.message


def test_a_stream_that_was_fenced_a_moment_ago_still_gets_its_leases() -> None:
    world = World(attempts=3, never_holds=True, fails_at_s=0.0, error="Fenced: epoch 4 is over")
    assert "did not stand still (it is failed: epoch 4 is over)" in refused(world)
    assert len(world.leases) == 3
    world.age_s = SILENCE_MAX_S + 1
    assert "has ended" in refused(world, StreamEnded)


def test_a_stream_that_lags_is_waited_for_before_it_is_held() -> None:
    world = World(lag_s=100.0)
    with world.barrier().aligned(1) as aligned:
        assert world.time >= 70, "until what is left takes 30 s"
        assert aligned.held_s < 30, "waiting for it is not holding it"


def test_the_wait_for_a_stream_with_much_before_it_is_reported_with_its_rate(caplog: pytest.LogCaptureFixture) -> None:
    """It has no lag yet by what it has applied, and would need 100 s for what the log has."""
    caplog.set_level("INFO", logger="seamline.sync.barrier")
    world = World(behind=10_000, records_per_s=100.0)
    with world.barrier().aligned(1):
        assert world.time >= 70
    logged = [record.getMessage() for record in caplog.records]
    assert logged[0].endswith(
        "it is streaming, 0 s and 10,000 records behind, and applies 100 records/s: about 100 s (reported 0 s ago);"
        " near is 30 s, waited 0 of 600 s"
    )
    assert len([line for line in logged if line.startswith("waiting until")]) == 5, "again every 15 s"
    assert logged[-1].startswith("asking the stream to stand still: stream=settlement@warehouse needed_s=")


def test_a_stream_that_never_comes_near_is_inconclusive_with_its_numbers_and_was_not_held() -> None:
    reason = refused(World(behind=100_000_000, records_per_s=100.0))
    assert "did not come near within 600 s: it is streaming, 0 s and 99,940,000 records behind" in reason
    assert "applies 100 records/s: about 999400 s" in reason
    world = World(lag_s=10_000.0, attempts=3)
    assert "9398 s and 0 records behind, and was not measured yet" in refused(world)
    assert not world.released
    assert world.time < 610, "the bound is for all attempts together"


def test_a_stream_that_is_not_heard_is_not_taken_for_near() -> None:
    world = World(age_s=11.0)
    assert "reported 11 s ago" in refused(world)
    assert not world.leases


@pytest.mark.parametrize(("lag_s", "records_per_s", "lease_s"), [(0.0, 1.0, 30.0), (20.0, 1.0, 48.0)])
def test_the_lease_is_twice_what_is_needed_and_not_less_than_its_floor(
    lag_s: float, records_per_s: float, lease_s: float
) -> None:
    world = World(lag_s=lag_s, records_per_s=records_per_s)
    with world.barrier().aligned(1):
        assert world.leases == [lease_s]


def test_the_time_that_the_views_took_lengthens_the_next_lease_up_to_the_ceiling() -> None:
    """This was what overload did: each attempt met the same 30 s."""
    world = World(attempts=2, slow_destination_s=31)
    with world.barrier().aligned(1):
        assert [round(lease) for lease in world.leases] == [30, 62]
    world = World(attempts=2, slow_destination_s=200)
    refused(world)
    assert [round(lease) for lease in world.leases] == [30, 120]


def test_a_hold_is_extended_while_the_stream_comes_nearer() -> None:
    world = World(applied=10, steps=1)
    with world.barrier().aligned(1) as aligned:
        assert aligned.held_s > 80
        assert world.extended
        assert aligned.held_s < 120


def test_a_hold_is_not_extended_for_a_stream_that_comes_no_further() -> None:
    world = World(applies=False)
    assert "within the lease of 30 s" in refused(world)
    assert world.extended == []


def test_a_hold_ends_at_its_ceiling_however_well_it_goes_on() -> None:
    world = World(sequence=10_000, applied=1, steps=1)
    assert "within the lease of 120 s" in refused(world)
    assert world.time <= 120
    assert world.extended


def test_bad_luck_is_tried_again_and_leaves_nothing_open() -> None:
    world = World(attempts=3, source_positions=[100, 101, 100, 101])
    with world.barrier().aligned(2) as aligned:
        assert world.released == ["h1"] * 3
        assert [view.is_closed for view in world.opened] == [True] * 4 + [False] * 4
        assert len({str(view.position) for view in aligned.source}) == 1
    assert all(view.is_closed for view in world.opened)


def test_a_stream_that_refuses_the_hold_is_not_waited_for() -> None:
    world = World(attempts=3, is_paused=True)
    with pytest.raises(Refused, match="paused"), world.barrier().aligned(1):
        raise AssertionError("nothing was aligned")
    assert world.time < 1
    assert world.released == []


def test_the_last_word_of_a_pause_does_not_speak_for_a_stream_that_was_let_go() -> None:
    world = World()
    logged = iter(["paused", "paused", "paused"])
    late = world.latest_report
    world.latest_report = lambda stream: (  # type: ignore[method-assign]
        StreamReport(STREAM, state) if (state := next(logged, "")) else late(stream)
    )
    with world.barrier().aligned(1):
        assert world.released == ["h1"], "at the first attempt"


def test_another_ones_hold_is_not_taken_for_ours() -> None:
    world = World()
    world.hold = lambda stream, *, lease_s: "h2"  # type: ignore[method-assign]
    world.hold_id = "h1"
    assert "did not stand still" in refused(world)


def test_a_stream_that_does_not_reach_the_position_in_time_is_inconclusive() -> None:
    world = World(applies=False)
    assert "did not reach 0-1-100 (it is at 0-1-97) within the lease" in refused(world)
    assert world.released == ["h1"]


def test_a_stream_that_runs_past_the_position_is_inconclusive() -> None:
    assert "went beyond 0-1-100 to 0-1-101" in refused(World(overruns=True))


def test_a_destination_that_moved_on_before_its_views_were_open_is_inconclusive() -> None:
    assert "says 0-1-104 inside its read view, not 0-1-100" in refused(World(destination_position=104))


@pytest.mark.parametrize(("before", "after"), [((), ("entry", 1)), (("entry", 1), ()), (("entry", 1), ("entry", 2))])
def test_tables_that_join_while_both_sides_are_opened_are_not_compared(
    before: tuple[str, int], after: tuple[str, int]
) -> None:
    """Such a table stands at its own snapshot, which may be further than the position."""
    world = World()
    assert world.ledger is not None
    ledgers = [
        replace(world.ledger, boundaries=tuple(Boundary(name, at(90), number, ended=True) for name, number in carried))
        for carried in ([before] if before else [], [after] if after else [])
    ]
    world.ledger = ledgers[0]

    def join() -> None:
        world.ledger = ledgers[1]

    world.on_open = join
    assert "entry joined or left settlement@warehouse" in refused(world)


def test_an_expired_lease_is_inconclusive_even_when_all_looks_well() -> None:
    assert "had expired" in refused(World(slow_destination_s=31))


def test_source_views_at_different_positions_are_inconclusive() -> None:
    assert "different positions" in refused(World(source_positions=[100, 101]))


def test_a_sync_that_catches_up_is_refused_without_a_hold() -> None:
    world = World()
    assert world.ledger is not None
    world.ledger = replace(world.ledger, boundaries=(Boundary("entry", at(90)),))
    assert "catching up" in refused(world, NotComparable)
    assert not world.released


def test_a_sync_that_was_never_published_is_refused() -> None:
    assert "never published" in refused(World(ledger=None), NotComparable)


def test_an_error_of_a_side_releases_the_stream_and_closes_the_views() -> None:
    world = World()
    world.open_destination = lambda count: (_ for _ in ()).throw(TransientError("gone"))  # type: ignore[method-assign]
    assert "gone" in refused(world, TransientError)
    assert world.released == ["h1"]


def test_views_that_grow_too_old_are_not_read_any_more() -> None:
    world = World()
    with world.barrier().aligned(1) as aligned:
        aligned.check()
        world.time += 1_900
        with pytest.raises(NotAligned, match="seconds|s old"):
            aligned.check()
