"""Alterations that a source's log does not hold: found in the catalogue, and a stream stops before a wrong row."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from seamline.domain.catalogue import Column, Kind, Table, alterations
from seamline.domain.changes import TableChanges
from seamline.domain.errors import Diverged, SchemaConflict, TransientError
from seamline.domain.position import Position
from seamline.plan.model import StreamPlan
from seamline.ports import Lease, Staged, StreamReport
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sync.pace import Pace
from seamline.sync.span_loop import run_stream
from tests.log_topic import (
    ACCOUNT,
    LogTopic,
    ScriptedControl,
    TopicReader,
    gtid,
    insert,
    sync_plan,
)
from tests.unit.test_span_loop import Stage, history_of_five, published

ID = Column("id", Kind.INTEGER, "bigint", nullable=False, length=64)
AMOUNT = Column("amount", Kind.DECIMAL, "numeric(12,2)", precision=12, scale=2)
MEMO = Column("memo", Kind.STRING, "text", toastable=True)
ENTRY = Table("entry", (ID, AMOUNT, MEMO), ("id",), rows_estimate=1_000)


# ---- what was altered ----------------------------------------------------------------------------------------------


def test_a_table_that_only_grew_has_no_alterations() -> None:
    assert alterations(ENTRY, replace(ENTRY, rows_estimate=9_000_000)) == []


def with_columns(*columns: Column) -> Table:
    return replace(ENTRY, columns=columns)


ALTERATIONS: dict[str, tuple[Table, list[str]]] = {
    "dropped": (with_columns(ID, AMOUNT), ["entry.memo was dropped or renamed"]),
    "added": (
        with_columns(ID, AMOUNT, MEMO, Column("at", Kind.DATE, "date")),
        ["entry.at date is new"],
    ),
    "renamed": (
        with_columns(ID, AMOUNT, replace(MEMO, name="note")),
        ["entry.memo was dropped or renamed", "entry.note text is new"],
    ),
    "another type": (
        with_columns(ID, Column("amount", Kind.DOUBLE, "double precision"), MEMO),
        ["entry.amount is now double precision, was numeric(12,2)"],
    ),
    "another scale": (
        with_columns(ID, replace(AMOUNT, source_type="numeric(12,4)", scale=4), MEMO),
        ["entry.amount is now numeric(12,4), was numeric(12,2)"],
    ),
    "not null": (
        with_columns(ID, replace(AMOUNT, nullable=False), MEMO),
        ["entry.amount is now numeric(12,2) NOT NULL, was numeric(12,2)"],
    ),
    "null allowed": (
        with_columns(replace(ID, nullable=True), AMOUNT, MEMO),
        ["entry.id is now bigint, was bigint NOT NULL"],
    ),
    "another order": (with_columns(ID, MEMO, AMOUNT), ["entry has its columns in another order"]),
    "another key": (replace(ENTRY, key=("id", "amount")), ["the primary key of entry is now id, amount, was id"]),
    "large values loaded as if the log always had them": (
        with_columns(ID, AMOUNT, replace(MEMO, toastable=False)),
        ["entry.memo was loaded by an earlier version, which did not know that its log may leave the value out"],
    ),
    "no key": (replace(ENTRY, key=()), ["the primary key of entry is now none, was id"]),
    "all at once": (
        Table("entry", (replace(AMOUNT, nullable=False), MEMO, replace(ID, name="number")), ("number",)),
        [
            "entry.id was dropped or renamed",
            "entry.number bigint is new",
            "entry.amount is now numeric(12,2) NOT NULL, was numeric(12,2)",
            "the primary key of entry is now number, was id",
        ],
    ),
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_each_alteration_of_a_table_is_reported_in_words(alteration: str) -> None:
    found, expected = ALTERATIONS[alteration]
    assert alterations(ENTRY, found) == expected


def test_a_key_that_was_added_to_a_table_without_one_is_reported() -> None:
    keyless = replace(ENTRY, key=())
    assert alterations(keyless, ENTRY) == ["the primary key of entry is now id, was none"]


def test_a_key_of_the_same_columns_in_another_order_is_another_key() -> None:
    planned, found = (replace(ENTRY, key=key) for key in (("id", "amount"), ("amount", "id")))
    assert alterations(planned, found) == ["the primary key of entry is now amount, id, was id, amount"]


# ---- a stream that asks --------------------------------------------------------------------------------------------


class Guard:
    """ports.SchemaGuard: remembers what it was asked, and asks back."""

    verified: Position | None = None

    def __init__(self, answer: Callable[[int], None] = lambda number: None) -> None:
        self.asked: list[Position] = []
        self._answer = answer

    def verify(self, through: Position) -> None:
        self.asked.append(through)
        self._answer(len(self.asked))

    def is_as_planned(self, fingerprints: Mapping[str, str]) -> bool:  # noqa: ARG002
        return False

    def close(self) -> None:
        return


def run(stage: Stage, guard: Guard, *, pace: Pace | None = None) -> StreamReport:
    return run_stream(
        stage.plan,
        "warehouse",
        reader=stage.reader,
        sink=stage.sink,
        control=stage.control,
        schema_guard=guard,
        clock=stage.clock,
        pace=pace,
    )


def one_by_one(log: LogTopic, *, at_most: int = 1_000) -> Stage:
    """A stream that commits each transaction by itself."""
    stage = Stage(log, published(), plan=sync_plan(stream=StreamPlan(span_changes_max=1)))
    stage.reader = TopicReader(log, at_most=at_most)
    stage.control = ScriptedControl(stage.reader)
    return stage


def altered_from(first: int) -> Callable[[int], None]:
    def answer(number: int) -> None:
        if number >= first:
            raise SchemaConflict("account.name is now text", table="account")

    return answer


@pytest.mark.parametrize("at_most", [3, 1_000], ids=["little by little", "at once"])
def test_an_altered_table_stops_the_stream_before_the_commit_that_it_could_spoil(at_most: int) -> None:
    stage, guard = one_by_one(history_of_five(), at_most=at_most), Guard(altered_from(3))
    with pytest.raises(SchemaConflict, match="account.name is now text") as caught:
        run(stage, guard)
    assert caught.value.sync == "settlement"
    assert sorted(row["id"] for row in stage.destination.rows(ACCOUNT)) == [1, 2]
    assert stage.ledger.applied_transactions == 2
    assert stage.commits[-1] == stage.ledger


def test_the_guard_is_asked_before_each_commit_with_the_position_that_it_will_have() -> None:
    stage, guard = one_by_one(history_of_five()), Guard()
    run(stage, guard)
    assert guard.asked == [row.position for row in stage.commits]
    assert len(guard.asked) == 5


def test_nothing_is_staged_before_the_guard_has_answered() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    stage = Stage(log, published())
    stage.sink.stage = None  # type: ignore[method-assign,assignment]
    with pytest.raises(SchemaConflict, match="is now text"):
        run(stage, Guard(altered_from(1)))
    assert stage.commits == []


def test_the_guard_is_asked_before_the_chunks_of_a_large_transaction_are_committed() -> None:
    log = LogTopic()
    log.transaction(*[insert(ACCOUNT, id=n, name="a") for n in range(20)])
    stage = one_by_one(log, at_most=4)
    guard = Guard(altered_from(1))
    with pytest.raises(SchemaConflict):
        run(stage, guard, pace=Pace(chunk_rows_max=8))
    assert stage.destination.rows(ACCOUNT) == []
    assert guard.asked == [BinlogPosition(gtid(1), "mdb-bin.000001", 1000)]


def test_the_guard_is_asked_before_what_chunks_have_met_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who altered the table at the source is to hear of that, and not of a row that is not there."""
    log = LogTopic()
    log.transaction(*[insert(ACCOUNT, id=n, name="a") for n in range(20)])
    stage = one_by_one(log, at_most=4)

    def stage_chunk(lease: Lease, changes: TableChanges) -> Staged:
        raise Diverged("a row is not there")

    monkeypatch.setattr(stage.sink, "stage", stage_chunk)
    with pytest.raises(SchemaConflict, match="is now text"):
        run(stage, Guard(altered_from(1)), pace=Pace(chunk_rows_max=8))


def test_transactions_that_change_nothing_are_committed_at_the_end_without_asking_the_guard() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    for _ in range(3):
        log.transaction()
    stage, guard = one_by_one(log, at_most=3), Guard(altered_from(2))
    run(stage, guard)
    assert (len(guard.asked), stage.ledger.applied_transactions) == (1, 4)


@pytest.mark.parametrize("fails_at", [1, 3, 5])
def test_a_source_that_does_not_answer_the_guard_loses_nothing(fails_at: int) -> None:
    def answer(number: int) -> None:
        if number == fails_at:
            raise TransientError("the source does not answer")

    log = history_of_five()
    stage = one_by_one(log)
    with pytest.raises(TransientError, match="does not answer"):
        run(stage, Guard(answer))
    assert stage.ledger.applied_transactions == fails_at - 1
    again = Stage(log, stage.destination)
    run(again, Guard())
    assert again.ledger.applied_transactions == 5
    assert sorted(row["id"] for row in again.destination.rows(ACCOUNT)) == [1, 2, 3, 4, 5]
    assert again.destination.findings == []
