"""Both sides brought to one position by the log: random histories and places, breaks planted in the destination, and
implementations that are wrong."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamline import registry
from seamline.domain.canonical import canonical_row, exact_columns, named_text, parse_row_text
from seamline.domain.catalogue import Table
from seamline.domain.cutover import Boundary, BoundaryGate
from seamline.domain.digest import Segment
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.log import Transaction
from seamline.domain.log_patch import LOG_BETWEEN, log_between_in_words
from seamline.domain.runs import Reconciliation, RunKind, RunState
from seamline.domain.self_test import self_test_in_words
from seamline.domain.verdict import Verdict
from seamline.plan.checks import ControlTotalPlan, ReconcilePlan
from seamline.plan.model import Run, SyncPlan
from seamline.ports import Marker, ReadView
from seamline.sync.bucket_search import Limits
from seamline.sync.comparison import compare_live
from seamline.sync.log_patched import LogLimits, LogPatched
from seamline.sync.patched_view import PatchedTable
from tests.log_topic import (
    ACCOUNT,
    AUDIT,
    STREAM,
    TABLES,
    TOPIC,
    TOPIC_ID,
    TRANSFER,
    Change,
    LogTopic,
    ManualClock,
    TopicReader,
    position,
    sync_plan,
)
from tests.unit.memory_views import MemoryView, Row

PLAN = replace(
    sync_plan(),
    reconcile=ReconcilePlan((ControlTotalPlan("transfer", "amount", ("tx",)), ControlTotalPlan("audit", ""))),
)
# So that few rows are searched as many are.
SMALL = Limits(rows_per_bucket=2, leaf_rows=2, refine_by=4, buckets_max=8, fetch_rows=8, systematic_share=2.0)
_NAMES = ("a", "b", "ü, ~", "", None)
State = dict[str, list[Row]]


class Tables:
    """`ports.ReadView` of several tables in memory."""

    def __init__(self, state: State, at: int) -> None:
        self.position = position(at)
        self._of = {table.name: MemoryView(table, state[table.name], position(at)) for table in TABLES}
        self.is_closed = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not hasattr(ReadView, name):
            raise AttributeError(name)

        def ask(about: Segment | str, *rest: Any, **named: Any) -> Any:
            table = about.table if isinstance(about, Segment) else about
            return getattr(self._of[table], name)(about, *rest, **named)

        return ask

    def close(self) -> None:
        self.is_closed = True


@dataclass
class History:
    """A log, and what the tables held after each of its transactions. The first state is that of an empty source."""

    log: LogTopic = field(default_factory=LogTopic)
    states: list[State] = field(default_factory=lambda: [{table.name: [] for table in TABLES}])
    ends: list[int] = field(default_factory=lambda: [0])
    # Of each transaction table, row before and row after; a table that was emptied has neither.
    changes: list[list[tuple[Table, Row | None, Row | None]]] = field(default_factory=list)

    @staticmethod
    def random(dice: Random, transactions: int) -> "History":
        history = History()
        for _ in range(transactions):
            if dice.random() < 0.06:
                history.empty(dice.choice(TABLES))
            else:
                history.commit(*(_Draw(dice, history.states[-1]).changes(dice.randint(0, 4))))
        return history

    def commit(self, *changes: tuple[Table, Row | None, Row | None]) -> None:
        state = {name: list(rows) for name, rows in self.states[-1].items()}
        for table, before, after in changes:
            if before is not None:
                state[table.name].remove(before)
            if after is not None:
                state[table.name].append(after)
        self.log.transaction(*(Change(t.name, _logged(before), _logged(after)) for t, before, after in changes))
        self.changes.append(list(changes))
        self._keep(state)

    def empty(self, table: Table) -> None:
        self.log.truncate(table.name)
        self.changes.append([(table, None, None)])
        self._keep({**self.states[-1], table.name: []})

    def _keep(self, state: State) -> None:
        self.states.append(state)
        self.ends.append(self.log.end)


class _Draw:
    """Changes of one transaction, one after the other."""

    def __init__(self, dice: Random, state: State) -> None:
        self._dice = dice
        self._state = {name: list(rows) for name, rows in state.items()}

    def changes(self, count: int) -> list[tuple[Table, Row | None, Row | None]]:
        return [self._change(self._dice.choice(TABLES)) for _ in range(count)]

    def _change(self, table: Table) -> tuple[Table, Row | None, Row | None]:
        rows = self._state[table.name]
        before = self._dice.choice(rows) if rows and self._dice.random() < 0.6 else None
        after = None if before is not None and self._dice.random() < 0.4 else self._row(table)
        if after is not None and table.is_keyed and any(_key(table, row) == _key(table, after) for row in rows):
            # Taken: the row keeps its key, or is the one that has it.
            before = next(row for row in rows if _key(table, row) == _key(table, after))
        if before is not None:
            rows.remove(before)
        if after is not None:
            rows.append(after)
        return table, before, after

    def _row(self, table: Table) -> Row:
        dice = self._dice
        match table.name:
            case "account":
                return {"id": dice.randint(1, 12), "name": dice.choice(_NAMES)}
            case "transfer":
                amount = Decimal(dice.randint(-9, 9)) / 4
                return {"tx": dice.randint(1, 3), "leg": dice.randint(1, 4), "amount": amount}
            case _:
                return {"actor": dice.choice(("ann", "bob")), "action": dice.choice(_NAMES)}


def _key(table: Table, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in table.key)


def _logged(row: Row | None) -> Row | None:
    return row and {name: f"{value:.4f}" if isinstance(value, Decimal) else value for name, value in row.items()}


@dataclass
class World:
    """A source that has gone on to `at_source`, and a destination that stands at `at_destination` and holds `held`."""

    history: History
    at_source: int
    at_destination: int
    held: State
    ledger_at: int = 0
    plan: SyncPlan = PLAN
    clock: ManualClock = field(default_factory=ManualClock)
    limits: LogLimits = field(default_factory=LogLimits)
    opened: list[Tables] = field(default_factory=list)
    markers_come: bool = True
    positions: list[int] = field(default_factory=list)
    joined: tuple[Boundary, ...] = ()
    reader: TopicReader | None = None

    def read_ledger(self, stream: StreamId) -> LedgerRow:
        ended = [Boundary(table.name, position(0), ended=True) for table in TABLES]
        boundaries = (*ended, *(self.joined if self.opened else ()))
        offset = self.history.ends[self.ledger_at]
        return LedgerRow(stream, TOPIC, TOPIC_ID, offset, position(self.ledger_at), 1, 1, 17_000, boundaries)

    def open_views(self, count: int) -> Sequence[ReadView]:
        assert self.opened, "the destination's views are open before the source's"
        at = self.positions.pop(0) if self.positions else self.at_source
        return self._views(self.history.states[at], at, count)

    def open_destination(self, count: int) -> Sequence[ReadView]:
        return self._views(self.held, self.at_destination, count)

    def _views(self, state: State, at: int, count: int) -> list[ReadView]:
        views: list[Any] = [Tables(state, at) for _ in range(count)]
        self.opened += views
        return views

    def commit_marker(self, marker: Marker) -> None:
        if self.markers_come:
            self.history.log.marker(marker.id, marker.kind)

    def by_log(self, kind: type[LogPatched] = LogPatched) -> LogPatched:
        parts: Any = self
        self.reader = TopicReader(self.history.log, at_most=3)
        reader: Any = self.reader
        return kind(
            self.plan, STREAM, parts, parts, self.open_destination, lambda: reader, registry.log_patches(self.plan),
            clock=self.clock, limits=self.limits,
        )  # fmt: skip

    def compare(self, kind: type[LogPatched] = LogPatched) -> Reconciliation:
        run = Run("r1", "settlement", RunKind.RECONCILE, None, self.plan, RunState.RUNNING)
        return compare_live(run, "warehouse", barrier=self.by_log(kind), views=2, limits=SMALL)


def world_of(history: History, at_destination: int, at_source: int, **rest: Any) -> World:
    held = {name: list(rows) for name, rows in history.states[at_destination].items()}
    return World(history, at_source, at_destination, held, **rest)


def reasons(found: Reconciliation) -> list[str]:
    return [f"{one.table} {one.verdict}: {one.reason}" for one in found.tables if one.verdict is not Verdict.MATCH]


# ---- histories ------------------------------------------------------------------------------------------------------


@st.composite
def worlds(draw: st.DrawFn) -> World:
    dice = Random(draw(st.integers(0, 1_000_000)))  # noqa: S311 (a test's dice)
    count = draw(st.integers(1, 25))
    history = History.random(dice, count)
    ledger_at, at_destination, at_source = sorted(draw(st.integers(0, count)) for _ in range(3))
    return world_of(history, at_destination, at_source, ledger_at=ledger_at)


@settings(max_examples=120)
@given(worlds())
def test_a_destination_that_only_lags_is_a_match_wherever_both_stand(world: World) -> None:
    found = world.compare()
    assert found.verdict is Verdict.MATCH, reasons(found)
    assert (found.mode, found.position) == ("log", position(world.at_source))
    assert found.evidence["held_s"] == 0.0
    between = found.evidence[LOG_BETWEEN]
    assert isinstance(between, dict)
    assert between["transactions"] == world.at_source - world.at_destination
    assert all(view.is_closed for view in world.opened)
    counted = {one.table: (one.source_rows, one.destination_rows) for one in found.tables}
    held = world.history.states[world.at_source]
    assert counted == {name: (len(rows), len(rows)) for name, rows in held.items()}


def replayed(world: World) -> dict[str, Counter[str]]:
    """What the destination would hold at the source's position: plain dicts and multisets, change by change."""
    keyed = {t.name: {_key(t, row): row for row in world.held[t.name]} for t in TABLES if t.is_keyed}
    audit = Counter(canonical_row(AUDIT, row) for row in world.held["audit"])
    for table, before, after in chain(*world.history.changes[world.at_destination : world.at_source]):
        rows = keyed.get(table.name)
        if rows is None:
            audit.subtract([canonical_row(AUDIT, before)] if before else [])
            audit.update([canonical_row(AUDIT, after)] if after else [])
            if before is after is None:
                audit.clear()
            continue
        if before is after is None:
            rows.clear()
        if before is not None:
            rows.pop(_key(table, before), None)
        if after is not None:
            rows[_key(table, after)] = after
    tables = {table.name: table for table in TABLES}
    found = {name: Counter(canonical_row(tables[name], row) for row in rows.values()) for name, rows in keyed.items()}
    return {**found, "audit": Counter({row: copies for row, copies in audit.items() if copies})}


