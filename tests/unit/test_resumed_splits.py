"""A load that goes on with splits: whose trouble is whose, and how long the log may take."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from seamline.bulk.copy import CopyItem, CopyTarget, copy_one, grouped
from seamline.bulk.read import RunReader
from seamline.bulk.resume import SplitLoads, _Kept
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.digest import Segment
from seamline.domain.errors import Diverged, GateFailed, SeamlineError, TransientError
from seamline.domain.load_splits import DoneSplit, SplitRead
from seamline.domain.log_archive import Archived
from seamline.domain.made_from import LogPlace
from seamline.domain.row_transform import Expression, RowTransform
from seamline.domain.runs import RunKind, RunState
from seamline.kinds.bulk import BulkRead, Form, LoadProgress, PostgresCopy, StagedPlace, TableRows
from seamline.plan.model import ArchivePlan, DestinationPlan, Run, SyncPlan, TablePlan
from seamline.ports import TableRead
from seamline.sinks.relational import splits as relational
from seamline.sync.log_until_marker import transactions_until
from seamline.sync.outcomes import in_each
from tests.log_topic import ACCOUNT, position, sync_plan

NOTHING: Any = None
FIRST, SECOND = (DestinationPlan(name, "postgres", name, "bank") for name in ("first", "second"))
EARLIER = SplitRead("r1", "p1", position(1), LogPlace("log", "t1", 50, position(1), is_exact=False))


# ---- a destination that fails ---------------------------------------------------------------------------------------


class Readers:
    """Two blocks of each table. `away`: the source is, behind the first of them."""

    def __init__(self, *, away: bool = False) -> None:
        self.read: list[int] = []
        self._away = away

    def open_at_barrier(self) -> None: ...

    def rows(self, number: int, *, proven: Callable[[str], None]) -> TableRows:
        def blocks() -> Any:
            self.read.append(number)
            proven("p")
            yield b"1"
            if self._away:
                raise TransientError("the source is away")
            yield b"2"

        return PostgresCopy(blocks())

    def close(self) -> None: ...


@dataclass
class Loading:
    """A kind of destination. `full`: those whose disk is."""

    full: Sequence[str]

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        assert isinstance(rows, PostgresCopy)
        next(rows.blocks)
        if destination.name in self.full:
            raise TransientError(f"{destination.name} is full", table=place.table.name)
        return 1 + sum(1 for _ in rows.blocks)


def split_of(*to: DestinationPlan) -> CopyItem:
    place = StagedPlace(ACCOUNT, "stage", "account_1")
    return CopyItem(BulkRead(ACCOUNT, Segment("account"), 0, Form.NATIVE), tuple(CopyTarget(place, one) for one in to))


def test_a_split_that_one_destination_lacks_ends_no_other_when_that_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier attempt has staged in the first alone is read for the second alone."""
    items = [split_of(SECOND), split_of(SECOND), split_of(FIRST, SECOND)]
    (group,) = grouped(items, source=NOTHING, tasks=1)
    monkeypatch.setattr("seamline.bulk.copy.sink_kind", lambda _: Loading(["second"]))
    readers, failed = Readers(), dict[str, SeamlineError]()
    found = [
        one for number, item in enumerate(items) for one in copy_one(readers, number, item, failed, group.destinations)
    ]
    assert [(one.destination, one.rows, one.error is None) for one in found] == [
        ("second", 0, False), ("second", 0, False), ("first", 2, True), ("second", 0, False)
    ]  # fmt: skip
    assert readers.read == [0, 2], "nothing is read for a destination that has failed"


def test_a_copy_ends_where_no_destination_is_left_and_by_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamline.bulk.copy.sink_kind", lambda _: Loading(["first", "second"]))
    failed = dict[str, SeamlineError]()
    copy_one(Readers(), 0, split_of(SECOND), failed, {"first", "second"})
    with pytest.raises(TransientError, match="first is full"):
        copy_one(Readers(), 1, split_of(FIRST), failed, {"first", "second"})
    monkeypatch.setattr("seamline.bulk.copy.sink_kind", lambda _: Loading([]))
    with pytest.raises(TransientError, match="the source is away"):
        copy_one(Readers(away=True), 0, split_of(SECOND), {}, {"first", "second"})


