"""Nothing that anybody needs of a log is deleted, whatever is not known deletes nothing, and the rest goes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from seamline.domain.errors import ConfigError, PositionLost, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.log_archive import Archived, ArchivedPart
from seamline.domain.log_floor import Floor, LedgerPlace, LogHold, log_floor
from seamline.plan.model import ArchivePlan, DestinationPlan, SourcePlan, SyncPlan
from seamline.sync import log_pruning
from seamline.sync.log_pruning import LogUsers, Pruned, PruningTools, log_users, prune_log, segment_s

TOPIC, ID = "seamline.bank.log", "id-1"
SOURCE = SourcePlan("bank", "mariadb", "bank", "r", "c", "m", TOPIC, "seamline-bank")
MINUTE_S, DAY_S = 60.0, 86_400.0


def plan(sync: str, *destinations: str, source: SourcePlan = SOURCE) -> SyncPlan:
    return SyncPlan(sync, source, tuple(DestinationPlan(name, "postgres", name, "s") for name in destinations), ())


@dataclass
class World:
    """A log with one record per offset, ledgers in destinations, and holds. Times are seconds; now is 0."""

    begins: int = 0
    ages_s: list[float] = field(default_factory=list)
    topic_id: str = ID
    ledgers: dict[str, list[LedgerPlace]] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    holds: list[LogHold] = field(default_factory=list)
    streams: dict[StreamId, SyncPlan] = field(default_factory=dict)
    declared: list[SyncPlan] = field(default_factory=list)
    paused: set[StreamId] = field(default_factory=set)
    segments_s: float = 0.0
    is_made_again: bool = False
    expired_below: int = -1
    may_alter: bool = True
    # Of a source that declares an archive: up to where it holds the log, and why it cannot go on.
    archived_to: int | None = None
    archive_trouble: str = ""

    @property
    def ends(self) -> int:
        return len(self.ages_s)

    def stream(
        self, sync: str, destination: str, next_offset: int, *, topic_id: str = ID, paused: bool = False
    ) -> None:
        stream = StreamId(sync, destination)
        self.streams[stream] = plan(sync, destination)
        self.ledgers.setdefault(destination, []).append(LedgerPlace(str(stream), TOPIC, topic_id, next_offset))
        if paused:
            self.paused.add(stream)

    # ---- ports

    def topic_id_of(self, topic: str) -> str:
        return self.topic_id

    def offsets(self, topic: str) -> tuple[int, int]:
        return self.begins, self.ends

    def size_bytes(self, topic: str) -> int:
        return self.ends - self.begins

    def young_from(self, topic: str, *, keep_s: float) -> int:
        return next((n for n, age in enumerate(self.ages_s) if n >= self.begins and age <= keep_s), self.ends)

    def end_segments(self, topic: str, *, within_s: float) -> None:
        if not self.may_alter:
            raise ConfigError("Kafka refused to set segment.ms")
        self.segments_s = within_s

    def prune(self, topic: str, *, below: int) -> int:
        self.begins = max(self.begins, below)
        return self.begins

    def living_holds(self, topic: str) -> Sequence[LogHold]:
        return self.holds

    @contextmanager
    def open_ledgers(self, destination: DestinationPlan) -> Iterator["_Opened"]:
        if destination.name in self.away:
            raise TransientError("no route to host")
        yield _Opened(self, destination.name)

    @contextmanager
    def open_archive(self, source: SourcePlan, topic_id: str) -> Iterator["_Archive"]:
        assert topic_id == self.topic_id
        assert source.archive is not None
        yield _Archive(self)

    def run(self) -> Pruned | None:
        tools = PruningTools(_Topics(self), self, self.open_ledgers, self.open_archive)
        (users,) = log_users(self.declared, self.streams, ())
        if self.archived_to is not None:
            users = replace(users, source=replace(users.source, archive=ArchivePlan("/archive", keep_days=400)))
        return prune_log(users, tools)


@dataclass
class _Opened:
    world: World
    destination: str

    def ledgers(self) -> Sequence[LedgerPlace]:
        self.world.topic_id = "id-2" if self.world.is_made_again else self.world.topic_id
        return self.world.ledgers.get(self.destination, [])


@dataclass
class _Archive:
    """One that began with the log. `archive_trouble`: it comes no further than its half."""

    world: World

    def archived(self) -> Archived:
        return Archived(0, self.world.archived_to or 0, 1 if self.world.archived_to else 0, 2 << 20)

    def extend(self, log_begins: int, below: int) -> Archived:
        before = self.world.archived_to or 0
        assert before >= log_begins
        self.world.archived_to = max(before, (before + below) // 2 if self.world.archive_trouble else below)
        if self.world.archive_trouble:
            raise TransientError(self.world.archive_trouble)
        return self.archived()

    def expire(self, *, keep_days: float, needed_from: int) -> Sequence[ArchivedPart]:
        assert keep_days == 400
        self.world.expired_below = needed_from
        return ()


class _Topics:
    """`World` names two things alike."""

    def __init__(self, world: World) -> None:
        self.topic_id = world.topic_id_of
        self.offsets, self.size_bytes, self.young_from = world.offsets, world.size_bytes, world.young_from
        self.end_segments, self.prune = world.end_segments, world.prune


def written(ends: int, *, of_age_s: float = 30 * DAY_S) -> list[float]:
    return [of_age_s] * ends


# ---- the checks: what may never be, and what must be -------------------------------------------------------------


def check(world: World, run: Callable[[World], object]) -> None:
    """AssertionError where a record went that somebody needs, or stayed though nobody does."""
    before = world.begins
    young = world.young_from(TOPIC, keep_s=SOURCE.log_keep_days * DAY_S)
    run(world)
    all_ledgers = [place for places in world.ledgers.values() for place in places]
    if world.away or any(place.topic_id != ID or place.next_offset > world.ends for place in all_ledgers):
        assert world.begins == before, "something is not known, and records went"
        return
    needed = [*(place.next_offset for place in all_ledgers), *(hold.next_offset for hold in world.holds), young]
    assert world.begins <= max(before, min(needed)), "a record went that somebody needs"
    if world.archived_to is not None:
        assert world.begins <= max(before, world.archived_to), "records went that are not archived"
    if world.archive_trouble:
        return
    assert world.begins == max(before, min(needed)), "records stay that nobody needs"


@st.composite
def worlds(draw: st.DrawFn) -> World:
    ends = draw(st.integers(1, 30))
    world = World(begins=draw(st.integers(0, ends)), ages_s=[])
    ages = draw(
        st.lists(st.sampled_from([0.0, DAY_S, 6.9 * DAY_S, 7.1 * DAY_S, 30 * DAY_S]), min_size=ends, max_size=ends)
    )
    world.ages_s = sorted(ages, reverse=True)
    for number in range(draw(st.integers(1, 4))):
        topic_id = draw(st.sampled_from([ID, ID, ID, ID, "id-0"]))
        destination = draw(st.sampled_from(["warehouse", "archive"]))
        offset = draw(st.integers(0, ends))
        world.stream(f"sync{number}", destination, offset, topic_id=topic_id, paused=draw(st.booleans()))
    for number in range(draw(st.integers(0, 2))):
        world.holds.append(LogHold(f"run {number}", draw(st.integers(0, ends))))
    if draw(st.booleans()):
        world.archived_to = world.begins
        world.archive_trouble = draw(st.sampled_from(["", "", "no route to host"]))
    if draw(st.sampled_from([False, False, False, True])):
        world.away.add(draw(st.sampled_from(sorted(world.ledgers))))
    return world


@settings(max_examples=200)
@given(worlds())
def test_what_is_needed_stays_and_the_rest_goes(world: World) -> None:
    check(world, World.run)


@settings(max_examples=50)
@given(worlds())
def test_a_repeat_finds_nothing_to_do(world: World) -> None:
    # Else each repeat comes a part of the way further.
    assume(not world.archive_trouble)
    world.run()
    begins = world.begins
    world.run()
    assert world.begins == begins


# ---- planted bugs, each of which the check above must find -------------------------------------------------------


def _as_seen(world: World, **wrong: Any) -> None:
    """Prune the log by a wrong picture of the world."""
    seen = replace(world, **wrong)
    if seen.streams:
        seen.run()
    world.begins = seen.begins


def _without(world: World, forgotten: Callable[[StreamId], bool]) -> dict[str, Any]:
    names = {str(stream) for stream in world.streams if forgotten(stream)}
    return {
        "streams": {stream: one for stream, one in world.streams.items() if str(stream) not in names},
        "ledgers": {
            name: [place for place in places if place.stream not in names] for name, places in world.ledgers.items()
        },
    }


def _forgets_who_is_away(world: World) -> None:
    _as_seen(world, away=set(), **_without(world, lambda stream: stream.destination in world.away))


def _takes_any_topic_id(world: World) -> None:
    ledgers = {name: [replace(one, topic_id=ID) for one in places] for name, places in world.ledgers.items()}
    _as_seen(world, ledgers=ledgers)


def _with_floor(off_by: int) -> Callable[[World], None]:
    def run(world: World) -> None:
        def wrong(*args: Any, **named: Any) -> Floor:
            floor = log_floor(*args, **named)
            return replace(floor, below=max(world.begins, floor.below + off_by))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_pruning, "log_floor", wrong)
            world.run()

    return run


def _prunes_what_is_not_archived(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_pruning.Archiving, "below", lambda _, floor, begins: max(floor, begins))
        world.run()


PLANTED: dict[str, Callable[[World], None]] = {
    "forgets a paused stream": lambda world: _as_seen(world, **_without(world, world.paused.__contains__)),
    "forgets a destination that is away": _forgets_who_is_away,
    "deletes the record at the floor too": _with_floor(1),
    "leaves the record below the floor": _with_floor(-1),
    "counts a ledger of another topic id": _takes_any_topic_id,
    "forgets the holds": lambda world: _as_seen(world, holds=[]),
    "prunes what is not archived": _prunes_what_is_not_archived,
    "forgets the keep": lambda world: _as_seen(world, ages_s=written(world.ends)),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    @settings(max_examples=1_000, database=None, derandomize=True, phases=[Phase.generate], report_multiple_bugs=False)
    @given(worlds())
    def hunt(world: World) -> None:
        check(world, PLANTED[bug])

    with pytest.raises(AssertionError, match=r"records? (went|stay)"):
        hunt()


# ---- single cases ------------------------------------------------------------------------------------------------


def test_each_that_needs_the_log_is_named_the_oldest_need_first() -> None:
    world = World(ages_s=written(100))
    world.stream("settlement", "warehouse", 70)
    world.stream("risk", "archive", 40, paused=True)
    world.holds.append(LogHold("run risk/onboard/-/manual", 55))
    found = world.run()
    assert found is not None
    assert [need.split(" needs")[0] for need in found.floor.needs] == [
        "the ledger of risk@archive",
        "the hold of run risk/onboard/-/manual",
        "the ledger of settlement@warehouse",
        "log.keep_days",
    ]
    assert (found.begins, found.records) == ((0, 40), 40)


def test_an_incremental_snapshot_and_a_sync_that_nobody_declares_any_more_hold_the_log() -> None:
    world = World(ages_s=written(100))
    world.stream("settlement", "warehouse", 70)
    world.ledgers["warehouse"] += [
        LedgerPlace("settlement~incremental_0123456789@warehouse", TOPIC, ID, 30),
        LedgerPlace("given_up@warehouse", TOPIC, ID, 20),
        LedgerPlace("of_another_source@warehouse", "seamline.other.log", "id-9", 1),
    ]
    world.run()
    assert world.begins == 20


def test_a_stream_whose_ledger_is_not_found_needs_everything() -> None:
    world = World(ages_s=written(100))
    world.stream("settlement", "warehouse", 70)
    world.streams[StreamId("risk", "warehouse")] = plan("risk", "warehouse")
    found = world.run()
    assert found is not None
    assert found.floor.unknown == ("stream risk@warehouse has no ledger in its destination",)
    assert world.begins == 0


def test_a_log_that_no_ledger_is_known_of_is_kept_and_that_is_no_trouble() -> None:
    """As while the first sync of a source is being onboarded."""
    world = World(begins=3, ages_s=written(100), declared=[plan("settlement", "warehouse")])
    found = world.run()
    assert found is not None
    assert found.floor.unknown == ()
    assert found.floor.needs[0].startswith("whoever is to come, for no ledger in this log is known yet, needs")
    assert world.begins == 3


def test_a_ledger_of_an_earlier_topic_of_the_same_name_is_named_with_its_cure() -> None:
    world = World(ages_s=written(100))
    world.stream("settlement", "warehouse", 70)
    world.stream("risk", "warehouse", 90, topic_id="id-0")
    found = world.run()
    assert found is not None
    (said,) = found.floor.unknown
    assert "risk@warehouse is of topic seamline.bank.log, id id-0: onboard" in said
    assert world.begins == 0


def test_a_need_that_cannot_be_met_any_more_is_said_and_holds_the_rest() -> None:
    world = World(begins=50, ages_s=written(100))
    world.stream("settlement", "warehouse", 20)
    found = world.run()
    assert found is not None
    assert found.floor.needs[0].endswith("which are gone: onboard its sync again")
    assert world.begins == 50


def test_a_topic_made_again_under_the_floor_is_left_alone() -> None:
    world = World(ages_s=written(100), is_made_again=True)
    world.stream("settlement", "warehouse", 70)
    with pytest.raises(PositionLost, match="made again while its floor was computed"):
        world.run()
    assert world.begins == 0


def test_a_cut_that_takes_an_old_hold_while_the_destinations_are_asked_keeps_its_log() -> None:
    class Late(World):
        @contextmanager
        def open_ledgers(self, destination: DestinationPlan) -> Iterator[_Opened]:
            self.holds = [LogHold("the cut of an old date", 3)]
            with super().open_ledgers(destination) as opened:
                yield opened

    world = Late(begins=0, ages_s=written(10))
    world.stream("sync", "warehouse", 8)
    world.run()
    assert world.begins == 3


def test_a_kafka_that_lets_no_setting_be_changed_is_pruned_all_the_same() -> None:
    world = World(ages_s=written(100), may_alter=False)
    world.stream("settlement", "warehouse", 70)
    found = world.run()
    assert found is not None
    assert found.segments == "Kafka refused to set segment.ms"
    assert world.begins == 70


def test_segments_end_within_a_tenth_of_the_keep_and_an_hour() -> None:
    assert segment_s(7 * DAY_S) == 3600
    assert segment_s(15 * MINUTE_S) == 90
    assert segment_s(MINUTE_S) == MINUTE_S


def test_the_declared_keep_counts_and_of_what_nobody_declares_the_longest() -> None:
    def keeping(days: float) -> SourcePlan:
        return replace(SOURCE, log_keep_days=days)

    wanted = {
        StreamId("a", "warehouse"): plan("a", "warehouse", source=keeping(30)),
        StreamId("b", "archive"): plan("b", "archive", source=keeping(2)),
    }
    (users,) = log_users([], wanted, ())
    assert users.source.log_keep_days == 30
    (users,) = log_users([plan("a", "warehouse", source=keeping(1))], wanted, [plan("c", "lake")])
    assert users.source.log_keep_days == 1
    assert [one.name for one in users.destinations] == ["warehouse", "archive", "lake"]
    assert users.streams == {"a@warehouse", "b@archive"}


def test_what_cannot_be_archived_is_not_pruned_and_what_was_goes() -> None:
    world = World(ages_s=written(100), archived_to=0, archive_trouble="no route to host")
    world.stream("settlement", "warehouse", 70)
    found = world.run()
    assert found is not None
    assert found.archiving is not None
    assert (found.archiving.trouble, found.archiving.added, world.begins) == ("no route to host", 35, 35)
    world.archive_trouble = ""
    found = world.run()
    assert found is not None
    assert found.archiving is not None
    assert (found.archiving.trouble, found.archiving.added, world.begins) == ("", 35, 70)
    assert world.expired_below == 70


def test_who_comes_from_before_the_log_is_said_to_be_in_the_archive_and_keeps_it_there() -> None:
    world = World(begins=50, ages_s=written(100), archived_to=50)
    world.stream("settlement", "warehouse", 20)
    found = world.run()
    assert found is not None
    assert found.floor.needs[0].endswith("needs records from offset 20 on, of which those before 50 are in the archive")
    assert (world.begins, world.expired_below) == (50, 20)


def test_a_source_without_a_topic_has_nothing_to_prune() -> None:
    world = World(topic_id="")
    tools = PruningTools(_Topics(world), world, world.open_ledgers)
    assert prune_log(LogUsers(SOURCE, ()), tools) is None


def test_a_stream_that_was_cut_off_keeps_nothing_and_its_destination_may_be_away() -> None:
    world = World(ages_s=written(100), away={"reporting"})
    world.stream("settlement", "warehouse", 70)
    late = StreamId("settlement", "reporting")
    plans = {StreamId("settlement", "warehouse"): plan("settlement", "warehouse", "reporting")}
    (users,) = log_users(plans.values(), {**plans, late: plan("settlement", "reporting")}, (), cut_off={late})
    found = prune_log(users, PruningTools(_Topics(world), world, world.open_ledgers))
    assert found is not None
    assert (found.floor.unknown, world.begins) == ((), 70)