def spoil(world: World, dice: Random) -> None:
    """Breaks of each kind somewhere in what the destination holds, if there is a row for them."""
    for table in TABLES:
        rows = world.held[table.name]
        for _ in range(dice.randint(0, 2)):
            if rows and dice.random() < 0.5:
                rows.remove(dice.choice(rows))
            elif rows and table.is_keyed:
                rows[dice.randrange(len(rows))] = {**dice.choice(rows), **_spoilt(table, rows[-1])}
            else:
                rows.append(_Draw(dice, {one.name: [] for one in TABLES})._row(table))
        if table.is_keyed:
            world.held[table.name] = list({_key(table, row): row for row in rows}.values())


def _spoilt(table: Table, row: Row) -> Row:
    return {"name": "spoilt"} if table is ACCOUNT else {**row, "amount": Decimal(77)}


@settings(max_examples=150)
@given(worlds(), st.integers(0, 1_000_000))
def test_planted_breaks_are_found_and_no_others(world: World, seed: int) -> None:
    spoil(world, Random(seed))  # noqa: S311 (a test's dice)
    found = world.compare()
    held, planted = world.history.states[world.at_source], replayed(world)
    for table, verdict in zip(TABLES, found.tables, strict=True):
        mine = Counter(canonical_row(table, row) for row in held[table.name])
        theirs = planted[table.name]
        if not table.is_keyed and min(theirs.values(), default=0) < 0:
            # A row that the log takes away and the destination never had: it lacks it, whatever is counted.
            assert verdict.verdict is Verdict.BREAK
            continue
        assert verdict.verdict is (Verdict.MATCH if mine == theirs else Verdict.BREAK), verdict
        apart = (mine - theirs) + (theirs - mine)
        keys = {_key_of(table, row) for row in apart}
        assert {one.key for one in verdict.breaks} == keys
    assert Verdict.INCONCLUSIVE not in {one.verdict for one in found.tables}, reasons(found)


