"""Tables join a stream by an incremental snapshot: for any history, wherever the stream stands and the snapshot was
read."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.errors import Fenced, InvariantViolated, LogCorrupted, Refused, SchemaConflict, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.position import position_to_json
from seamline.domain.runs import RunKind, RunState
from seamline.plan.document import plan_to_json
from seamline.plan.list_change import ListChange, kept_name
from seamline.plan.model import Run
from seamline.ports import Commit, Joining, StreamReport
from seamline.sync.incremental_snapshot import JoinTools, ReaderBehind, join_stream
from tests.bank_history import History, histories
from tests.log_topic import (
    ACCOUNT,
    AUDIT,
    STREAM,
    TOPIC,
    TOPIC_ID,
    TRANSFER,
    LogTopic,
    ManualClock,
    TopicReader,
    insert,
    position,
    publication,
    sync_plan,
)
from tests.memory_sink import MemoryDestination, MemorySink
from tests.unit.test_span_loop import Stage, state_of

ENTERING = (TRANSFER, AUDIT)
CHANGE = ListChange(added=("transfer", "audit"))


class RunningClock(ManualClock):
    """Each look costs a moment, so that waiting ends."""

    def now(self) -> float:
        self.time += 0.01
        return self.time


@dataclass
class Standing:
    """StreamDirector of a stream that is as far as its ledger says, and stands as soon as it is asked to."""

    destination: MemoryDestination
    state: str = "streaming"
    obeys: bool = True
    hold_id: str = ""
    holds: int = 0
    age_s: float = 0.0
    wanted: list[tuple[StreamId, str]] = field(default_factory=list)
    leases: list[float] = field(default_factory=list)

    def latest_report(self, stream: StreamId) -> StreamReport | None:
        place = self.destination.ledgers[stream].next_offset
        state = "held" if self.hold_id and self.obeys else self.state
        hold_id = self.hold_id if state == "held" else ""
        return StreamReport(stream, state, next_offset=place, hold_id=hold_id, age_s=self.age_s)

    def hold(self, stream: StreamId, *, lease_s: float) -> str:
        self.holds += 1
        self.leases.append(lease_s)
        self.hold_id = f"hold-{self.holds}"
        return self.hold_id

    def extend(self, hold_id: str, *, lease_s: float) -> None:
        raise NotImplementedError

    def release(self, hold_id: str) -> None:
        self.hold_id = ""

    def want(self, stream: StreamId, *, plan_json: str) -> None:
        self.wanted.append((stream, plan_json))

    def unwant(self, stream: StreamId) -> None:
        raise NotImplementedError

    def apply_up_to(self, hold_id: str, position: Any) -> None:
        raise NotImplementedError


def prefix(log: LogTopic, count: int) -> LogTopic:
    """What of the log had been written when the stream came so far."""
    cut = LogTopic(records=log.records[:count])
    cut._offset = log.records[count].offset if count < len(log.records) else log.end  # noqa: SLF001
    return cut


def carrying_accounts(history: History, records: int) -> MemoryDestination:
    """A stream of accounts that has applied so many records of the log."""
    destination = MemoryDestination()
    plan = sync_plan([ACCOUNT])
    MemorySink(plan, destination).publish(STREAM, (), publication=publication([ACCOUNT]))
    Stage(prefix(history.log, records), destination, plan=plan).run()
    return destination


def run_reading(history: History, destination: MemoryDestination, covered: int) -> Run:
    """A run whose snapshot holds the other tables as they were after this many transactions."""
    loads = []
    for table in ENTERING:
        rows = [json.loads(text) for text in history.states[covered][table.name]]
        destination.stage(table, f"s_{table.name}", rows)
        loads.append({"table": table.name, "staged_as": f"s_{table.name}", "rows": len(rows)})
    snapshot = {
        "position": position_to_json(position(covered)),
        "low_marker": "low-1",
        "high_marker": "high-1",
        "topic": TOPIC,
        "topic_id": TOPIC_ID,
        "next_offset": 0,
        "loads": {"warehouse": loads},
    }
    return Run("run-2", "settlement", RunKind.TABLES, None, sync_plan(), RunState.RUNNING, {"snapshot": snapshot})


def joined(run: Run, history: History, director: Standing, change: ListChange = CHANGE, failpoints: str = "") -> Commit:
    armed = ArmedFailpoints(failpoints)
    tools = JoinTools(
        director=director,
        open_log=lambda: TopicReader(history.log),
        open_sink=lambda plan: MemorySink(plan, director.destination, failpoints=armed),
        open_schema_guard=lambda plan: None,
        failpoints=armed,
        clock=RunningClock(),
    )
    return join_stream(run, "warehouse", change, tools=tools)


@given(histories(), st.data())
def test_whatever_the_place_the_tables_join_exactly_and_the_stream_goes_on_exactly(
    history: History, data: st.DataObject
) -> None:
    destination = carrying_accounts(history, data.draw(st.integers(0, len(history.log.records)), label="applied"))
    before = destination.ledgers[STREAM]
    covered = data.draw(st.integers(0, len(history.states) - 1), label="covered")
    director = Standing(destination)
    commit = joined(run_reading(history, destination, covered), history, director)
    assert (commit.ledger.next_offset, commit.ledger.position) == (before.next_offset, before.position)
    stands_at = max(before.applied_transactions, covered)
    assert state_of(destination) == {
        "account": history.states[before.applied_transactions]["account"],
        **{table.name: history.states[stands_at][table.name] for table in ENTERING},
    }
    assert director.hold_id == "", "the stream is let go"
    Stage(history.log, destination).run()
    assert state_of(destination) == history.states[-1]
    assert destination.findings == []


@given(histories(), st.sampled_from(["app.fetched", "app.dml_half", "app.commit_acked", "app.epoch_taken"]), st.data())
def test_an_incremental_snapshot_that_ended_anywhere_goes_on_from_its_own_ledger(
    history: History, place: str, data: st.DataObject
) -> None:
    destination = carrying_accounts(history, len(history.log.records))
    run = run_reading(history, destination, data.draw(st.integers(0, len(history.states) - 1), label="covered"))
    hit = data.draw(st.integers(1, 3), label="hit")
    try:
        joined(run, history, Standing(destination), failpoints=f"{place}=error@{hit}")
    except TransientError:
        joined(run, history, Standing(destination))
    Stage(history.log, destination).run()
    assert state_of(destination) == history.states[-1]
    assert destination.findings == []


def three_transfers() -> History:
    log = LogTopic()
    states: list[dict[str, list[str]]] = [{"account": [], "transfer": [], "audit": []}]
    for number in range(3):
        row = {"tx": number, "leg": 1, "amount": "1.0000"}
        log.transaction(insert(TRANSFER, **row))
        states.append({**states[-1], "transfer": [*states[-1]["transfer"], json.dumps(row, sort_keys=True)]})
    return History(log, states)


def test_an_incremental_snapshot_that_overtakes_the_stream_would_join_wrong_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted bug: without its bound the incremental snapshot applies what the stream will apply once more."""
    history = three_transfers()
    monkeypatch.setattr(ReaderBehind, "_may_give", lambda self, record: True)
    destination = carrying_accounts(history, 3)
    with pytest.raises(InvariantViolated, match="overtook settlement@warehouse"):
        joined(run_reading(history, destination, 0), history, Standing(destination))
    assert state_of(destination)["transfer"] == []


