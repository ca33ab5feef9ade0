"""ensure_capture brings a capture to where it must be, from any state and from a crash at any step of another call."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from seamline.domain.errors import PositionLost, Refused, TerminalError, TransientError
from seamline.domain.log import LogRecord, RecordKind, RowChange
from seamline.domain.position import Position
from seamline.plan.model import SourcePlan, SyncPlan, TablePlan
from seamline.ports import Marker, Problem
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sync import markers
from seamline.sync.capture_lifecycle import CaptureState, ensure_capture, reset_capture, wanted_tables
from tests.log_topic import row_record

SOURCE = SourcePlan(
    name="core_bank",
    kind="mariadb",
    database="bank",
    reader="core_bank",
    capture="core_bank_capture",
    marker="core_bank_marker",
    log_topic="seamline.core_bank.log",
    connector="seamline-core_bank",
    log_max_gb=1.0,
)
PLAN = SyncPlan("settlement", SOURCE, (), (TablePlan("account"), TablePlan("ledger_entry")))
TABLES = ("account", "ledger_entry", "seamline_marker")


class Crash(Exception):
    """The process ended here."""


@dataclass
class State:
    is_running: bool = False
    is_failed: bool = False
    has_lost_its_place: bool = False
    error: str = ""
    cure: str = ""
    failed_as_it_ended: bool = False


@dataclass
class World:
    """Registry, connector, topics, source and log in one: enough of each to distinguish right from wrong."""

    name: str = SOURCE.connector
    topic: str = SOURCE.log_topic
    topic_id: str = "topic-1"
    exists: bool = False
    offset: Position | None = None
    settings: tuple[str, tuple[str, ...]] = ("", ())
    state: State = field(default_factory=State)
    trace: str = ""
    loses_its_place: bool = False
    size: int = 0
    generation: int = 0
    listed: tuple[str, ...] = ()
    log: list[LogRecord] = field(default_factory=list)
    is_locked: bool = False
    calls: list[str] = field(default_factory=list)
    crash_at: int = -1
    found: tuple[Problem, ...] = ()

    def did(self, what: str) -> None:
        assert self.is_locked, f"{what} outside the source's lock"
        self.calls.append(what)
        if len(self.calls) == self.crash_at:
            raise Crash(what)

    # registry
    @contextmanager
    def locked(self, source: str) -> Iterator[None]:
        self.is_locked = True
        try:
            yield
        finally:
            self.is_locked = False

    def tables(self, source: str) -> tuple[int, tuple[str, ...]]:
        return self.generation, self.listed

    def set_tables(self, source: str, *, generation: int, tables: Sequence[str]) -> None:
        assert generation == self.generation + 1
        self.did("registry written")
        self.generation, self.listed = generation, tuple(tables)


class Connector:
    def __init__(self, world: World) -> None:
        self.world = world
        self.name = world.name

    def problems(self) -> tuple[Problem, ...]:
        return self.world.found

    def status(self) -> State | None:
        return self.world.state if self.world.exists else None

    def create(self, tables: Sequence[str]) -> None:
        if not self.world.exists:
            self.world.exists = True
            self.world.settings = ("no_data", tuple(tables))
            self.world.did("created")

    def is_seeded(self) -> bool:
        return self.world.offset is not None

    def seed(self, position: Position, tables: Sequence[str]) -> None:
        self.world.settings = ("recovery", tuple(tables))
        self.world.did("first start prepared")
        self.world.offset = position
        self.world.did("seeded")

    def is_first_start(self) -> bool:
        return self.world.settings[0] == "recovery"

    def carries(self, tables: Sequence[str]) -> bool:
        return self.world.settings == ("no_data", tuple(tables))

    def set_tables(self, tables: Sequence[str]) -> None:
        self.world.state = State()
        self.world.did("stopped")
        self.world.settings = ("no_data", tuple(tables))
        self.world.did("list changed")

    def start(self) -> None:
        assert self.world.offset is not None, "started without a place"
        trace, is_lost = self.world.trace, self.world.loses_its_place
        self.world.state = State(False, True, is_lost, trace, "x") if trace else State(True)
        self.world.did("started")

    def delete(self) -> None:
        self.world.exists = False
        self.world.did("connector deleted")


class Topics:
    def __init__(self, world: World) -> None:
        self.world = world

    def ensure(self) -> str:
        return self.world.topic_id

    def delete(self) -> None:
        assert not self.world.exists, "its connector would make it again"
        self.world.log.clear()
        self.world.offset = None
        self.world.did("topics deleted")

    def end_offset(self) -> int:
        return len(self.world.log)

    def size_bytes(self) -> int:
        return self.world.size


class SourceSide:
    def __init__(self, world: World) -> None:
        self.world = world

    def seed_position(self) -> Position:
        return BinlogPosition("0-7-1", "binlog.000001", 4)

    def commit_marker(self, marker: Marker) -> None:
        self.world.did(f"marker {marker.kind}")
        if self.world.state.is_running and SOURCE.marker_table in self.world.settings[1]:
            payload = json.dumps({"id": marker.id, "payload": json.dumps(dict(marker.payload))}).encode()
            position = BinlogPosition(f"0-7-{len(self.world.log) + 2}")
            at = len(self.world.log)
            row = RowChange(at + 1, SOURCE.marker_table, "c", after=payload)
            self.world.log += [
                LogRecord(at, RecordKind.BEGIN, position=position),
                row_record(row, position=position),
                LogRecord(at + 2, RecordKind.END, position=position, total=1),
            ]

    def let_go(self) -> None:
        self.world.did("source let go")


class Reader:
    topic, topic_id = SOURCE.log_topic, "topic-1"

    def __init__(self, world: World) -> None:
        self.world = world
        self.next = 0

    def assign(self, offset: int) -> None:
        self.next = offset

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        records, self.next = self.world.log[self.next :], len(self.world.log)
        return records

    def end_offset(self) -> int:
        return len(self.world.log)

    def close(self) -> None: ...


def ensure(world: World, plan: SyncPlan = PLAN) -> CaptureState:
    return ensure_capture(
        plan,
        registry=world,
        connect=Connector(world),
        topics=Topics(world),
        source=SourceSide(world),
        open_log=lambda: Reader(world),
    )


def reset(world: World) -> None:
    reset_capture(SOURCE, registry=world, connect=Connector(world), topics=Topics(world), source=SourceSide(world))


def test_from_nothing_it_is_created_seeded_started_and_proven() -> None:
    world = World()
    state = ensure(world)
    assert world.calls == [
        "created",
        "marker heartbeat",
        "first start prepared",
        "seeded",
        "started",
        "marker tables",
        "stopped",
        "list changed",
        "started",
        "marker tables",
        "registry written",
    ]
    assert (state.generation, state.tables, state.changed) == (1, TABLES, True)
    assert state.proof is not None
    assert state.proof.next_offset == 6
    assert world.settings == ("no_data", TABLES)


def test_a_second_call_touches_nothing() -> None:
    world = World()
    ensure(world)
    world.calls.clear()
    state = ensure(world)
    assert world.calls == []
    assert (state.generation, state.changed) == (1, False)


def test_another_sync_adds_its_tables_and_takes_none_away() -> None:
    world = World()
    ensure(world)
    world.calls.clear()
    state = ensure(world, SyncPlan("cards", SOURCE, (), (TablePlan("card"), TablePlan("account"))))
    assert world.calls == ["stopped", "list changed", "started", "marker tables", "registry written"]
    assert state.tables == ("account", "card", "ledger_entry", "seamline_marker")
    assert state.generation == 2
    marker = json.loads(json.loads(world.log[-2].rows[0].after or b"")["payload"])
    assert marker == {"generation": 2, "tables": list(state.tables)}


@pytest.mark.parametrize("crash_at", range(1, 12))
def test_after_a_crash_at_any_step_the_next_call_ends_in_the_same_state(crash_at: int) -> None:
    world = World(crash_at=crash_at)
    with pytest.raises(Crash):
        ensure(world)
    seeded_at = world.offset
    world.crash_at = -1
    state = ensure(world)
    assert (state.generation, state.tables) == (1, TABLES)
    assert world.settings == ("no_data", TABLES)
    assert world.state.is_running
    assert seeded_at is None or world.offset == seeded_at


@pytest.mark.parametrize("was", [State(), State(is_failed=True)])
def test_a_stopped_or_failed_connector_is_started_and_proven(was: State) -> None:
    world = World()
    ensure(world)
    world.calls.clear()
    world.state = was
    state = ensure(world)
    assert world.calls == ["started", "marker tables"]
    assert state.changed
    assert state.generation == 1


def test_a_deleted_connector_goes_on_at_its_place_without_reading_structures_again() -> None:
    world = World()
    ensure(world)
    world.calls.clear()
    world.exists, world.settings, world.state = False, ("", ()), State()
    ensure(world)
    assert world.calls == ["created", "started", "marker tables"]


def test_a_place_lost_under_a_log_that_has_records_is_never_papered_over() -> None:
    world = World()
    ensure(world)
    world.offset = None
    with pytest.raises(PositionLost, match="lost its place"):
        ensure(world)


def test_a_connector_that_fails_is_reported_with_its_cure() -> None:
    with pytest.raises(TerminalError, match="fails: row size 1") as raised:
        ensure(World(trace="row size 1"))
    assert raised.value.hint == "x"


def test_a_connector_that_failed_as_it_was_ended_is_started_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world, start = World(), Connector.start
    starts = list[State]()

    def failing_first(connector: Connector) -> None:
        start(connector)
        if not starts:
            world.state = State(is_failed=True, failed_as_it_ended=True, error="its history is closed")
        starts.append(world.state)

    monkeypatch.setattr(Connector, "start", failing_first)
    ensure(world)
    assert [one.is_failed for one in starts] == [True, *[False] * (len(starts) - 1)]
    assert world.state.is_running


def test_a_connector_whose_place_is_gone_from_the_source_s_log_is_a_lost_position() -> None:
    with pytest.raises(PositionLost, match="no longer holds its place .*: slot is gone") as raised:
        ensure(World(trace="slot is gone", loses_its_place=True))
    assert raised.value.hint == "x"


def test_a_connector_that_loses_its_place_while_its_marker_is_awaited_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamline.sync.capture_lifecycle._PROOF_TIMEOUT_S", 5)
    world = World()
    ensure(world)
    world.state = State()

    def fail(side: SourceSide, marker: Marker) -> None:
        world.state = State(is_failed=True, has_lost_its_place=True, error="wal was removed", cure="onboard again")

    monkeypatch.setattr(SourceSide, "commit_marker", fail)
    with pytest.raises(PositionLost, match="wal was removed") as raised:
        ensure(world)
    assert raised.value.hint == "onboard again"


def test_at_its_byte_limit_a_capture_is_not_started() -> None:
    world = World(size=2**30)
    with pytest.raises(Refused, match=r"holds 1.00 GiB, its limit is 1 GiB"):
        ensure(world)
    assert world.calls == []


def test_a_fatal_problem_of_connect_is_reported_before_anything_is_made() -> None:
    world = World(found=(Problem("plugin was not tested", "install a tested one"), Problem("odd", "", is_fatal=False)))
    with pytest.raises(Refused, match="plugin was not tested") as raised:
        ensure(world)
    assert raised.value.hint == "install a tested one"
    assert world.calls == []


def test_a_marker_that_never_comes_is_trouble_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamline.sync.capture_lifecycle._PROOF_TIMEOUT_S", 0.01)
    world = World()
    ensure(world)
    world.state = State()
    monkeypatch.setattr(Connector, "start", lambda self: None)
    with pytest.raises(TransientError, match="was committed in the source but not read"):
        ensure(world)


def test_a_marker_is_found_behind_other_transactions_up_to_its_end() -> None:
    world = World(is_locked=True)
    world.state, world.settings = State(is_running=True), ("no_data", TABLES)
    for marker_id in ("a", "b", "c"):
        SourceSide(world).commit_marker(Marker(marker_id, "heartbeat"))
    place = markers.read_until_marker(Reader(world), marker_table="seamline_marker", marker_id="b", timeout_s=1)
    assert (place.offset, place.next_offset) == (4, 6)


def test_the_wanted_tables_are_the_union_in_one_order() -> None:
    assert wanted_tables(PLAN, ()) == TABLES
    assert wanted_tables(PLAN, ("zebra", "account")) == (*TABLES, "zebra")


@pytest.mark.parametrize("crash_at", range(4))
def test_a_capture_that_was_given_up_begins_again_with_all_its_tables(crash_at: int) -> None:
    world = World()
    ensure(world)
    world.trace, world.loses_its_place, world.state = "purged", True, State(is_failed=True, has_lost_its_place=True)
    with pytest.raises(PositionLost):
        ensure(world)
    world.calls.clear()
    world.crash_at = crash_at
    if crash_at:
        with pytest.raises(Crash):
            reset(world)
    world.crash_at = -1
    reset(world)
    world.trace = ""
    state = ensure(world, dataclasses.replace(PLAN, tables=(TablePlan("account"),)))
    assert state.tables == TABLES
    assert "seeded" in world.calls