def _key_of(table: Table, row: str) -> str:
    columns = exact_columns(table)
    texts = dict(zip((column.name for column in columns), parse_row_text(columns, row), strict=True))
    named = table.key_columns or columns
    return named_text(named, [texts[column.name] for column in named])


# ---- implementations that are wrong ---------------------------------------------------------------------------------


class StopsEarly(LogPatched):
    """Its replay lacks the last transaction."""

    def _patched(self, between: Any, gate: BoundaryGate) -> Mapping[str, PatchedTable]:
        between.kept.pop()
        return super()._patched(between, gate)


class AppliesAgain(LogPatched):
    """It applies what the destination holds already."""

    def _keep(self, transaction: Transaction, between: Any, gate: BoundaryGate) -> None:
        super()._keep(transaction, between, gate)
        super()._keep(transaction, between, gate)


class ForgetsDeletes(LogPatched):
    """A row that the log takes away stays."""

    def _patched(self, between: Any, gate: BoundaryGate) -> Mapping[str, PatchedTable]:
        for transaction in between.kept:
            transaction.rows = [row for row in transaction.rows if row.op != "d"]
        return super()._patched(between, gate)


def _plain_history() -> History:
    history = History()
    account, audit = {"id": 1, "name": "a"}, {"actor": "ann", "action": "x"}
    history.commit((ACCOUNT, None, account), (ACCOUNT, None, {"id": 2, "name": "b"}))
    history.commit((TRANSFER, None, {"tx": 1, "leg": 1, "amount": Decimal("2.5")}), (AUDIT, None, audit))
    history.commit((ACCOUNT, account, None), (AUDIT, None, audit))
    history.commit((ACCOUNT, {"id": 2, "name": "b"}, {"id": 2, "name": "c"}))
    return history


