"""What every kind of source must do, each behaviour a function over a SourceWorld; some are for those with a power."""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from threading import Event, Thread
from typing import Any, cast

import pyarrow as pa
import pytest

from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.errors import InvariantViolated, LogCorrupted, SchemaConflict
from seamline.domain.log import LogRecord
from seamline.domain.measure import Measure
from seamline.domain.position import Position
from seamline.kinds.bulk import ArrowRows, BulkRead, TableReaders, Wanted
from seamline.kinds.source import SourceKind
from seamline.plan.model import SourcePlan
from seamline.ports import LoggedSource, Marker, ReadView, Source
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.postgres.position import PostgresPosition
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of
from seamline.values.digest import bucket_digests, float_summaries, segment_digest
from tests.contract.source_worlds import WEEK_S, LoggedWorld, Power, SourceWorld

SourceBehaviour = Callable[[Any], None]
# Each with the power that a source must have to keep it.
SOURCE_BEHAVIOURS: dict[SourceBehaviour, Power | None] = {}
TABLES = ("account", "audit", "kinds")
RUN_KEY = "run key"
ROUNDS = 2
_ATTEMPTS = itertools.count()
_WRITTEN_WITHIN_S = 60.0


def behaviour(check: SourceBehaviour) -> SourceBehaviour:
    SOURCE_BEHAVIOURS[check] = None
    return check


def behaviour_of(power: Power) -> Callable[[SourceBehaviour], SourceBehaviour]:
    def add(check: SourceBehaviour) -> SourceBehaviour:
        SOURCE_BEHAVIOURS[check] = power
        return check

    return add


def source_of(world: SourceWorld) -> Source:
    return world.kind.open_source(world.plan)


def logged_source_of(world: LoggedWorld) -> LoggedSource:
    return world.kind.open_source(world.plan)


@cache
def tables_of(world: SourceWorld) -> Sequence[Table]:
    """Asked once: some sources begin a process for each question."""
    return source_of(world).catalogue(TABLES)


class NoTasks:
    """`CopyTasks` of which there are none: nothing of them can have ended early."""

    def start(self, barrier: str) -> None: ...

    def is_running(self) -> bool:
        return True

    def result(self) -> None: ...


def wanted(world: SourceWorld, tables: Sequence[Table], *, views: int = 1, participants: int = 0) -> Wanted:
    attempt = f"attempt-{next(_ATTEMPTS)}"
    return Wanted(attempt, views, tuple(tables), participants, business_date=world.business_date)


@contextmanager
def views_of(world: SourceWorld, count: int = 1) -> Iterator[Sequence[ReadView]]:
    """Of a source without a log as many as it gives: one session cannot be two."""
    with ExitStack() as opened:
        if world.plan.has_log:
            views = cast(LoggedSource, source_of(world)).open_views(count)
            yield [opened.enter_context(closing(view)) for view in views]
        else:
            at_once = wanted(world, tables_of(world), views=count)
            yield opened.enter_context(world.kind.open_for_tasks(world.plan, at_once, NoTasks())).views


def position_of(world: SourceWorld) -> Position:
    with views_of(world) as (view, *_):
        return view.position


@contextmanager
def writing(world: SourceWorld) -> Iterator[Callable[[], None]]:
    """Somebody commits one transfer after another. What is given waits for one more."""
    ended, committed = Event(), Event()

    def write() -> None:
        while not ended.is_set():
            world.transfer(3)
            committed.set()

    def wait_for_one() -> None:
        committed.clear()
        assert committed.wait(_WRITTEN_WITHIN_S), "nobody commits"

    writer = Thread(target=write)
    writer.start()
    try:
        yield wait_for_one
    finally:
        ended.set()
        writer.join()


def contents(view: ReadView, *tables: str) -> dict[str, Any]:
    return {table: view.digests(Segment(table, buckets=4), run_key=RUN_KEY) for table in tables or TABLES}


# ---- catalogue -----------------------------------------------------------------------------------------------------