# ---- a trouble that is no destination's -----------------------------------------------------------------------------


@dataclass
class Area:
    """Of `kinds.bulk.SplitArea`."""

    away: bool = False
    noted: list[str] = field(default_factory=list)
    forgotten: int = 0
    dropped: int = 0

    def note_read(self, read: str, document: str) -> None:  # noqa: ARG002
        if self.away:
            raise TransientError("it is away")
        self.noted.append(read)

    def forget(self) -> None:
        self.forgotten += 1

    def drop(self) -> None:
        self.dropped += 1

    def held(self) -> AbstractContextManager[None]:
        if self.away:
            raise TransientError("it is away")
        return nullcontext()


def loads_of(
    areas: Mapping[str, Area], changes: Callable[..., Mapping[str, TableChanges]], *, plan: SyncPlan | None = None
) -> SplitLoads:
    """The first destination has a split of an earlier attempt."""
    plan = replace(plan or sync_plan((ACCOUNT,)), destinations=(FIRST, SECOND))
    loads = object.__new__(SplitLoads)
    loads._run = Run("r", plan.sync, RunKind.ONBOARD, None, plan, RunState.RUNNING)
    loads._read, loads._place, loads._hold, loads._changes = "r2", EARLIER.place, "hold", {}
    loads._log_begins = 50
    loads._log = SimpleNamespace(changes=changes)  # type: ignore[assignment]
    loads._tools = SimpleNamespace(holds=SimpleNamespace(release_log=lambda _: None))  # type: ignore[assignment]
    loads._kept = {one.name: _Kept(one, areas[one.name]) for one in (FIRST, SECOND)}  # type: ignore[arg-type]
    loads._kept["first"].done = {"account": (DoneSplit(0, "r1", "p1", 5),)}
    loads._kept["first"].reads = {"r1": EARLIER}
    return loads


OPENED: Any = SimpleNamespace(position=position(2), proof="p2")


def test_a_destination_that_cannot_note_the_read_is_loaded_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    areas = {"first": Area(), "second": Area(away=True)}
    loads = loads_of(areas, lambda *_: {})
    loads.opened(OPENED)
    assert (areas["first"].noted, set(loads._kept)) == (["r2"], {"first", "second"})
    assert "the load into second cannot be resumed if it is interrupted: it is away" in caplog.text


def test_a_log_that_does_not_bring_splits_forward_ends_the_attempt_and_charges_no_destination() -> None:
    def too_much(*_: object) -> Mapping[str, TableChanges]:
        raise Diverged("too many changes")

    def emptied(*_: object) -> Mapping[str, TableChanges]:
        return {"account": SimpleNamespace(truncate_first=True)}  # type: ignore[dict-item]

    for changes in (too_much, emptied):
        areas = {"first": Area(), "second": Area()}
        with pytest.raises(TransientError, match="the log does not bring it to one position"):
            loads_of(areas, changes).opened(OPENED)
        assert [one.forgotten for one in areas.values()] == [1, 1]


def test_splits_whose_log_lies_in_the_archive_alone_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = sync_plan((ACCOUNT,))
    archived = replace(plan, source=replace(plan.source, archive=ArchivePlan("/srv/log")))
    held = SimpleNamespace(archived=lambda: Archived(10, 70, 2))
    monkeypatch.setattr("seamline.registry.log_archive", lambda *_: nullcontext(held))
    for which, begins in ((plan, 60), (archived, 10)):
        loads = loads_of({"first": Area(), "second": Area()}, lambda *_: {}, plan=which)
        assert loads._begins_for([EARLIER]) == 50, "of what the log has the archive is not asked"
        loads._log_begins = 60
        assert loads._begins_for([EARLIER]) == begins


