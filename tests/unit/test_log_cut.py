"""Cuts from the log: random histories and chains of cuts against a replay, implementations that are wrong, and what
keeps a cut from being made so."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamline import registry
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.cutover import BoundaryGate
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import SchemaConflict, TransientError
from seamline.domain.made_from import (
    EarlierCut,
    LogPlace,
    MadeFrom,
    NotByLog,
    by_log_from_json,
    by_log_to_json,
)
from seamline.domain.runs import Cut as PublishedCut
from seamline.domain.verdict import Verdict
from seamline.plan.model import BusinessDate, NightlyPlan, TablePlan
from seamline.ports import ReadView
from seamline.sync.cut import dates_of
from seamline.sync.from_earlier_cut import dates_in_base, expected_view
from seamline.sync.late_in_log import late_in_log
from seamline.sync.log_cut import CutLogLimits, LogToCutOff, LogTools, read_to_cut_off
from seamline.sync.system_date import SystemDate, system_date_of
from seamline.values.changes import under_name
from seamline.values.dated_changes import of_dates
from seamline_memory.apply import apply
from seamline_memory.store import identity_of
from tests.log_topic import TOPIC, TOPIC_ID, Change, LogTopic, ManualClock, TopicReader, gtid, position, sync_plan
from tests.unit.memory_views import MemoryView, Row
from tests.unit.test_nightly_cut import DatedView

_ID = Column("id", Kind.INTEGER, "bigint", nullable=False, length=64)
_DAY = Column("day", Kind.DATE, "date")
_MEMO = Column("memo", Kind.STRING, "varchar(40)", length=40)
ACCOUNT = Table("account", (_ID, _MEMO), ("id",))
ENTRY = Table("entry", (_ID, _DAY, _MEMO), ("id",))
VISIT = Table("visit", (_DAY, _MEMO))
TABLES = (ACCOUNT, ENTRY, VISIT)
FIRST = date(2026, 3, 4)
DAYS = [FIRST + timedelta(days=n) for n in range(5)]
PLAN = replace(
    sync_plan(TABLES),
    tables=tuple(TablePlan(t.name, BusinessDate("day", "date") if t is not ACCOUNT else None, t) for t in TABLES),
    nightly=NightlyPlan(timezone="UTC", made_from=MadeFrom.LOG),
)
OF_CUTS = PLAN.of_cuts
State = Mapping[str, list[Row]]
EMPTY: State = {table.name: [] for table in TABLES}


def end_of(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)


def logged(row: Row | None) -> Row | None:
    return row and {name: (v - date(1970, 1, 1)).days if isinstance(v, date) else v for name, v in row.items()}


@dataclass
class History:
    """A log, what the tables held after each of its transactions, and when each says that it was committed."""

    log: LogTopic = field(default_factory=lambda: LogTopic(TABLES))
    states: list[State] = field(default_factory=lambda: [EMPTY])
    ends: list[int] = field(default_factory=lambda: [0])
    committed: list[datetime | None] = field(default_factory=lambda: [None])
    # Those that change a row.
    changing: set[int] = field(default_factory=set)

    def commit(self, at: datetime, *changes: tuple[Table, Row | None, Row | None]) -> None:
        state = {name: list(rows) for name, rows in self.states[-1].items()}
        for table, before, after in changes:
            if before is not None:
                state[table.name].remove(before)
            if after is not None:
                state[table.name].append(after)
        self.log.clock_ms = lambda: int(at.timestamp() * 1000)
        self.log.transaction(*(Change(t.name, logged(before), logged(after)) for t, before, after in changes))
        self._keep(state, at)
        if changes:
            self.changing.add(len(self.committed) - 1)

    def empty(self, table: Table, at: datetime) -> None:
        self.log.clock_ms = lambda: int(at.timestamp() * 1000)
        self.log.truncate(table.name)
        self._keep({**self.states[-1], table.name: []}, at)
        self.changing.add(len(self.committed) - 1)

    def _keep(self, state: State, at: datetime | None) -> None:
        self.states.append(state)
        self.ends.append(self.log.end)
        self.committed.append(at)

    def held_at(self, cut_off: datetime) -> int:
        """The number of the last transaction before the first that was committed at the cut-off or later."""
        after = (n for n, at in enumerate(self.committed) if at is not None and at >= cut_off)
        return next(after) - 1

    def late_for(self, cut_off: datetime) -> list[str]:
        """Which of those behind it change a row, and say to be from before the cut-off."""
        behind = list(enumerate(self.committed))[self.held_at(cut_off) + 1 :]
        return [gtid(n) for n, at in behind if at is not None and at < cut_off and n in self.changing]

    @staticmethod
    def random(dice: Random, transactions: int) -> "History":
        history, now = History(), datetime(2026, 3, 4, tzinfo=UTC)
        step = timedelta(days=len(DAYS)) / transactions
        for _ in range(transactions):
            now += step * dice.random() * 2
            if dice.random() < 0.04:
                history.empty(dice.choice(TABLES), now + timedelta(hours=dice.choice((0, -5, 5))))
                continue
            drawn = _Draw(dice, history.states[-1])
            # A clock that is not in step with the log.
            stray = timedelta(hours=dice.choice((0, 0, 0, -5, 5)))
            history.commit(now + stray, *(drawn.change() for _ in range(dice.randint(0, 4))))
        return history


class _Draw:
    def __init__(self, dice: Random, state: State) -> None:
        self._dice = dice
        self._state = {name: list(rows) for name, rows in state.items()}

    def change(self) -> tuple[Table, Row | None, Row | None]:
        dice, table = self._dice, self._dice.choice(TABLES)
        rows = self._state[table.name]
        before = dice.choice(rows) if rows and dice.random() < 0.6 else None
        after = None if before is not None and dice.random() < 0.3 else self._row(table)
        if after is not None and table.is_keyed:
            before = next((row for row in rows if row["id"] == after["id"]), before)
        if before is not None:
            rows.remove(before)
        if after is not None:
            rows.append(after)
        return table, before, after

    def _row(self, table: Table) -> Row:
        dice = self._dice
        row: Row = {"id": dice.randint(1, 15), "day": dice.choice((None, *DAYS)), "memo": dice.choice(("a", "b", None))}
        return {column.name: row[column.name] for column in table.columns}


# ---- a destination in memory ----------------------------------------------------------------------------------------


class Views:
    """`ports.ReadView` of several tables in memory."""

    def __init__(self, tables: Mapping[Table, list[Row]]) -> None:
        self.position = position(0)
        self._of = {table.name: OpenDatedView(table, rows, position(0)) for table, rows in tables.items()}

    def __getattr__(self, name: str) -> Any:
        if not hasattr(ReadView, name):
            raise AttributeError(name)

        def ask(about: Segment | str, *rest: Any, **named: Any) -> Any:
            return getattr(self._of[about.table if isinstance(about, Segment) else about], name)(about, *rest, **named)

        return ask


class OpenDatedView(DatedView):
    def _selected(self, segment: Segment, run_key: str) -> list[Row]:
        if not segment.date_column:
            return super()._selected(segment, run_key)
        rows = [row for row in MemoryView._selected(self, replace(segment, date_column=""), run_key)]
        return [row for row in rows if is_of(row[segment.date_column], segment)]


def is_of(day: date | None, segment: Segment) -> bool:
    text = "" if day is None else day.isoformat()
    return bool(text) and segment.date_from <= text and (not segment.date_to or text < segment.date_to)


def of_cut(state: State, day: date) -> dict[str, list[Row]]:
    """What the cut of a date holds of a state."""
    found = {}
    for table in OF_CUTS.tables:
        rows = state[table.ahead_of or table.name]
        if table.business_date is not None:
            dates = dates_of(OF_CUTS, table, day)
            rows = [row for row in rows if is_of(row["day"], dates)]
        found[table.name] = rows
    return found


@dataclass
class Cut:
    day: date
    base: EarlierCut
    held: Mapping[str, list[Row]]


def read_at(history: History, number: int, low: int, day: date = FIRST) -> Cut:
    """The cut of a date, read from the source; the low marker of its read lies behind transaction `low`."""
    place = LogPlace(TOPIC, TOPIC_ID, history.ends[low], position(low), is_exact=False)
    base = EarlierCut(day, 1, "r0", Verdict.MATCH, position(number), place, day.isoformat(), 0, {})
    return Cut(day, base, of_cut(history.states[number], day))


@dataclass
class Night:
    """What makes one cut from another. Wrong implementations change a part of it."""

    history: History
    clock: ManualClock = field(default_factory=ManualClock)
    limits: CutLogLimits = field(default_factory=CutLogLimits)
    markers: int = 0

    def read(self, base: EarlierCut, day: date) -> LogToCutOff:
        reader: Any = TopicReader(self.history.log, at_most=3)
        return read_to_cut_off(PLAN, base, end_of(day), LogTools(lambda: reader, self.mark, self.clock, self.limits))

    def mark(self) -> str:
        self.markers += 1
        self.history.log.clock_ms = lambda: int(end_of(DAYS[-1]).timestamp() * 1000)
        self.history.log.marker(f"m{self.markers}", "barrier")
        return f"m{self.markers}"

    def make(self, cut: Cut, day: date) -> tuple[Cut, ReadView, Views]:
        log = self.read(cut.base, day)
        view: Any = Views({t.target: cut.held[t.name] for t in OF_CUTS.tables if t.ahead_of or t.name == "account"})
        expected = expected_view(OF_CUTS, day, view, log.changes, registry.log_patches(PLAN), log.position)
        held = self.carried_on(cut, log, day)
        made = EarlierCut(day, 1, "r", Verdict.MATCH, log.position, log.place, log.made.read_date, log.made.steps, {})
        return Cut(day, made, held), expected, Views({t.target: held[t.name] for t in OF_CUTS.tables})

    @staticmethod
    def carried_on(cut: Cut, log: LogToCutOff, day: date) -> dict[str, list[Row]]:
        """By the path of the typed form, as a destination does it."""
        held, dates, batches = {}, dates_in_base(OF_CUTS, day), registry.log_batches(PLAN)
        for table in OF_CUTS.tables:
            mine, target = dates.get(table.name), table.target
            rows = cut.held[mine.table if mine else table.name]
            if (changes := log.changes.get(table.ahead_of or table.name)) is not None:
                batch = under_name(batches(changes), target)
                rows = applied(target, rows, of_dates(batch, mine) if mine else batch)
            held[table.name] = [row for row in rows if mine is None or is_of(row["day"], mine)]
        return held


def applied(table: Table, rows: Sequence[Row], batch: Any) -> list[Row]:
    names = [column.name for column in table.columns]
    kept: dict[str, tuple[tuple[Any, ...], int]] = {}
    for row in rows:
        values = tuple(row[name] for name in names)
        key = identity_of(table, values)
        kept[key] = values, kept.get(key, (values, 0))[1] + 1
    after = apply(table, kept, [batch]).rows
    return [dict(zip(names, values, strict=True)) for values, copies in after.values() for _ in range(copies)]


def counted(rows: Sequence[Row]) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in rows)


def listed_late(log: LogToCutOff) -> list[str]:
    return [one.position.split()[0] for one in log.made.late]


def digest(view: Any, table: str) -> SegmentDigest:
    return sum(view.digests(Segment(table), run_key="k").values(), SegmentDigest())


# ---- histories ------------------------------------------------------------------------------------------------------


@st.composite
def chains(draw: st.DrawFn) -> tuple[History, Cut, list[date]]:
    dice = Random(draw(st.integers(0, 1_000_000)))  # noqa: S311 (a test's dice)
    history = History.random(dice, draw(st.integers(4, 40)))
    # Beyond the last date: the end of what any cut is about.
    history.commit(end_of(DAYS[-1]) + timedelta(hours=6))
    last = history.held_at(end_of(DAYS[1]))
    number = draw(st.integers(0, last))
    low = draw(st.integers(0, number))
    days = sorted(draw(st.sets(st.sampled_from(DAYS[1:]), min_size=1)))
    return history, read_at(history, number, low), days


@settings(max_examples=150)
@given(chains())
def test_a_chain_of_cuts_from_the_log_is_a_replay_of_the_history_up_to_each_cut_off(
    chain: tuple[History, Cut, list[date]],
) -> None:
    history, cut, days = chain
    for steps, day in enumerate(days, start=1):
        # Its clock is five hours ahead at times: where a cut ends is asked here, and not whether the end is good.
        night = Night(history, limits=CutLogLimits(ahead_max_s=float("inf")))
        assert listed_late(night.read(cut.base, day)) == history.late_for(end_of(day))
        cut, expected, staged = night.make(cut, day)
        number = history.held_at(end_of(day))
        replayed = of_cut(history.states[number], day)
        for table in OF_CUTS.tables:
            assert counted(cut.held[table.name]) == counted(replayed[table.name]), table.name
            assert digest(expected, table.name) == digest(staged, table.name), table.name
        assert cut.base.position.covers(position(number)), "it holds all of them"
        assert not cut.base.position.covers(position(number + 1)), "and nothing behind"
        # Behind its last record; the next offset may be one that no reader sees.
        assert history.ends[number] - 2 < cut.base.place.offset <= history.ends[number]
        assert (cut.base.read_date, cut.base.steps) == (FIRST.isoformat(), steps)


# ---- implementations that are wrong ---------------------------------------------------------------------------------

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)


def plain_history() -> History:
    """The first date is read behind transaction 2; the second ends before transaction 6."""
    history = History()
    a, b = {"id": 1, "memo": "a"}, {"id": 1, "day": DAYS[1], "memo": "x"}
    history.commit(NOON - timedelta(days=1), (ACCOUNT, None, a), (ENTRY, None, b))
    history.commit(NOON - timedelta(days=1), (ENTRY, None, {"id": 2, "day": DAYS[2], "memo": "y"}))
    history.commit(NOON, (ACCOUNT, a, {"id": 1, "memo": "b"}), (VISIT, None, {"day": DAYS[1], "memo": "v"}))
    history.commit(NOON, (ENTRY, b, {**b, "day": DAYS[2]}), (ENTRY, None, {"id": 3, "day": DAYS[1], "memo": "z"}))
    history.commit(NOON, (VISIT, None, {"day": DAYS[1], "memo": "v"}))
    history.commit(end_of(DAYS[1]), (ACCOUNT, {"id": 1, "memo": "b"}, {"id": 1, "memo": "c"}))
    history.commit(end_of(DAYS[1]) - timedelta(seconds=1), (VISIT, {"day": DAYS[1], "memo": "v"}, None))
    history.commit(end_of(DAYS[2]))
    return history


class TakesTheTransactionAtTheCutOff(Night):
    def read(self, base: EarlierCut, day: date) -> LogToCutOff:
        reader: Any = TopicReader(self.history.log, at_most=3)
        tools = LogTools(lambda: reader, self.mark, self.clock, self.limits)
        return read_to_cut_off(PLAN, base, end_of(day) + timedelta(milliseconds=1), tools)


class MissesAMovedRow(Night):
    """It keeps the rows of the date that it had, and takes no row that comes from another date."""

    @staticmethod
    def carried_on(cut: Cut, log: LogToCutOff, day: date) -> dict[str, list[Row]]:
        held = Night.carried_on(cut, log, day)
        return {**held, "entry": [*held["entry"], {"id": 1, "day": DAYS[1], "memo": "x"}]}


def differing(night: Night, cut: Cut | None = None) -> list[str]:
    history = night.history
    made, expected, staged = night.make(cut or read_at(history, 2, 1), DAYS[1])
    replayed = of_cut(history.states[history.held_at(end_of(DAYS[1]))], DAYS[1])
    apart = [name for name, rows in replayed.items() if counted(made.held[name]) != counted(rows)]
    return apart or [
        table.name for table in OF_CUTS.tables if digest(expected, table.name) != digest(staged, table.name)
    ]


def test_a_plain_history_is_cut_right() -> None:
    assert differing(Night(plain_history())) == []


def test_a_cut_that_takes_the_transaction_at_the_cut_off_is_caught() -> None:
    assert differing(TakesTheTransactionAtTheCutOff(plain_history())) == ["account", "visit"]


def test_a_cut_that_misses_a_moved_row_differs_from_what_the_log_says() -> None:
    night = MissesAMovedRow(plain_history())
    _, expected, staged = night.make(read_at(night.history, 2, 1), DAYS[1])
    assert [t.name for t in OF_CUTS.tables if digest(expected, t.name) != digest(staged, t.name)] == ["entry"]


def test_a_base_that_stands_elsewhere_than_it_says_gives_another_cut() -> None:
    history = plain_history()
    said, held = read_at(history, 2, 1), read_at(history, 4, 1)
    assert differing(Night(history), replace(said, held=held.held)) == ["visit"]


def test_a_cut_that_applies_what_its_base_holds_already_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundaryGate, "keeps", lambda *_: True)
    history = plain_history()
    assert differing(Night(history), read_at(history, 4, 1)) == ["visit"]


# ---- where a cut ends ------------------------------------------------------------------------------------------------


def test_a_log_that_is_still_before_the_cut_off_is_asked_for_a_transaction_of_now() -> None:
    history = plain_history()
    night = Night(history)
    found = night.read(read_at(history, 2, 1).base, DAYS[3])
    assert (night.markers, found.made.transactions) == (1, 6)


def test_without_a_transaction_behind_the_cut_off_nothing_is_cut() -> None:
    class Silent(Night):
        def mark(self) -> str:
            self.clock.time += 1_000.0
            return "lost"

    history = plain_history()
    with pytest.raises(TransientError, match="more may come from before it"):
        Silent(history).read(read_at(history, 2, 1).base, DAYS[3])


def test_a_base_that_was_read_behind_the_cut_off_is_none() -> None:
    history = plain_history()
    with pytest.raises(NotByLog, match="behind the cut-off"):
        Night(history).read(read_at(history, 8, 1).base, DAYS[1])


def test_a_changed_table_ends_it() -> None:
    history = History()
    history.commit(NOON)
    history.log.ddl("alter table entry add x int", "entry")
    history._keep(history.states[-1], None)
    history.commit(end_of(DAYS[1]))
    with pytest.raises(SchemaConflict, match="entry"):
        Night(history).read(read_at(history, 0, 0).base, DAYS[1])


def test_more_changes_than_fit_into_memory_are_not_taken() -> None:
    night = Night(plain_history(), limits=CutLogLimits(changes_max=4))
    with pytest.raises(NotByLog, match="more than 4 row changes"):
        night.read(read_at(night.history, 2, 1).base, DAYS[1])


# ---- what came late -------------------------------------------------------------------------------------------------


def late_rows(history: History, *, cuts: Sequence[tuple[date, int, int]] = ((FIRST, 1, 2),)) -> list[tuple[Any, ...]]:
    """Of a cut of the third date that begins with that of the second, which ended behind transaction 2. `cuts`: date,
    version, and up to which transaction each of those before holds all."""
    log = Night(history).read(read_at(history, 2, 2, DAYS[1]).base, DAYS[2])
    known = [
        PublishedCut("bank", "warehouse", day, version, "r", position(at), end_of(day), (), Verdict.MATCH)
        for day, version, at in ((DAYS[1], 1, 2), *cuts)
    ]
    patches, images = registry.log_patches(PLAN), registry.log_images(PLAN, "warehouse")
    found = late_in_log(OF_CUTS, log.changes, known, until=log.position, patch_of=patches, images=images)
    return [(one.table, one.business_date, one.version, one.changed_in_log or one.unknown) for one in found]


def late_history() -> History:
    """Behind transaction 2 both first dates have ended, and rows still come for them."""
    history, at = History(), end_of(DAYS[1])
    early, own = {"id": 1, "day": FIRST, "memo": "x"}, {"id": 2, "day": DAYS[2], "memo": "x"}
    history.commit(NOON, (ENTRY, None, early), (VISIT, None, {"day": DAYS[1], "memo": "v"}))
    history.commit(NOON, (ENTRY, None, own))
    history.commit(at, (ENTRY, None, {"id": 3, "day": DAYS[1], "memo": "late"}), (ENTRY, own, {**own, "memo": "y"}))
    history.commit(at, (ENTRY, early, None), (ENTRY, None, {"id": 4, "day": None, "memo": "of no date"}))
    history.commit(at, *[(VISIT, None, {"day": DAYS[1], "memo": "v"})] * 2, (ENTRY, None, {**own, "id": 5}))
    history.commit(end_of(DAYS[2]))
    return history


def test_rows_that_the_log_brings_behind_the_cuts_of_their_dates_are_counted() -> None:
    assert late_rows(late_history()) == [
        ("entry", "2026-03-04", 1, 1),
        ("entry", "2026-03-05", 1, 1),
        ("visit", "2026-03-05", 1, 2),
    ]


def test_a_date_that_was_read_again_behind_them_has_no_late_rows_and_one_without_a_cut_none() -> None:
    read_again = ((FIRST, 2, 5), (FIRST, 1, 2))
    of_the_second = [("entry", "2026-03-05", 1, 1), ("visit", "2026-03-05", 1, 2)]
    assert late_rows(late_history(), cuts=read_again) == late_rows(late_history(), cuts=()) == of_the_second


def test_a_table_that_is_emptied_behind_a_cut_is_named() -> None:
    history = late_history()
    history.empty(ENTRY, end_of(DAYS[2]))
    history.commit(end_of(DAYS[3]))
    log = Night(history).read(read_at(history, 6, 6, DAYS[2]).base, DAYS[3])
    cut = PublishedCut("bank", "warehouse", DAYS[2], 1, "r", position(6), NOON, (), Verdict.MATCH)
    patches, images = registry.log_patches(PLAN), registry.log_images(PLAN, "warehouse")
    (found,) = late_in_log(OF_CUTS, log.changes, [cut], until=log.position, patch_of=patches, images=images)
    assert (found.table, found.business_date, found.unknown) == (
        "entry",
        "2026-03-06",
        "the log empties the table behind it",
    )


# ---- where a system date ends it -------------------------------------------------------------------------------------


def of_unit(table: Table, number: int, day: date) -> Row:
    row: Row = {"id": number, "day": day, "memo": f"unit {number}"}
    return {column.name: row[column.name] for column in table.columns}


def moved_on(table: Table) -> History:
    """Both units of a bank are at the second date, and its transaction 6 is the one that moves the last of them on."""
    history, before, after = History(), DAYS[1], DAYS[2]
    history.commit(NOON, *((table, None, of_unit(table, number, before)) for number in (1, 2)))
    history.commit(NOON, (ACCOUNT, None, {"id": 1, "memo": "a"}))
    history.commit(end_of(DAYS[3]), (ACCOUNT, None, {"id": 2, "memo": "by a clock that is ahead"}))
    history.commit(NOON, (table, of_unit(table, 1, before), of_unit(table, 1, after)))
    history.commit(NOON, (ACCOUNT, None, {"id": 3, "memo": "booked while one unit is through"}))
    history.commit(NOON, (table, of_unit(table, 2, before), of_unit(table, 2, after)))
    history.commit(NOON - timedelta(seconds=1), (ACCOUNT, None, {"id": 4, "memo": "late"}))
    return history


def to_system_date(history: History, table: Table, base: EarlierCut, number: int, day: date = DAYS[1]) -> LogToCutOff:
    view: Any = Views({table: history.states[number][table.name]})
    patches = registry.log_patches(PLAN)
    system_date = system_date_of(view, table, "day", day, patch_of=patches, of="the cut")
    night, reader = Night(history), TopicReader(history.log, at_most=3)
    tools = LogTools(lambda: reader, night.mark, night.clock, night.limits, system_date=system_date)  # type: ignore[arg-type,return-value]
    return read_to_cut_off(PLAN, base, end_of(day), tools)


@pytest.mark.parametrize("table", [ENTRY, VISIT], ids=["with-a-key", "without-one"])
@pytest.mark.parametrize(("number", "low"), [(2, 1), (5, 0)])
def test_a_date_ends_before_the_transaction_that_moves_the_system_date_of_every_unit_on(
    table: Table, number: int, low: int
) -> None:
    history = moved_on(table)
    found = to_system_date(history, table, read_at(history, number, low).base, number)
    assert found.position.covers(position(5)) and not found.position.covers(position(6))
    (late,) = found.made.late
    assert (found.made.moved_on, late.position.split()[0]) == (f"{table.name}.day", gtid(7))
    assert f"which moved {table.name}.day on at 2026-03-05T12:00:00" in found.made.in_words
    assert by_log_from_json(by_log_to_json(found.made)) == found.made


def test_a_system_date_that_ends_a_date_with_its_first_unit_would_leave_rows_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    any_unit = property(lambda self: any(str(text) > str(self.business_date) for text in self.rows.values()))
    monkeypatch.setattr(SystemDate, "is_later", any_unit)
    history = moved_on(ENTRY)
    found = to_system_date(history, ENTRY, read_at(history, 2, 1).base, 2)
    assert not found.position.covers(position(5))


def test_a_base_whose_system_date_is_later_is_none() -> None:
    history = moved_on(ENTRY)
    with pytest.raises(NotByLog, match="in the cut entry.day is behind 2026-03-05 already"):
        to_system_date(history, ENTRY, read_at(history, 6, 6).base, 6)


def waited_for(history: History, day: date, reader: TopicReader, night: Night) -> TransientError:
    """Of a date that no transaction of the log ends."""
    view: Any = Views({ENTRY: history.states[2]["entry"]})
    wanted = system_date_of(view, ENTRY, "day", day, patch_of=registry.log_patches(PLAN), of="the cut")
    tools = LogTools(lambda: reader, night.mark, night.clock, night.limits, system_date=wanted)  # type: ignore[arg-type,return-value]
    with pytest.raises(TransientError, match="no transaction that moves entry.day on") as error:
        read_to_cut_off(PLAN, read_at(history, 2, 1).base, end_of(day), tools)
    return error.value


def test_a_log_that_goes_on_for_ever_without_the_system_date_is_read_up_to_a_marker_of_now() -> None:
    """As where a heartbeat comes every 10 s: each moves the end of the wait on."""

    class Beating(TopicReader):
        beats = 0

        def poll(self, *args: Any, **named: Any) -> Any:
            self.beats += 1
            assert self.beats < 200, "it waits for ever"
            night.clock.time += 10.0
            history.commit(end_of(DAYS[3]), (ACCOUNT, None, {"id": 100 + self.beats, "memo": "beat"}))
            return super().poll(*args, **named)

    history = moved_on(ENTRY)
    night = Night(history)
    error = waited_for(history, DAYS[2], Beating(history.log, at_most=3), night)
    assert night.markers == 1
    assert "a marker that was committed" in error.message


def test_a_log_that_stands_still_before_the_system_date_is_waited_for_as_long_as_any() -> None:
    class Lagging(Night):
        def mark(self) -> str:
            """The capture does not bring it."""
            self.markers += 1
            self.clock.time += 1_000.0
            return "lost"

    history = moved_on(ENTRY)
    night = Lagging(history)
    error = waited_for(history, DAYS[2], TopicReader(history.log, at_most=3), night)
    assert (night.markers, "within 600 s" in error.message) == (1, True)