@behaviour
def tables_are_described_in_the_order_asked_with_their_keys(world: SourceWorld) -> None:
    audit, account = source_of(world).catalogue(["audit", "account"])
    assert (audit.name, audit.key, account.name, account.key) == ("audit", (), "account", ("id",))
    assert [column.name for column in account.columns] == ["id", "balance"]
    assert [column.nullable for column in account.columns] == [False, True]


@behaviour
def an_unknown_table_is_a_problem_with_a_guess_beside_those_that_are_there(world: SourceWorld) -> None:
    survey = source_of(world).survey(["acount", "account"])
    assert [table.name for table in survey.tables] == ["account"]
    (problem,) = survey.problems
    assert (problem.table, problem.is_fatal) == ("acount", True)
    assert re.search('[`"]account[`"]', problem.what + problem.cure)
    with pytest.raises(SchemaConflict, match="acount"):
        source_of(world).catalogue(["acount", "account"])


@behaviour
def a_table_is_altered_where_a_column_is_another_than_planned(world: SourceWorld) -> None:
    planned = tables_of(world)
    assert source_of(world).altered(planned) == []
    first, *others = planned
    other = replace(first, columns=(first.columns[0], replace(first.columns[1], source_type="text")))
    (text,) = source_of(world).altered([other, *others])
    assert text.startswith("account.balance is now ")


# ---- snapshots -----------------------------------------------------------------------------------------------------


@behaviour
def all_views_show_all_tables_at_one_position_while_somebody_writes(world: SourceWorld) -> None:
    seen = []
    with writing(world) as wait_for_one:
        for _ in range(ROUNDS):
            wait_for_one()
            with views_of(world, 3) as views:
                assert len({str(view.position) for view in views}) == 1
                first, *others = [contents(view, "account", "audit") for view in views]
                assert all(other == first for other in others)
                seen.append((str(views[0].position), first))
    assert len({at for at, _ in seen}) > 1
    assert seen[0][1] != seen[-1][1]


@behaviour_of(Power.WHOLE_TRANSACTIONS)
def a_view_shows_all_of_a_transaction_or_nothing_while_somebody_writes(world: SourceWorld) -> None:
    with writing(world) as wait_for_one:
        for _ in range(ROUNDS):
            wait_for_one()
            with views_of(world, 3) as views:
                balances = views[0].totals(Segment("account"), columns=["balance"], by=())[()][1]
                amounts = views[-1].totals(Segment("audit"), columns=["amount"], by=())
                # Before the first transfer nothing is in the audit, and its sum is NULL or no group at all.
                assert balances == (amounts.get((), (0, None))[1] or 0)


@behaviour
def each_kind_and_edge_value_is_read_as_it_was_written(world: SourceWorld) -> None:
    *_, kinds = tables_of(world)
    shown_as(world, kinds, batch_of(kinds, world.values()))


def shown_as(world: SourceWorld, kinds: Table, rows: pa.RecordBatch) -> None:
    """Column by column, so that a wrong one is named."""
    assert rows.schema.equals(schema_of(kinds), check_metadata=True)
    with views_of(world) as (view, *_):
        for column in kinds.columns[1:]:
            alone = replace(kinds, columns=(kinds.columns[0], column))
            names = tuple(one.name for one in alone.columns)
            (shown,) = view.digests(Segment("kinds", columns=names), run_key=RUN_KEY).values()
            mine = rows.select(list(names))
            assert segment_digest(alone, mine, run_key=RUN_KEY) == shown, column.name
        summaries = view.float_summaries(Segment("kinds"))
    for name, summary in float_summaries(kinds, [rows]).items():
        assert summary.agrees_with(summaries[name], kind=kinds.column(name).kind), name


@behaviour
def each_measure_of_a_control_total_is_what_the_rows_of_the_view_give(world: SourceWorld) -> None:
    for amount in (4, 9, 9, 2):
        world.transfer(amount)
    with views_of(world) as (view, *_):
        rows = view.row_hashes(Segment("audit"), run_key=RUN_KEY)
        amounts = [int(row.key.split(",")[1]) for row in rows for _ in range(row.copies)]
        expected = {
            Measure.SUM: sum(amounts),
            Measure.HASH: sum(amounts),
            Measure.LEAST: min(amounts),
            Measure.GREATEST: max(amounts),
            Measure.MISSING: max(amounts) - min(amounts) + 1 - len(set(amounts)),
            Measure.DUPLICATES: len(amounts) - len(set(amounts)),
        }
        for measure, number in expected.items():
            found = view.totals(Segment("audit"), columns=["amount"], by=(), measure=measure)
            assert found == {(): (len(amounts), number)}, measure


