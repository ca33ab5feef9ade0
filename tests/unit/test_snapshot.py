"""The snapshot of an onboarding: its order is its proof, and a difference publishes nothing."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pytest

from seamline.domain.canonical import canonical_row, digest_of
from seamline.domain.catalogue import Table
from seamline.domain.digest import KeyedDigest, Segment, SegmentDigest
from seamline.domain.errors import GateFailed, Refused, SchemaConflict, SeamlineError, TransientError
from seamline.domain.log import LogRecord, RecordKind, RowChange
from seamline.domain.position import position_to_json
from seamline.domain.runs import NOT_STAGED, PUBLISH, Receipt, RunKind, RunState
from seamline.plan.model import DestinationPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.ports import Load, Marker, Problem, ReadView, TableRead
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sync.onboard import publish, require_published_everywhere
from seamline.sync.snapshot import SnapshotTools, take_snapshot
from tests.log_topic import row_record
from tests.unit.memory_views import AUDIT, ENTRY, RATE, MemoryView, Row, entries

P = BinlogPosition("0-1-100", "log.000001", 4_000)
WAREHOUSE = DestinationPlan("warehouse", "postgres", "warehouse", "bank")
SOURCE = SourcePlan("core", "mariadb", "bank", "r", "c", "m", "seamline.core.log", "seamline-core")
PLAN = SyncPlan("s", SOURCE, (WAREHOUSE,), (TablePlan("entry", table=ENTRY), TablePlan("audit", table=AUDIT)))
KEYLESS = replace(RATE, name="keyless", key=())
RATES = SyncPlan("s", SOURCE, (WAREHOUSE,), (TablePlan("rate", table=RATE), TablePlan("keyless", table=KEYLESS)))
CONTENT: dict[str, list[Row]] = {
    "entry": entries(20),
    "audit": [{"actor": "a", "object": None}] * 3,
    "rate": [{"id": n, "rate": n / 3} for n in range(9)],
    "keyless": [{"id": n, "rate": n / 3} for n in range(9)],
}


@dataclass
class World:
    """Source, log, staging and platform of one snapshot; `steps` is everything that happened, in order."""

    plan: SyncPlan = PLAN
    low_marker_at: str = "0-1-99"
    staged: dict[str, list[Row]] = field(default_factory=lambda: {name: list(rows) for name, rows in CONTENT.items()})
    steps: list[str] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    away: Sequence[str] = ()
    is_carried_on: bool = False
    source_away: bool = False
    ended: SeamlineError | None = None

    # the source and its log
    alterations: Sequence[str] = ()
    problems: Sequence[Problem] = ()

    def altered(self, planned: Sequence[Table]) -> list[str]:
        assert tuple(planned) == tuple(table.definition for table in self.plan.tables)
        self.steps.append("definitions")
        return list(self.alterations)

    def preflight(self, tables: Sequence[Table]) -> tuple[Problem, ...]:
        self.steps.append("preflight")
        return tuple(self.problems)

    def commit_marker(self, marker: Marker) -> None:
        self.steps.append(f"{marker.kind} marker")
        self.markers.append(marker)

    topic, topic_id = SOURCE.log_topic, "topic-1"

    def end_offset(self) -> int:
        return 500

    def assign(self, offset: int) -> None:
        assert offset == 500

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        after = f'{{"id": "{self.markers[0].id}"}}'.encode()
        self.steps.append("low marker read")
        at = BinlogPosition(self.low_marker_at)
        return [
            LogRecord(510, RecordKind.BEGIN, transaction_id="u"),
            row_record(RowChange(511, "seamline_marker", "c", after=after), "u"),
            LogRecord(514, RecordKind.END, transaction_id="u", position=at),
        ]

    def close(self) -> None:
        self.steps.append("log closed")

    # pruning, platform, failpoints
    def hold_log(self, topic: str, *, holder: str, offset: int, lease_s: float) -> str:
        assert (topic, offset) == (SOURCE.log_topic, 500)
        self.steps.append("hold")
        return holder

    def release_log(self, hold_id: str) -> None:
        self.steps.append(f"{hold_id} lets the log go")

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        self.steps.append("result")
        self.results[key] = value

    def put_receipt(self, run_id: str, receipt: Receipt) -> None:
        self.receipts.append(receipt)

    def reach(self, name: str) -> None:
        self.steps.append(name)

    # reading
    @contextmanager
    def open_read(self, reads: Sequence[TableRead]) -> Iterator["World"]:
        assert [read.table.name for read in reads] == [table.name for table in self.plan.tables]
        self.steps.append("views open")
        yield self
        self.steps.append("views closed")

    @property
    def position(self) -> BinlogPosition:
        return P

    position_time = datetime(2026, 11, 20, 1, 2, 3, tzinfo=UTC)

    def views_for(self, destination: DestinationPlan) -> Sequence[ReadView]:
        return [_Both(CONTENT)]

    def stage(self, destination: DestinationPlan) -> Sequence[Load]:
        if self.ended is not None:
            raise self.ended
        if destination.name in self.away:
            raise TransientError(f"{destination.name} does not answer")
        self.steps.append("staged")
        return [Load(table.definition, f"{table.name}_1", len(self.staged[table.name])) for table in self.plan.tables]

    def digest(self, segment: Segment, destination: DestinationPlan) -> SegmentDigest:
        if self.source_away:
            self.source_away = False
            raise TransientError("the source went away")
        return SegmentDigest(len(CONTENT[segment.table]))

    @contextmanager
    def open_staged(
        self, destination: DestinationPlan, loads: Sequence[Load], count: int
    ) -> Iterator[Sequence[ReadView]]:
        self.steps.append("compared")
        yield [self.compared]

    @cached_property
    def compared(self) -> "_Both":
        return _Both(self.staged)

    @property
    def tools(self) -> SnapshotTools:
        return SnapshotTools(
            source=self,  # type: ignore[arg-type]
            open_log=lambda: self,
            open_read=self.open_read,
            open_staged=self.open_staged,
            holds=self,
            records=self,
            failpoints=self,
        )


class _Both:
    """Two tables behind one view."""

    position = P

    def __init__(self, content: dict[str, list[Row]]) -> None:
        definitions: dict[str, Table] = {"entry": ENTRY, "audit": AUDIT, "rate": RATE, "keyless": KEYLESS}
        self._views = {name: MemoryView(definitions[name], rows, position=P) for name, rows in content.items()}

    @property
    def asked(self) -> list[str]:
        return [name for view in self._views.values() for name in view.asked]

    def __getattr__(self, name: str) -> Any:
        def ask(about: Any, *more: Any, **said: Any) -> Any:
            return getattr(self._views[about if isinstance(about, str) else about.table], name)(about, *more, **said)

        return ask


def run(plan: SyncPlan = PLAN) -> Run:
    return Run("s/onboard/-/1", "s", RunKind.ONBOARD, None, plan, RunState.RUNNING)


def test_a_load_that_goes_on_with_an_earlier_attempt_is_no_measure_of_a_whole_one() -> None:
    assert "read_s" in take_snapshot(run(), World().tools)
    assert "read_s" not in take_snapshot(run(), World(is_carried_on=True).tools)


def test_markers_lie_on_both_sides_of_the_open_views() -> None:
    world = World()
    snapshot = take_snapshot(run(), world.tools)
    assert world.steps == [
        "hold",
        "low marker",
        "low marker read",
        "log closed",
        "preflight",
        "views open",
        "snap.opened",
        "definitions",
        "high marker",
        "staged",
        "snap.chunk_staged",
        "compared",
        "views closed",
        "result",
        "result",
        "snap.manifest_written",
    ]
    assert snapshot == world.results["snapshot"]
    assert snapshot["position"] == position_to_json(P)
    assert (snapshot["next_offset"], snapshot["topic_id"]) == (515, "topic-1")
    assert [snapshot["low_marker"], snapshot["high_marker"]] == [marker.id for marker in world.markers]
    assert [(r.table, r.staged_as, r.rows, r.position) for r in world.receipts] == [
        ("entry", "entry_1", 20, P),
        ("audit", "audit_1", 3, P),
    ]


def test_a_destination_that_fails_keeps_no_other_from_its_load() -> None:
    archive = replace(WAREHOUSE, name="archive")
    both = replace(PLAN, destinations=(archive, WAREHOUSE))
    world = World(plan=both, away=("archive",))
    assert list(take_snapshot(run(both), world.tools)["loads"]) == ["warehouse"]
    assert world.results[NOT_STAGED] == {"archive": "archive does not answer"}
    done = replace(run(both), result={**world.results, PUBLISH: {"warehouse": "p"}})
    with pytest.raises(Refused, match="nothing was staged: archive does not answer"):
        publish(done, "archive", sink=None)  # type: ignore[arg-type]
    with pytest.raises(GateFailed) as raised:
        require_published_everywhere(done)
    assert "run s__onboard and name archive under *Destinations to load*" in raised.value.hint
    world = World(plan=both, away=("archive", "warehouse"))
    with pytest.raises(TransientError, match="archive does not answer"):
        take_snapshot(run(both), world.tools)
    world = World(plan=both, source_away=True)
    with pytest.raises(TransientError, match="the source went away"):
        take_snapshot(run(both), world.tools)
    world = World(plan=both)
    assert list(take_snapshot(run(both), world.tools)["loads"]) == ["archive", "warehouse"]
    assert world.results[NOT_STAGED] == {}


def test_what_was_altered_between_the_plan_and_the_views_is_refused() -> None:
    """At the positions of the plan the values of the log would be read by the wrong type, and nobody would notice."""
    world = World(alterations=["the primary key of entry is now none, was id"])
    with pytest.raises(SchemaConflict, match="since this run was planned: the primary key of entry is now none"):
        take_snapshot(run(), world.tools)
    assert "staged" not in world.steps


def test_a_source_that_cannot_be_captured_any_more_is_refused_before_it_is_read() -> None:
    world = World(problems=[Problem("1 prepared XA transaction", "end it"), Problem("slow", "", is_fatal=False)])
    with pytest.raises(Refused, match=r"^1 prepared XA transaction \(sync s\)"):
        take_snapshot(run(), world.tools)
    assert "views open" not in world.steps


def test_views_older_than_the_low_marker_are_refused() -> None:
    world = World(low_marker_at="0-1-101")
    with pytest.raises(Refused, match="before the low marker"):
        take_snapshot(run(), world.tools)
    assert "staged" not in world.steps


def test_a_staged_table_that_differs_is_named_and_leaves_nothing_to_publish() -> None:
    world = World()
    world.staged["entry"][6] = {**world.staged["entry"][6], "memo": "other"}
    del world.staged["audit"][0]
    with pytest.raises(GateFailed) as caught:
        take_snapshot(run(), world.tools)
    assert "entry BREAK" in str(caught.value)
    assert '{"id": "7"}' in str(caught.value)
    assert "audit BREAK" in str(caught.value)
    assert not world.results


@pytest.mark.parametrize(
    ("table", "steps"),
    [("rate", r'rate BREAK 1 value value \{"id": "4"\}'), ("keyless", "keyless BREAK 1 value value")],
)
def test_a_double_that_differs_in_a_staged_table_leaves_nothing_to_publish(table: str, steps: str) -> None:
    world = World(plan=RATES)
    world.staged[table][4] = {"id": 4, "rate": 1.3333}
    with pytest.raises(GateFailed, match=steps):
        take_snapshot(run(RATES), world.tools)
    assert not world.results


def handed_over(world: World) -> dict[str, KeyedDigest]:
    """Table → the digest by which the sink knows the rows that were compared."""
    taken = run(world.plan)
    taken.result["snapshot"] = json.loads(json.dumps(take_snapshot(taken, world.tools)))
    found: dict[str, KeyedDigest] = {}

    class Recorder:
        def publish(self, stream: Any, loads: Sequence[Load], *, publication: Any) -> Any:
            found.update({load.table.name: load.digest for load in loads if load.digest is not None})

    publish(taken, "warehouse", sink=Recorder())  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("table", ["rate", "keyless"])
def test_publishing_learns_what_the_staged_doubles_were(table: str) -> None:
    world = World(plan=RATES)
    compared = handed_over(world)[table]
    assert compared.whole == world.compared.whole_digest(table, run_key=compared.run_key)
    rows = world.staged[table]
    # Two rows with their doubles exchanged: no count, least, greatest or sum shows them.
    rows[3], rows[4] = {**rows[3], "rate": rows[4]["rate"]}, {**rows[4], "rate": rows[3]["rate"]}
    now = KeyedDigest(
        compared.run_key,
        sum(world.compared.digests(Segment(table), run_key=compared.run_key).values(), SegmentDigest()),
        world.compared.whole_digest(table, run_key=compared.run_key),
    )
    assert now.digest == compared.digest, "the digest of both engines leaves doubles out"
    assert now.whole != compared.whole


def test_of_tables_without_doubles_nothing_more_is_asked() -> None:
    world = World()
    assert {one.whole for one in handed_over(world).values()} == {None}
    assert "whole_digest" not in world.compared.asked


def test_a_staged_view_that_is_not_steady_is_no_snapshot() -> None:
    class Losing(_Both):
        def whole_digest(self, table: str, *, run_key: str) -> SegmentDigest:
            return SegmentDigest(8, 8, 1, 1)

    world = World(plan=RATES)
    world.compared = Losing(world.staged)
    with pytest.raises(TransientError, match="9 staged rows were compared, and 8 of 8 have a hash now"):
        take_snapshot(run(RATES), world.tools)
    assert not world.results


def test_a_silent_log_is_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr("seamline.sync.snapshot.MARKER_WITHIN_S", 0.0)
    with pytest.raises(TransientError, match="was committed in the source but not read"):
        take_snapshot(run(), world.tools)
    assert "views open" not in world.steps


def test_publish_hands_over_boundaries_and_the_place_after_the_low_marker() -> None:
    world = World()
    taken = run()
    # As the platform database gives it back.
    taken.result["snapshot"] = json.loads(json.dumps(take_snapshot(taken, world.tools)))
    handed: dict[str, Any] = {}

    class Recorder:
        def publish(self, stream: Any, loads: Sequence[Load], *, publication: Any) -> Any:
            handed.update(stream=str(stream), loads=loads, publication=publication)

    publish(taken, "warehouse", sink=Recorder())  # type: ignore[arg-type]
    publication = handed["publication"]
    assert handed["stream"] == "s@warehouse"
    assert [(load.staged_as, load.rows) for load in handed["loads"]] == [("entry_1", 20), ("audit_1", 3)]
    for load in handed["loads"]:
        texts = [canonical_row(load.table, row) for row in CONTENT[load.table.name]]
        assert load.digest.digest == digest_of(texts, run_key=load.digest.run_key)
    assert (publication.run_id, publication.next_offset, publication.position) == (taken.run_id, 515, P)
    assert {(b.table, b.position, b.generation, b.high_marker, b.ended) for b in publication.boundaries} == {
        (name, P, 1, world.markers[1].id, False) for name in ("entry", "audit")
    }


def test_publish_without_every_table_staged_is_refused() -> None:
    taken = run()
    with pytest.raises(Refused, match="has no snapshot"):
        publish(taken, "warehouse", sink=object())  # type: ignore[arg-type]
    snapshot = take_snapshot(taken, World().tools)
    taken.result["snapshot"] = {**snapshot, "loads": {"warehouse": snapshot["loads"]["warehouse"][:1]}}
    with pytest.raises(Refused, match="has not staged audit"):
        publish(taken, "warehouse", sink=object())  # type: ignore[arg-type]


@pytest.mark.parametrize(("ended", "is_let_go"), [(Refused("it may not wait"), True), (TransientError("away"), False)])
def test_a_load_that_ends_for_good_lets_the_log_go_and_one_that_is_tried_again_keeps_it(
    ended: SeamlineError, is_let_go: bool
) -> None:
    world = World(ended=ended)
    with pytest.raises(type(ended)):
        take_snapshot(run(), world.tools)
    assert any(step.endswith("lets the log go") for step in world.steps) is is_let_go