def test_how_far_a_load_is_need_not_be_written_down(caplog: pytest.LogCaptureFixture) -> None:
    def away(_: object) -> None:
        raise TransientError("the platform database is away")

    run = Run("r", "pay", RunKind.ONBOARD, None, sync_plan(), RunState.RUNNING)
    look = RunReader(run, tasks=lambda _: 1, copying_of=NOTHING, on_progress=away)._reporting([], 0)
    look([LoadProgress(1, (), is_working=True, rows=1)])
    assert "could not be kept: the platform database is away" in caplog.text


# ---- changes as a destination holds its rows ------------------------------------------------------------------------

# The length of the name, and no row whose name is `out`.
MASKED = RowTransform(
    "include/transforms/account.sql",
    "SELECT id, length(name) AS size FROM account WHERE name <> 'out'",
    Table("account", (ACCOUNT.columns[0], Column("size", Kind.INTEGER, "int", length=32)), ("id",)),
    (
        Expression("column", "int", value="id"),
        Expression("length", "int", (Expression("column", "string", value="name"),)),
    ),
    Expression(
        "not",
        "boolean",
        (
            Expression(
                "equal",
                "boolean",
                (Expression("column", "string", value="name"), Expression("literal", "string", value="out")),
            ),
        ),
    ),
)
POSTING = Table("posting", (Column("booked", Kind.DATE, "date"), Column("memo", Kind.STRING, "text")))
DAY = date(2026, 11, 24)


def loads_of_table(planned: TablePlan, segment: Segment, edges: tuple[int, ...] = ()) -> SplitLoads:
    """The second destination has the table as `MASKED` makes it."""
    second = replace(SECOND, transforms=(("account", MASKED),))
    plan = replace(sync_plan(()), destinations=(FIRST, second), tables=(planned,))
    loads = loads_of({"first": Area(), "second": Area()}, lambda *_: {}, plan=plan)
    loads._run = replace(loads._run, plan=plan)
    loads._reads = {planned.name: TableRead(planned.definition, segment)}
    loads._edges = {planned.name: edges}
    return loads


def test_tables_without_a_key_and_transformed_ones_are_kept_and_parts_of_tables_are_not() -> None:
    masked, posting = TablePlan("account", table=ACCOUNT, transform=MASKED), TablePlan("posting", table=POSTING)
    for planned, segment, is_kept in (
        (masked, Segment("account"), True),
        (posting, Segment("posting"), True),
        (posting, Segment("posting", date_column="booked", date_from="2026-11-24"), True),
        (masked, Segment("account", key_from=5), False),
        (replace(posting, ahead_of="posted"), Segment("posting"), False),
    ):
        loads = loads_of_table(planned, segment)
        assert loads._is_kept(loads._reads[planned.name]) is is_kept


def test_changes_come_to_kept_splits_as_the_destination_holds_the_rows() -> None:
    def changed(number: int, name: str, *, deleted: bool = False) -> KeyedChange:
        image = f'{{"id":{number},"name":"{name}"}}'.encode()
        return KeyedChange(str(number).encode(), deleted, True, image, number)  # noqa: FBT003 (a field)

    changes = [changed(1, "out"), changed(2, "three"), changed(15, "later"), changed(25, "", deleted=True)]
    loads = loads_of_table(TablePlan("account", table=ACCOUNT), Segment("account"), edges=(10, 20))
    loads._changes = {"r1": {"account": TableChanges("account", keyed=changes)}}
    for name, columns in (("first", ["id", "name"]), ("second", ["id", "size"])):
        kept = _Kept(loads._run.plan.destination(name), NOTHING)
        kept.done = {"account": (DoneSplit(0, "r1", "p1", 5), DoneSplit(1, "r2", "p2", 5), DoneSplit(2, "r1", "p1", 5))}
        batch = loads._batch(kept, "account", EARLIER)
        assert batch is not None
        assert batch.rows.schema.names == columns
        assert batch.rows.column("id").to_pylist() == [1, 2, 25]
        assert batch.deleted is not None
        if name == "first":
            assert batch.deleted.to_pylist() == [False, False, True]
        else:
            assert batch.deleted.to_pylist() == [True, False, True], "what the query takes out goes"
            assert batch.rows.column("size").to_pylist() == [None, 5, None]