@behaviour
def a_view_stays_where_it_was_opened(world: SourceWorld) -> None:
    with views_of(world) as (view, *_):
        before = contents(view)
        world.transfer(5)
        assert contents(view) == before
        assert contents(view) == before, "read once more"
    with views_of(world) as (view, *_):
        assert contents(view)["account"] != before["account"]
        assert contents(view)["kinds"] == before["kinds"]


Found = tuple[dict[str, pa.RecordBatch], set[str]]


def read_tables(kind: SourceKind, plan: SourcePlan, reads: Sequence[BulkRead], barrier: str) -> Found:
    """What one task reads of each table, and by what it proves where it stands."""
    return read_by(kind.open_readers(plan, reads, barrier=barrier, participant=0), reads)


def read_by(opened: TableReaders, reads: Sequence[BulkRead]) -> Found:
    found, proofs = {}, set[str]()
    with closing(opened) as readers:
        readers.open_at_barrier()
        for number, read in enumerate(reads):
            rows = readers.rows(number, proven=proofs.add)
            assert isinstance(rows, ArrowRows)
            assert rows.schema.equals(schema_of(read.table), check_metadata=True), read.table.name
            found[read.table.name] = pa.concat_batches([batch_of(read.table, ()), *rows.batches])
    return found, proofs


class OneTask:
    """`CopyTasks` of one participant."""

    def __init__(self, world: SourceWorld, reads: Sequence[BulkRead], pool: Executor) -> None:
        self._read = partial(pool.submit, read_tables, world.kind, world.plan, reads)
        self._future: Future[Found] | None = None

    def start(self, barrier: str) -> None:
        self._future = self._read(barrier)

    def is_running(self) -> bool:
        return self._future is not None and not self._future.done()

    def result(self) -> Found:
        assert self._future is not None
        return self._future.result()


@behaviour
def a_task_reads_the_rows_that_the_views_show(world: SourceWorld) -> None:
    tables = tables_of(world)
    reads = [BulkRead(table, Segment(table.name), number) for number, table in enumerate(tables)]
    with world.task_pool() as pool, writing(world):
        task = OneTask(world, reads, pool)
        with world.kind.open_for_tasks(world.plan, wanted(world, tables, participants=1), task) as opened:
            # Where no task's session comes to the place, the process that opened the source reads.
            found, proofs = read_by(opened.read_here(reads), reads) if opened.read_here else task.result()
            assert proofs == {opened.proof}
            for table in tables:
                shown = opened.views[0].digests(Segment(table.name, buckets=4), run_key=RUN_KEY)
                mine = bucket_digests(table, found[table.name], buckets=4, run_key=RUN_KEY)
                assert mine == shown, table.name


# ---- the log -------------------------------------------------------------------------------------------------------


@behaviour_of(Power.LOG)
def what_the_log_says_of_every_kind_and_edge_value_is_what_a_snapshot_holds(world: LoggedWorld) -> None:
    *_, kinds = tables_of(world)
    rows, missing = world.kind.change_decoder(world.plan).rows(kinds, world.images())
    assert missing is None
    shown_as(world, kinds, rows)


@behaviour_of(Power.LOG)
def a_row_image_of_another_schema_is_refused_with_the_name_of_its_table(world: LoggedWorld) -> None:
    (account,) = source_of(world).catalogue(["account"])
    decoder = world.kind.change_decoder(world.plan)
    for image in (b'{"id":1}', b'{"id":1,"balance":2,"more":3}', b'{"id":1,"balance":"two"}'):
        with pytest.raises(SchemaConflict) as refused:
            decoder.rows(account, [b'{"id":1,"balance":2}', image])
        assert refused.value.table == "account"
    for image in (b"", b"[]", b'{"id":1'):
        with pytest.raises(LogCorrupted, match="account"):
            decoder.rows(account, [image])