@pytest.mark.parametrize(
    ("wrong", "table"), [(StopsEarly, "account"), (AppliesAgain, "audit"), (ForgetsDeletes, "account")]
)
def test_a_wrong_replay_is_caught(wrong: type[LogPatched], table: str) -> None:
    world = world_of(_plain_history(), 1, 4)
    assert world.compare().verdict is Verdict.MATCH
    found = world_of(_plain_history(), 1, 4).compare(wrong)
    assert [one.table for one in found.tables if one.verdict is Verdict.BREAK] == [table]


# ---- what keeps it from a verdict -----------------------------------------------------------------------------------


def test_the_report_names_both_positions_and_what_lay_between() -> None:
    found = world_of(_plain_history(), 1, 4).compare()
    (line,) = log_between_in_words(found.evidence)
    assert line.startswith(
        f"log-patched: source at {position(4)}, destination at {position(1)}, 5 changes of the log in 3 transactions"
        " between."
    )
    assert "0 others" in self_test_in_words(found.evidence)[0]


def test_more_changes_than_are_held_in_memory_are_inconclusive() -> None:
    found = world_of(_plain_history(), 1, 4, limits=LogLimits(changes_max=4)).compare()
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "more than 4 row changes" in found.tables[0].reason


def test_a_marker_that_does_not_come_is_inconclusive_in_time() -> None:
    world = world_of(_plain_history(), 1, 4, markers_come=False)

    def passing(timeout_s: float, records_max: int) -> Sequence[Any]:
        world.clock.time += timeout_s
        return ()

    by_log = world.by_log()
    assert world.reader is not None
    world.reader.poll = passing  # type: ignore[method-assign]
    run = Run("r1", "settlement", RunKind.RECONCILE, None, PLAN, RunState.RUNNING)
    found = compare_live(run, "warehouse", barrier=by_log, views=1)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "did not bring the marker of this comparison within 600 s" in found.tables[0].reason
    assert all(view.is_closed for view in world.opened)


def test_source_views_behind_the_destination_are_opened_again() -> None:
    found = world_of(_plain_history(), 3, 4, positions=[2, 1]).compare()
    assert (found.verdict, found.position) == (Verdict.MATCH, position(4))
    behind = world_of(_plain_history(), 3, 4, positions=[2] * 9).compare()
    assert behind.verdict is Verdict.INCONCLUSIVE
    assert "no read view of the source covered" in behind.tables[0].reason


def test_a_table_that_joins_meanwhile_is_not_compared() -> None:
    joined = (Boundary("rate", position(3), ended=True),)
    found = world_of(_plain_history(), 3, 4, joined=joined).compare()
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "rate joined or left" in found.tables[0].reason


def test_a_changed_structure_between_both_positions_is_inconclusive() -> None:
    history = _plain_history()
    history.log.ddl("ALTER TABLE account ADD x int", "account")
    history._keep(history.states[-1])
    found = world_of(history, 4, 5).compare()
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "ALTER TABLE account" in found.tables[0].reason


def test_a_log_that_was_made_again_is_inconclusive() -> None:
    world = world_of(_plain_history(), 1, 4)
    by_log = world.by_log()
    assert world.reader is not None
    world.reader.topic_id = "another"  # type: ignore[misc]
    run = Run("r1", "settlement", RunKind.RECONCILE, None, PLAN, RunState.RUNNING)
    found = compare_live(run, "warehouse", barrier=by_log, views=1)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "recreated" in found.tables[0].reason


def test_one_table_whose_changes_cannot_be_read_leaves_the_others_their_verdict() -> None:
    history = _plain_history()
    history.log.transaction(Change("account", None, {"id": 9, "name": "z", "more": 1}))
    history._keep({**history.states[-1], "account": [*history.states[-1]["account"], {"id": 9, "name": "z"}]})
    found = world_of(history, 1, 5).compare()
    assert [one.verdict for one in found.tables] == [Verdict.INCONCLUSIVE, Verdict.MATCH, Verdict.MATCH]
    assert "could not be applied" in found.tables[0].reason