def test_of_a_table_without_a_key_by_date_only_changes_of_its_date_come() -> None:
    """What leaves another date was never staged: to take it away would meet nothing."""
    images = {(0, "in"): 2, (0, "out"): -1, (-1, "out"): 1, (-1, "gone"): -3}
    days = (DAY - date(1970, 1, 1)).days
    net = {f'{{"booked":{days + ago},"memo":"{memo}"}}'.encode(): count for (ago, memo), count in images.items()}
    changes = {"r1": {"posting": TableChanges("posting", net=net)}}
    dated = Segment("posting", date_column="booked", date_from=f"{DAY}", date_to=f"{DAY + timedelta(days=1)}")
    for segment, expected in ((dated, [2, -1]), (Segment("posting"), [2, -1, 1, -3])):
        loads = loads_of_table(TablePlan("posting", table=POSTING), segment)
        loads._changes = changes
        batch = loads._batch(_Kept(FIRST, NOTHING), "posting", EARLIER)
        assert batch is not None
        assert batch.copies is not None
        assert batch.copies.to_pylist() == expected


# ---- what is kept for the next attempt ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("errors", "forgotten", "dropped"),
    [
        ({"first": TransientError("away")}, 0, 0),
        ({"first": TransientError("away"), "second": GateFailed("it differs")}, 1, 0),
        ({"first": GateFailed("it differs")}, 1, 0),
        ({"first": SeamlineError("for good")}, 1, 1),
    ],
)
def test_only_what_was_interrupted_is_gone_on_with(
    monkeypatch: pytest.MonkeyPatch, errors: dict[str, SeamlineError], forgotten: int, dropped: int
) -> None:
    """Also where the first destination was interrupted, and another one's comparison has failed."""
    area = Area()
    splits = SimpleNamespace(opened=lambda _: None, forget=area.forget)
    begun = SimpleNamespace(
        source=SimpleNamespace(kind="x"), wanted=None, tasks=SimpleNamespace(cancel=lambda: None), splits=splits,
        opened=lambda *_: None, forget=area.forget, drop=area.drop,
    )  # fmt: skip
    plan = replace(sync_plan(), destinations=tuple(one for one in (FIRST, SECOND) if one.name in errors))
    reader = RunReader(
        Run("r", "s", RunKind.ONBOARD, None, plan, RunState.RUNNING), tasks=lambda _: 1, copying_of=NOTHING
    )
    monkeypatch.setattr(reader, "_begun", lambda _: begun)
    source = SimpleNamespace(open_for_tasks=lambda *_: nullcontext(OPENED))
    monkeypatch.setattr("seamline.bulk.read.source_kind", lambda _: source)

    def compared(destination: DestinationPlan) -> None:
        raise errors[destination.name]

    with suppress(SeamlineError), reader.open_read(list[TableRead]()):
        in_each(plan.destinations, compared)
    assert (area.forgotten, area.dropped) == (forgotten, dropped)