def test_the_stream_of_before_is_fenced_and_a_repeat_changes_nothing() -> None:
    history = three_transfers()
    destination = carrying_accounts(history, 3)
    old = MemorySink(sync_plan([ACCOUNT]), destination)
    lease = old.acquire(STREAM)
    run = run_reading(history, destination, 0)
    first = joined(run, history, Standing(destination))
    assert first.ledger.epoch > lease.epoch
    with pytest.raises(Fenced):
        old.acquire(STREAM, after_epoch=lease.epoch)
    Stage(history.log, destination).run()
    director = Standing(destination)
    again = joined(run, history, director)
    assert director.wanted == [(STREAM, plan_to_json(run.plan))]
    assert again.ledger.next_offset > first.ledger.next_offset
    assert state_of(destination) == history.states[-1]


def test_a_joining_that_stops_behind_its_commit_is_not_led_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it belongs to the next run of the task, which asks the destination first."""
    history = three_transfers()
    destination = carrying_accounts(history, 3)
    run, director, join = run_reading(history, destination, 0), Standing(destination), MemorySink.join

    def stopping(sink: MemorySink, stream: StreamId, joining: Joining) -> Commit:
        join(sink, stream, joining)
        raise TransientError("its tables have no names yet")

    with monkeypatch.context() as patch:
        patch.setattr(MemorySink, "join", stopping)
        with pytest.raises(TransientError, match=r"^its tables have no names yet$"):
            joined(run, history, director)
    assert director.holds == 1
    joined(run, history, director)
    assert (director.holds, director.hold_id) == (1, "")


@pytest.mark.parametrize("state", ["paused", "failed", "stopped"])
def test_a_stream_that_does_not_move_is_named_and_nothing_joins(state: str) -> None:
    history = three_transfers()
    destination = carrying_accounts(history, 3)
    with pytest.raises(Refused, match=f"settlement@warehouse is {state}"):
        joined(run_reading(history, destination, 0), history, Standing(destination, state=state))
    assert state_of(destination)["transfer"] == []


def test_a_stream_that_never_stands_still_is_asked_a_few_times_and_let_go() -> None:
    history = three_transfers()
    destination = carrying_accounts(history, 3)
    director = Standing(destination, obeys=False)
    with pytest.raises(TransientError, match="asked 5 times"):
        joined(run_reading(history, destination, 0), history, director)
    assert (director.holds, director.hold_id) == (5, "")
    assert director.leases == [30, 60, 120, 120, 120], "each longer than the one that was too short, up to the ceiling"


def test_a_stream_that_starts_by_an_older_plan_passes_over_no_change_of_a_table_that_joined() -> None:
    """The joining raised the epoch, which fences who is alive; who starts later takes a newer one."""
    history = three_transfers()
    destination = carrying_accounts(history, 3)
    joined(run_reading(history, destination, 0), history, Standing(destination))
    before = destination.ledgers[STREAM].next_offset
    with pytest.raises(SchemaConflict, match="carries audit, transfer"):
        Stage(history.log, destination, plan=sync_plan([ACCOUNT])).run()
    assert destination.ledgers[STREAM].next_offset == before
    Stage(history.log, destination).run()
    assert state_of(destination) == history.states[-1]


def test_what_is_sent_twice_behind_a_joining_stops_the_stream_although_the_new_tables_stand_further() -> None:
    """Their snapshot drops it for them alone: it must not be taken for what a new sync reads once more."""
    log = LogTopic()
    for number in (1, 1, 2):
        log.begin(number)
        log.row(insert(ACCOUNT, id=number, name="a"))
        log.finish()
    history = History(log, [{"account": [], "transfer": [], "audit": []}] * 3)
    destination = carrying_accounts(history, 3)
    joined(run_reading(history, destination, 2), history, Standing(destination))
    with pytest.raises(LogCorrupted, match="a second time"):
        Stage(history.log, destination).run()
    assert (destination.findings, state_of(destination)["account"]) == ([], ['{"id": 1, "name": "a"}'])


@pytest.mark.parametrize(("state", "age_s"), [("streaming", 61.0), ("no_slot", 0.0)])
def test_a_stream_of_which_nothing_is_heard_is_not_waited_for(state: str, age_s: float) -> None:
    history = three_transfers()
    destination = carrying_accounts(history, 3)
    with pytest.raises(TransientError, match="does not move"):
        joined(run_reading(history, destination, 0), history, Standing(destination, state=state, age_s=age_s))


def test_of_what_lies_beyond_its_stream_an_incremental_snapshot_reads_one_begin_only() -> None:
    """MariaDB leaves a BEGIN alone for a statement of tables that nobody captures."""
    log = LogTopic()
    for _ in range(3):
        log.begin()
    reader = ReaderBehind(TopicReader(log), RunningClock())
    reader.assign(0)
    for limit, records in ((0, 1), (0, 0), (1, 1), (3, 1)):
        reader.limit = limit
        assert len(reader.poll(0.1, 10)) == records, limit


def test_tables_leave_without_any_incremental_snapshot() -> None:
    history = three_transfers()
    destination = carrying_accounts(history, 3)
    run = replace(run_reading(history, destination, 0), plan=sync_plan([]))
    commit = joined(run, history, Standing(destination), ListChange(removed=("account",)))
    assert commit.ledger.boundaries == ()
    assert set(destination.state.tables) <= {kept_name("account", "run-2"), "transfer"}


def test_the_name_of_what_is_kept_fits_and_distinguishes_runs() -> None:
    names = {kept_name("ü" * 40, run) for run in ("run-1", "run-2")}
    assert len(names) == 2
    assert all(len(f"{name}_pkey".encode()) <= 63 and "__removed_" in name for name in names)
    assert kept_name("account", "run-1").startswith("account__removed_")


def test_two_tables_whose_long_names_begin_alike_are_kept_under_two_names() -> None:
    adjustments = "customer_order_line_item_adjustments_by_region"
    names = [kept_name(f"{adjustments}_{year}", "run-1") for year in (2024, 2025)]
    assert len(set(names)) == 2
    assert names == [kept_name(f"{adjustments}_{year}", "run-1") for year in (2024, 2025)], "a repeat finds them"