@dataclass(frozen=True, slots=True)
class Odd:
    """A message of the log topic that no capture writes."""

    content: bytes | None

    def offset(self) -> int:
        return 7

    def key(self) -> None:
        return None

    def value(self) -> bytes | None:
        return self.content

    def headers(self) -> None:
        return None


@behaviour_of(Power.LOG)
def a_record_that_no_capture_writes_stops_by_its_offset(world: LoggedWorld) -> None:
    for content in (None, b"", b"{}", b"[1]", b"\xff", b'{"op":"z"}', b'{"status":"BEGIN","id":"nothing of ours"}'):
        into: list[LogRecord] = []
        with pytest.raises(LogCorrupted, match="offset 7"):
            world.kind.decoder(world.plan, ()).decode([Odd(content)], into)
        assert into == []


# ---- positions -----------------------------------------------------------------------------------------------------


@behaviour_of(Power.LOG)
def positions_are_ordered_by_what_they_cover(world: LoggedWorld) -> None:
    first = position_of(world)
    world.transfer(1)
    second = position_of(world)
    for position in (first, second):
        assert position.covers(position)
        assert position.reaches(position)
        assert position.covers(position.start_of_log())
        assert position.tracker().position == position
    assert second.covers(first)
    assert not first.covers(second)
    assert not first.start_of_log().covers(second)


@behaviour_of(Power.NO_LOG)
def a_position_without_a_log_covers_its_own_read_and_no_other(world: SourceWorld) -> None:
    first = position_of(world)
    world.transfer(1)
    second = position_of(world)
    for mine, other in ((first, second), (second, first)):
        assert mine.covers(mine)
        assert not mine.covers(other)
    with pytest.raises(InvariantViolated):
        first.tracker()


@behaviour
def a_position_comes_back_from_its_json(world: SourceWorld) -> None:
    position = position_of(world)
    for one in (position, position.start_of_log()) if world.plan.has_log else (position,):
        document = json.loads(json.dumps(one.to_json()))
        assert type(one).from_json(document) == one


@behaviour_of(Power.LOG)
def a_position_of_another_kind_is_no_position_here(world: LoggedWorld) -> None:
    position = position_of(world)
    other = PostgresPosition(1) if isinstance(position, BinlogPosition) else BinlogPosition("0-1-1")
    for ask in (position.covers, position.sees, position.reaches):
        with pytest.raises(InvariantViolated, match="different sources"):
            ask(other)


# ---- markers -------------------------------------------------------------------------------------------------------


@behaviour_of(Power.LOG)
def a_marker_committed_again_is_the_same_marker(world: LoggedWorld) -> None:
    marker = Marker(id="low-1", kind="low", payload={"run": "x/onboard/-", "名": 1})
    for kind in ("low", "high"):
        logged_source_of(world).commit_marker(replace(marker, kind=kind))
    ((found, payload),) = world.markers()
    assert (found, json.loads(payload)) == ("low-1", marker.payload)


@behaviour_of(Power.LOG)
def old_markers_are_deleted_and_new_ones_stay(world: LoggedWorld) -> None:
    source, aged = logged_source_of(world), old_and_new_markers(world)
    pruned = [source.prune_markers(older_than_s=WEEK_S, rows_max=2) for _ in range(aged)]
    assert (sum(pruned), pruned[-1]) == (aged, 0)
    assert [found for found, _ in world.markers()] == ["new"]


@behaviour_of(Power.MARKER_TABLE)
def old_markers_are_deleted_a_few_at_a_time(world: LoggedWorld) -> None:
    assert old_and_new_markers(world) > 2
    assert logged_source_of(world).prune_markers(older_than_s=WEEK_S, rows_max=2) == 2


def old_and_new_markers(world: LoggedWorld) -> int:
    """How many are old."""
    source = logged_source_of(world)
    for number in range(3):
        source.commit_marker(Marker(id=f"old-{number}", kind="heartbeat"))
    world.age_markers()
    aged = len(world.markers())
    source.commit_marker(Marker(id="new", kind="heartbeat"))
    return aged