@pytest.mark.parametrize("where", ["while it is loaded", "while it is compared"])
def test_a_destination_that_goes_away_in_a_load_keeps_no_other_from_being_written_down(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The lease of each destination was asked for, also of one whose load had failed, so the attempt ended."""
    areas = {"first": Area(), "second": Area()}
    loads = loads_of(areas, lambda *_: {})
    read = SimpleNamespace(incomplete=set[str]())
    begun = SimpleNamespace(
        source=SimpleNamespace(kind="x"), wanted=None, tasks=SimpleNamespace(cancel=lambda: None), splits=loads,
        areas=areas, opened=lambda *_: read,
    )  # fmt: skip
    reader = RunReader(loads._run, tasks=lambda _: 1, copying_of=NOTHING)
    monkeypatch.setattr(reader, "_begun", lambda _: begun)
    source = SimpleNamespace(open_for_tasks=lambda *_: nullcontext(OPENED))
    monkeypatch.setattr("seamline.bulk.read.source_kind", lambda _: source)
    sink = SimpleNamespace(open_staged=lambda *_, **__: [])
    monkeypatch.setattr(RunReader, "_reads_back", staticmethod(lambda _: sink))
    with reader.open_read(list[TableRead]()):
        areas["second"].away = True
        if where == "while it is loaded":
            read.incomplete.add("second")
        else:
            with suppress(TransientError), reader.open_staged(SECOND, [], 1):
                raise TransientError("it is away")
    with reader.held():
        pass
    areas["first"].away = True
    with pytest.raises(TransientError, match="it is away"), reader.held():
        pass
    with reader.open_read(list[TableRead]()):
        read.incomplete.clear()
    areas["first"].away = False
    with pytest.raises(TransientError, match="it is away"), reader.held():
        pass


def test_records_of_loads_that_are_gone_are_deleted_one_by_one_and_nothing_else_is_locked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether a DELETE that looks for them waits for a split that is being written is up to the server."""
    found = {
        "staged_split": [("there", 0), ("gone", 1)],
        "staged_read": [("r1", "mine"), ("r2", "over")],
        "staged_load": [("there", "mine"), ("gone", "over")],
        "information_schema": [("there",), ("staged_load",)],
    }
    asked: list[str] = []
    deleted: list[tuple[str, object]] = []

    def query(_: object, statement: str, *__: object) -> Sequence[tuple[object, ...]]:
        (name,) = (one for one in found if one in statement)
        asked.append(name)
        return found[name]

    def execute(_: object, statement: str, given: object = ()) -> int:
        if statement.startswith("DELETE"):
            assert "NOT IN" not in statement
            deleted.append((statement.split()[2].rpartition(".")[2], given))
        return 1

    monkeypatch.setattr(relational, "query", query)
    monkeypatch.setattr(relational, "execute", execute)
    area = object.__new__(relational.SplitStagingArea)
    area._database = "stage"
    area._tidy(NOTHING)
    assert deleted == [("staged_load", ("gone",)), ("staged_split", ("gone", 1)), ("staged_read", ("r2",))]
    assert asked == ["staged_split", "staged_read", "staged_load", "information_schema"], "the last written comes first"


# ---- the log --------------------------------------------------------------------------------------------------------


@dataclass
class BusyLog:
    """Of `TransactionBuffer`: each look takes 40 s and brings a transaction of other tables, of ten offsets. `stands`
    at an offset from which on none comes. The marker is the last before 1,000."""

    stands: int = 10**6
    trouble: SeamlineError | None = None
    has_large_open_transaction: bool = False
    found_records: bool = True
    at: int = 0
    time: float = 0.0
    waiting: list[Any] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def pop(self) -> Any:
        return self.waiting.pop(0)

    def read(self, wait_s: float) -> None:  # noqa: ARG002
        self.time += 40
        self.found_records = self.at < self.stands
        if self.found_records:
            self.at += 10
            markers = [SimpleNamespace(after=b'{"id": "m"}')] if self.at == 1_000 else []
            self.waiting.append(SimpleNamespace(end=self.at, markers=markers))

    def now(self) -> float:
        return self.time


def whole(log: BusyLog, **given: Any) -> int:
    late = partial(TransientError, "too late")
    found = transactions_until(
        log, "m", clock=log, wait_max_s=600, look_every_s=1, too_large=late, too_late=late, **given  # type: ignore[arg-type]
    )  # fmt: skip
    return sum(1 for _ in found)


def test_a_log_that_is_busy_with_other_tables_is_read_however_long_it_takes_and_one_that_stands_is_not() -> None:
    assert whole(BusyLog(), backlog_ends=990) == 100
    for late in (partial(whole, BusyLog(stands=500), backlog_ends=990), partial(whole, BusyLog(), backlog_ends=100)):
        with pytest.raises(TransientError, match="too late"):
            late()
