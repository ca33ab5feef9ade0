"""The example kinds carry a sync by themselves: a snapshot at one position, the log from there, and equal digests."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace

import pytest

from seamline.bulk.copy import Copied, CopyItem, CopyTarget
from seamline.bulk.read import RunReader, SourceAtOnePosition, _Here
from seamline.domain.catalogue import Table, fingerprint
from seamline.domain.changes import FindingsReported
from seamline.domain.cutover import Boundary
from seamline.domain.digest import Segment
from seamline.domain.errors import Diverged, PositionLost, TransientError
from seamline.domain.log import LogRecord
from seamline.domain.runs import RunKind, RunState
from seamline.kinds.bulk import ArrowRows, BulkRead, OpenedSource, StagedPlace, TableRows, Wanted
from seamline.plan.model import DestinationPlan, Run, SyncPlan
from seamline.ports import Load, Marker, Publication, TableRead
from seamline.sync.span_loop import run_stream
from seamline.values.arrow import schema_of
from seamline_memory import sink_kind, source_kind
from seamline_memory.bank import BANKS, Bank
from seamline_memory.log import MemoryLogReader
from seamline_memory.store import STORES
from tests.log_topic import ACCOUNT, AUDIT, STREAM, ScriptedControl, position, sync_plan

TABLES = (ACCOUNT, AUDIT)
SOURCE, SINK = source_kind.KIND, sink_kind.KIND


class Reader(MemoryLogReader):
    """Counts polls that found nothing, after which the stream is stopped."""

    idle_polls = 0

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        found = super().poll(timeout_s, records_max)
        self.idle_polls = 0 if found else self.idle_polls + 1
        return found


class NoTasks:
    """The readers run in this process, when they are asked for."""

    def start(self, barrier: str) -> None:
        self.barrier = barrier

    def is_running(self) -> bool:
        return True

    def result(self) -> object:
        return None


@pytest.fixture
def bank() -> Bank:
    STORES.pop("warehouse", None)
    made = BANKS["bank"] = Bank()
    for table in TABLES:
        made.create(table)
    with made.transaction() as transaction:
        transaction.insert("account", (1, "a"))
        transaction.insert("audit", ("x", None))
        transaction.insert("audit", ("x", None))
    return made


def memory_plan() -> SyncPlan:
    plan = sync_plan(TABLES)
    return replace(
        plan,
        source=replace(plan.source, kind="memory"),
        destinations=tuple(replace(one, kind="memory") for one in plan.destinations),
    )


def onboard(plan: SyncPlan, bank: Bank) -> None:
    """As a run does it: a snapshot, staged in the typed form and published with the place in the log."""
    (destination,) = plan.destinations
    reads = [BulkRead(table, Segment(table.name), number) for number, table in enumerate(TABLES)]
    tasks = NoTasks()
    with SOURCE.open_for_tasks(plan.source, Wanted("run-1", 1, TABLES, 1), tasks) as opened:
        readers = SOURCE.open_readers(plan.source, reads, barrier=tasks.barrier, participant=0)
        readers.open_at_barrier()
        # What is committed from here on is not in the snapshot, and comes through the log.
        with bank.transaction() as transaction:
            transaction.update("account", (1, "a"), (2, "b"))
            transaction.delete("audit", ("x", None))
        places = SINK.load_area(destination, run_id="run-1").create(TABLES)
        proofs: list[str] = []
        loads = []
        for number, table in enumerate(TABLES):
            rows = SINK.load(destination, places[table.name], readers.rows(number, proven=proofs.append))
            loads.append(Load(table, places[table.name].name, rows))
        assert set(proofs) == {opened.proof}
    boundaries = tuple(
        Boundary(t.name, opened.position, high_marker="high", fingerprint=fingerprint(t)) for t in TABLES
    )
    publication = Publication("run-1", plan.source.log_topic, Reader.topic_id, 0, opened.position, boundaries)
    SINK.open_sink(plan, destination, decoder=SOURCE.change_decoder(plan.source)).publish(
        STREAM, loads, publication=publication
    )


def stream(plan: SyncPlan, bank: Bank) -> None:
    reader = Reader(bank, plan.source.log_topic)
    sink = SINK.open_sink(plan, plan.destinations[0], decoder=SOURCE.change_decoder(plan.source))
    run_stream(plan, "warehouse", reader=reader, sink=sink, control=ScriptedControl(reader))  # type: ignore[arg-type]


def test_a_sync_from_memory_to_memory_agrees_at_one_position(bank: Bank) -> None:
    plan = memory_plan()
    onboard(plan, bank)
    SOURCE.open_source(plan.source).commit_marker(Marker("high", "high"))
    with bank.transaction() as transaction:
        transaction.truncate("audit")
        transaction.insert("audit", ("y", "z"))
        transaction.insert("account", (3, None))
    stream(plan, bank)
    (there,) = SINK.open_live(plan, plan.destinations[0], 1)
    (here,) = SOURCE.open_source(plan.source).open_views(1)
    assert there.position == here.position
    for table in TABLES:
        ask = partial(Segment, table.name, buckets=8)
        assert there.digests(ask(), run_key="k") == here.digests(ask(), run_key="k")
        assert there.row_hashes(ask(), run_key="k") == here.row_hashes(ask(), run_key="k")
    assert SINK.findings(plan.destinations[0], STREAM, after=FindingsReported()) == ((), FindingsReported())


def test_a_row_that_somebody_took_out_of_the_destination_stops_the_stream(bank: Bank) -> None:
    plan = memory_plan()
    onboard(plan, bank)
    STORES["warehouse"].state.tables["audit"] = {}
    with pytest.raises(Diverged, match="1 rows of audit should go"):
        stream(plan, bank)


class BrokenReaders:
    """Of `kinds.bulk.TableReaders`: the first table is empty, at the second one the source goes away."""

    def open_at_barrier(self) -> None: ...

    def rows(self, number: int, *, proven: Callable[[str], None]) -> TableRows:
        if number:
            raise PositionLost("the source was started again", hint="clear the task")
        proven("p")
        return ArrowRows(schema_of(TABLES[number]), iter(()))

    def close(self) -> None: ...


def test_a_read_in_this_process_that_fails_ends_with_its_own_error_in_every_destination(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # An example, so it is not installed beside the kinds of this repository.
    monkeypatch.setattr("seamline.bulk.copy.sink_kind", lambda _name: SINK)
    plan = memory_plan()
    both = tuple(replace(plan.destinations[0], name=name, connection=name) for name in ("archive", "warehouse"))
    places = {one.name: SINK.load_area(one, run_id="r").create(TABLES) for one in both}
    reads = [BulkRead(table, Segment(table.name), number) for number, table in enumerate(TABLES)]
    items = [
        CopyItem(read, tuple(CopyTarget(places[one.name][read.table.name], one) for one in both)) for read in reads
    ]
    tables = [TableRead(read.table, read.segment) for read in reads]
    opened = OpenedSource((), position(1), datetime.now(UTC), "p")
    read = SourceAtOnePosition(plan, tables, opened, _Here(items, BrokenReaders()), without_place={})
    for destination in both:
        with pytest.raises(PositionLost, match="started again"):
            read.stage(destination)


class Area:
    """Of `kinds.bulk.LoadArea`, as far as a read asks it."""

    is_dropped = False

    def create(self, tables: Sequence[Table]) -> dict[str, StagedPlace]:
        return {table.name: StagedPlace(table, "staged", table.name) for table in tables}

    def drop(self) -> None:
        self.is_dropped = True


class EmptyReaders(BrokenReaders):
    def rows(self, number: int, *, proven: Callable[[str], None]) -> TableRows:
        proven("p")
        return ArrowRows(schema_of(TABLES[number]), iter(()))


def test_what_is_staged_where_not_every_table_came_is_dropped_while_the_others_keep_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    areas = {name: Area() for name in ("archive", "warehouse")}

    def load(to: DestinationPlan, _place: StagedPlace, _rows: TableRows) -> int:
        if to.name == "archive":
            raise TransientError("the disk is full")
        return 0

    kind = SimpleNamespace(load_area=lambda one, run_id: areas[one.name], load=load, powers=SINK.powers)
    opened = OpenedSource((), position(1), datetime.now(UTC), "p", lambda _: EmptyReaders())
    source = SimpleNamespace(open_for_tasks=lambda *_: nullcontext(opened))
    for module in ("read", "copy"):
        monkeypatch.setattr(f"seamline.bulk.{module}.sink_kind", lambda _name: kind)
    monkeypatch.setattr("seamline.bulk.read.source_kind", lambda _name: source)
    plan = memory_plan()
    plan = replace(plan, destinations=tuple(replace(plan.destinations[0], name=name) for name in areas))
    run = Run("r", plan.sync, RunKind.ONBOARD, None, plan, RunState.RUNNING)
    archive, warehouse = plan.destinations
    with RunReader(run, tasks=lambda _: 1, copying_of=lambda *_: NoCopying()).open_read(
        [TableRead(table, Segment(table.name)) for table in TABLES]
    ) as read:
        with pytest.raises(TransientError, match="the disk is full"):
            read.stage(archive)
        assert len(read.stage(warehouse)) == len(TABLES)
    assert {name: area.is_dropped for name, area in areas.items()} == {"archive": True, "warehouse": False}


class NoCopying:
    """Of `bulk.read.Copying`: this process reads."""

    def start(self) -> None: ...

    def is_running(self) -> bool:
        return False

    def wait(self, timeout_s: float) -> None: ...

    def result(self) -> list[Copied]:
        return []

    def cancel(self) -> None: ...
